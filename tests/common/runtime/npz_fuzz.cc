// Data files are hostile input: any bytes as .npz and as .npy give arrays or an error.
#include <cstddef>
#include <cstdint>
#include <fstream>

#include "common/runtime/data_set.h"
#include "common/runtime/npy.h"
#include "common/runtime/npz.h"
#include "tests/common/runtime/temp_folder.h"

namespace {

void ReadEverything(const std::filesystem::path& folder) {
  const std::vector<gq::runtime::InputSpec> inputs = {{"x", onnx::TensorProto::FLOAT, {1, 4}}};
  for (const char* name : {"data.npz", "data.npy"}) {
    const std::vector<std::filesystem::path> paths = {folder / name};
    const auto data = gq::runtime::DataSet::Open(paths, inputs, {.allow_nonfinite = true});
    if (!data.ok()) continue;
    std::vector<gq::runtime::Tensor> sample;
    for (int64_t i = 0; i < std::min<int64_t>((*data)->size(), 16); ++i) {
      if (!(*data)->Read(i, &sample).ok()) break;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const gq::runtime::TempFolder folder;
  for (const char* name : {"data.npz", "data.npy"}) {
    std::ofstream file(folder.path() / name, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(size));
  }
  (void)gq::runtime::ParseNpyHeader(std::as_bytes(std::span(bytes, size)), "data.npy");
  ReadEverything(folder.path());
  return 0;
}
