#include "common/runtime/data_shapes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/runtime/data_files.h"
#include "common/runtime/npy.h"
#include "common/runtime/npz.h"

namespace gq::runtime {
namespace {

namespace fs = std::filesystem;
using Shape = std::vector<int64_t>;

bool IsOpen(const OpenInput& input) {
  return std::any_of(input.shape.begin(), input.shape.end(), [](int64_t dim) { return dim < 0; });
}

// `wanted` with its open dimensions taken from the shape of one sample; nothing when they
// contradict.
std::optional<Shape> Fill(Shape wanted, std::span<const int64_t> sample) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] < 0) {
      wanted[i] = sample[i];
    } else if (wanted[i] != sample[i]) {
      return std::nullopt;
    }
    if (wanted[i] <= 0) return std::nullopt;
  }
  return wanted;
}

// The array is a stack of samples along an axis of its own, or along the first axis of the input.
std::optional<Shape> SampleShape(const Shape& wanted, const Shape& array) {
  if (array.size() == wanted.size() + 1) return Fill(wanted, std::span(array).subspan(1));
  if (array.size() != wanted.size() || wanted.empty()) return std::nullopt;
  Shape sample = array;
  sample[0] = wanted[0] < 0 ? 1 : wanted[0];
  return Fill(wanted, sample);
}

class ShapeFinder {
 public:
  explicit ShapeFinder(std::span<const OpenInput> inputs) : inputs_(inputs) {
    for (const OpenInput& input : inputs) names_.push_back(input.name);
  }

  absl::Status AddFile(const fs::path& file) {
    if (file.extension() == ".npz") return AddArchive(file);
    size_t position = 0;
    if (inputs_.size() > 1) {
      GQ_ASSIGN_OR_RETURN(position, InputOfFile(file, names_));
    }
    if (!IsOpen(inputs_[position])) return absl::OkStatus();
    GQ_ASSIGN_OR_RETURN(const auto array, OpenNpy(file));
    return AddArray(inputs_[position], array->header().shape, file);
  }

  std::map<std::string, Shape> Finish() && {
    std::map<std::string, Shape> shapes;
    for (auto& [name, found] : found_) shapes[name] = std::move(found.shape);
    return shapes;
  }

 private:
  struct Found {
    Shape shape;
    fs::path file;
  };

  absl::Status AddArchive(const fs::path& file) {
    GQ_ASSIGN_OR_RETURN(const auto archive, NpzArchive::Open(file));
    const auto& keys = archive->keys();
    for (const OpenInput& input : inputs_) {
      if (!IsOpen(input) || std::find(keys.begin(), keys.end(), input.name) == keys.end()) continue;
      GQ_ASSIGN_OR_RETURN(const auto array, archive->OpenArray(input.name));
      GQ_RETURN_IF_ERROR(AddArray(input, array->header().shape, file));
    }
    return absl::OkStatus();
  }

  absl::Status AddArray(const OpenInput& input, const Shape& array, const fs::path& file) {
    std::optional<Shape> shape = SampleShape(input.shape, array);
    if (!shape) return absl::OkStatus();
    const auto [known, added] = found_.try_emplace(input.name, Found{*shape, file});
    if (added || known->second.shape == *shape) return absl::OkStatus();
    const auto text = [](const Shape& dims) {
      return base::StrCat("[", base::StrJoin(dims, ", "), "]");
    };
    return base::MakeError(
        base::Reason::kDynamicShape,
        base::StrCat(
            "the model leaves dimensions of input '", input.name,
            "' open, and the data has samples of several shapes: ", text(known->second.shape),
            " in ", known->second.file.string(), ", ", text(*shape), " in ", file.string()),
        base::StrCat("Give samples of one shape, or choose with --input-shape ", input.name, "=",
                     base::StrJoin(known->second.shape, "x"), " and leave out the others."));
  }

  std::span<const OpenInput> inputs_;
  std::vector<std::string> names_;
  std::map<std::string, Found> found_;
};

}  // namespace

absl::StatusOr<std::map<std::string, Shape>> ShapesOfData(std::span<const fs::path> paths,
                                                          std::span<const OpenInput> inputs) {
  if (std::none_of(inputs.begin(), inputs.end(), IsOpen)) return std::map<std::string, Shape>();
  GQ_ASSIGN_OR_RETURN(const std::vector<fs::path> files, ListDataFiles(paths));
  ShapeFinder finder(inputs);
  for (const fs::path& file : files) GQ_RETURN_IF_ERROR(finder.AddFile(file));
  return std::move(finder).Finish();
}

}  // namespace gq::runtime
