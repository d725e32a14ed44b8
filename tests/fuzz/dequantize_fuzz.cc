// Loads whatever comes as a model and takes its quantization out, as `gq dequantize` does before
// it runs anything.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/graph/analysis.h"
#include "common/graph/model.h"
#include "common/quantize/dequantize/dequantize.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  gq::graph::LoadOptions options;
  options.max_total_bytes = int64_t{16} << 20;
  for (const char* name : {"fuzz.onnx", "fuzz.onnxtxt"}) {
    auto model = gq::graph::LoadModelFromBytes(bytes, name, options);
    if (!model.ok()) continue;
    (void)gq::quantize::Dequantize(&*model);
  }
  return 0;
}
