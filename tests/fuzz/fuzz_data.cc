#include "tests/fuzz/fuzz_data.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "common/runtime/data_set.h"
#include "common/runtime/data_shapes.h"
#include "tests/temporary_folder.h"

namespace gq::fuzz {

void ReadAsData(std::span<const uint8_t> bytes, const std::string& name) {
  static const tests::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / name;
  {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  const std::vector<std::filesystem::path> paths = {path};
  const std::vector<runtime::OpenInput> open = {{"x", {-1, 4, -1}}};
  (void)runtime::ShapesOfData(paths, open);
  const std::vector<runtime::InputSpec> inputs = {{"x", onnx::TensorProto::FLOAT, {1, 4}}};
  const auto data = runtime::DataSet::Open(paths, inputs, {.allow_nonfinite = true});
  if (!data.ok()) return;
  std::vector<runtime::Tensor> sample;
  for (int64_t i = 0; i < std::min<int64_t>((*data)->size(), 16); ++i) {
    if (!(*data)->Read(i, &sample).ok()) break;
  }
}

}  // namespace gq::fuzz
