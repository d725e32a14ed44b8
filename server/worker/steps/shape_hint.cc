#include "server/worker/steps/shape_hint.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <vector>

#include "common/base/text.h"
#include "common/graph/graph_index.h"
#include "common/runtime/npy.h"
#include "common/runtime/npz.h"

namespace gq::worker {
namespace {

namespace fs = std::filesystem;
using Shape = std::vector<int64_t>;

std::optional<fs::path> FirstDataFile(const JobInputs& inputs) {
  if (inputs.calibration.empty()) return std::nullopt;
  std::error_code error;
  if (!fs::is_directory(inputs.calibration[0], error)) return inputs.calibration[0];
  std::vector<fs::path> files;
  for (fs::directory_iterator it(inputs.calibration[0], error), end; !error && it != end;
       it.increment(error)) {
    const fs::path kind = it->path().extension();
    if (kind == ".npy" || kind == ".npz") files.push_back(it->path());
  }
  if (files.empty()) return std::nullopt;
  return *std::min_element(files.begin(), files.end());
}

// Shapes of the arrays in a file by key; a .npy has the key "".
std::map<std::string, Shape> ArrayShapes(const fs::path& file) {
  std::map<std::string, Shape> shapes;
  if (file.extension() == ".npy") {
    if (const auto array = runtime::OpenNpy(file); array.ok())
      shapes[""] = (*array)->header().shape;
    return shapes;
  }
  const auto archive = runtime::NpzArchive::Open(file);
  if (!archive.ok()) return shapes;
  for (const std::string& key : (*archive)->keys()) {
    const auto array = (*archive)->OpenArray(key);
    if (array.ok()) shapes[key] = (*array)->header().shape;
  }
  return shapes;
}

// `wanted` with its open dimensions (-1) taken from `given`; nothing when they contradict.
std::optional<Shape> Fill(Shape wanted, const Shape& given) {
  if (wanted.size() != given.size()) return std::nullopt;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] < 0) {
      wanted[i] = i == 0 ? 1 : given[i];
    } else if (i > 0 && wanted[i] != given[i]) {
      return std::nullopt;
    }
    if (wanted[i] <= 0) return std::nullopt;
  }
  return wanted;
}

}  // namespace

std::string ShapeFlagsFromData(const JobInputs& inputs, const graph::Model& model) {
  const std::optional<fs::path> file = FirstDataFile(inputs);
  if (!file) return "";
  const std::map<std::string, Shape> arrays = ArrayShapes(*file);
  const graph::GraphIndex index(model.graph());
  std::vector<std::string> flags;
  for (const auto& input : model.graph().input()) {
    if (index.IsInitializer(input.name()) || index.StaticShape(input.name())) continue;
    const std::optional<Shape> wanted = index.Shape(input.name());
    auto array = arrays.find(input.name());
    if (array == arrays.end() && arrays.size() == 1) array = arrays.find("");
    if (!wanted || array == arrays.end()) return "";
    const std::optional<Shape> shape = Fill(*wanted, array->second);
    if (!shape) return "";
    flags.push_back(base::StrCat("--input-shape ", input.name(), "=", base::StrJoin(*shape, "x")));
  }
  return base::StrJoin(flags, " ");
}

}  // namespace gq::worker
