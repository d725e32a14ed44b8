// Loads whatever comes, as a binary and as a text model. Seeds: corpus/.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/graph/analysis.h"
#include "common/graph/model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  gq::graph::LoadOptions options;
  options.max_total_bytes = int64_t{64} << 20;
  for (const char* name : {"fuzz.onnx", "fuzz.onnxtxt"}) {
    const auto model = gq::graph::LoadModelFromBytes(bytes, name, options);
    if (model.ok()) gq::graph::Analyze(*model);
  }
  return 0;
}
