#include <algorithm>
#include <map>
#include <optional>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/runtime/data_files.h"
#include "common/runtime/data_set.h"
#include "common/runtime/npy.h"
#include "common/runtime/npz.h"

namespace gq::runtime {
namespace {

using base::MakeError;
using base::Reason;
namespace fs = std::filesystem;

// How the samples of one input lie in one array.
struct Slicing {
  int64_t samples = 0;
  int64_t rows = 1;       // rows of the first axis a sample takes
  bool whole = false;     // the array is the sample
  int64_t left_over = 0;  // rows behind the last full batch
};

// One .npz file, or one .npy file an input.
struct Segment {
  std::vector<fs::path> files;  // one for all inputs, or one an input
  int64_t first = 0;            // number of its first sample
  std::vector<Slicing> slices;  // by input
};

std::optional<Slicing> SliceArray(const std::vector<int64_t>& array,
                                  const std::vector<int64_t>& input) {
  if (array == input) return Slicing{.samples = 1, .whole = true};
  if (array.size() == input.size() + 1 &&
      std::equal(input.begin(), input.end(), array.begin() + 1)) {
    return Slicing{.samples = array[0]};
  }
  const bool has_batch = input.size() >= 2 || (input.size() == 1 && input[0] == 1);
  if (has_batch && array.size() == input.size() && input[0] > 0 &&
      std::equal(input.begin() + 1, input.end(), array.begin() + 1) &&
      (array[0] == 0 || array[0] >= input[0])) {
    return Slicing{
        .samples = array[0] / input[0], .rows = input[0], .left_over = array[0] % input[0]};
  }
  return std::nullopt;
}

std::string AcceptedShapes(const InputSpec& input) {
  std::vector<std::string> dims;
  for (const int64_t dim : input.shape) dims.push_back(base::StrCat(dim));
  std::string text = base::StrCat("[", base::StrJoin(dims, ", "), "]");
  dims.insert(dims.begin(), "N");
  text += base::StrCat(" or [", base::StrJoin(dims, ", "), "]");
  if (input.shape.size() >= 2) {
    dims.erase(dims.begin());
    dims[0] = input.shape[0] == 1 ? "N" : base::StrCat("N*", input.shape[0]);
    text += base::StrCat(" or [", base::StrJoin(dims, ", "), "]");
  }
  return text;
}

class FileDataSet : public DataSet {
 public:
  FileDataSet(std::span<const InputSpec> inputs, const DataSetOptions& options)
      : DataSet(inputs, options) {}

  absl::Status OpenAll(std::span<const fs::path> paths);

 protected:
  absl::Status Fetch(int64_t index, std::vector<Tensor>* sample) override;
  std::string Locate(int64_t index, size_t input) const override;

 private:
  absl::Status AddSegments(const std::vector<fs::path>& files);
  absl::Status AddSegment(std::vector<fs::path> files);
  absl::Status CheckArray(const ArrayReader& array, size_t input, Slicing* slicing) const;
  absl::StatusOr<std::vector<std::unique_ptr<ArrayReader>>> OpenArrays(const Segment& segment,
                                                                       bool first_time);
  const Segment& SegmentOf(int64_t index) const;

  std::vector<Segment> segments_;
  const Segment* open_segment_ = nullptr;
  std::vector<std::unique_ptr<ArrayReader>> open_arrays_;
};

absl::Status FileDataSet::AddSegments(const std::vector<fs::path>& files) {
  std::vector<fs::path> group(inputs_.size());
  std::vector<std::string> names;
  for (const InputSpec& input : inputs_) names.push_back(input.name);
  size_t filled = 0;
  for (const fs::path& file : files) {
    if (file.extension() == ".npz" || inputs_.size() == 1) {
      GQ_RETURN_IF_ERROR(AddSegment({file}));
      continue;
    }
    GQ_ASSIGN_OR_RETURN(const size_t input, InputOfFile(file, names));
    if (!group[input].empty()) {
      return MakeError(Reason::kDataKeyMismatch,
                       base::StrCat("input '", inputs_[input].name, "' is given twice: ",
                                    group[input].string(), " and ", file.string()));
    }
    group[input] = file;
    if (++filled < inputs_.size()) continue;
    GQ_RETURN_IF_ERROR(AddSegment(group));
    group.assign(inputs_.size(), {});
    filled = 0;
  }
  if (filled == 0) return absl::OkStatus();
  std::vector<std::string> missing;
  for (size_t i = 0; i < group.size(); ++i) {
    if (group[i].empty()) missing.push_back(base::StrCat(inputs_[i].name, ".npy"));
  }
  return MakeError(Reason::kDataKeyMismatch, base::StrCat("no file for every input; missing: ",
                                                          base::StrJoin(missing, ", ")));
}

absl::StatusOr<std::vector<std::unique_ptr<ArrayReader>>> FileDataSet::OpenArrays(
    const Segment& segment, bool first_time) {
  std::vector<std::unique_ptr<ArrayReader>> arrays;
  if (segment.files[0].extension() == ".npy") {
    for (const fs::path& file : segment.files) {
      GQ_ASSIGN_OR_RETURN(arrays.emplace_back(), OpenNpy(file));
    }
    return arrays;
  }
  const std::string file = segment.files[0].string();
  GQ_ASSIGN_OR_RETURN(const auto archive, NpzArchive::Open(file));
  const std::vector<std::string>& keys = archive->keys();
  std::vector<std::string> quoted;
  for (const InputSpec& input : inputs_) quoted.push_back(base::StrCat("'", input.name, "'"));
  for (const InputSpec& input : inputs_) {
    if (std::find(keys.begin(), keys.end(), input.name) == keys.end()) {
      std::vector<std::string> present;
      for (const std::string& key : keys) present.push_back(base::StrCat("'", key, "'"));
      return MakeError(
          Reason::kDataKeyMismatch,
          base::StrCat(file, " has no array for input '", input.name,
                       "'; its keys: ", present.empty() ? "none" : base::StrJoin(present, ", "),
                       "; the model's inputs: ", base::StrJoin(quoted, ", ")),
          "Save the arrays with the input names as keys: numpy.savez(file, **{name: array}).");
    }
    GQ_ASSIGN_OR_RETURN(arrays.emplace_back(), archive->OpenArray(input.name));
  }
  for (const std::string& key : keys) {
    const bool known = std::any_of(inputs_.begin(), inputs_.end(),
                                   [&](const InputSpec& input) { return input.name == key; });
    if (first_time && !known) {
      warnings_.push_back(
          base::StrCat(file, ": array '", key, "' is no input of the model and is ignored"));
    }
  }
  return arrays;
}

absl::Status FileDataSet::CheckArray(const ArrayReader& array, size_t input,
                                     Slicing* slicing) const {
  const InputSpec& spec = inputs_[input];
  const NpyHeader& header = array.header();
  const std::string what = base::StrCat(array.name(), ": ", Describe(header.dtype, header.shape),
                                        " for input '", spec.name, "'; expected ");
  if (header.dtype != spec.dtype && (spec.file_dtype == 0 || header.dtype != spec.file_dtype)) {
    const std::string_view wanted =
        graph::DTypeName(spec.file_dtype != 0 ? spec.file_dtype : spec.dtype);
    return MakeError(Reason::kDataTypeMismatch, base::StrCat(what, wanted),
                     base::StrCat("Convert the array: array.astype(numpy.", wanted, ")."));
  }
  const auto found = SliceArray(header.shape, spec.shape);
  if (!found.has_value()) {
    return MakeError(Reason::kDataShapeMismatch, base::StrCat(what, AcceptedShapes(spec)),
                     "Give arrays of the model's input shape, several samples along the first "
                     "axis.");
  }
  if (found->samples == 0) {
    return MakeError(Reason::kDataEmpty, base::StrCat(what, "at least one sample"));
  }
  *slicing = *found;
  return absl::OkStatus();
}

absl::Status FileDataSet::AddSegment(std::vector<fs::path> files) {
  Segment segment{.files = std::move(files), .first = size_};
  GQ_ASSIGN_OR_RETURN(const auto arrays, OpenArrays(segment, true));
  segment.slices.resize(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    GQ_RETURN_IF_ERROR(CheckArray(*arrays[i], i, &segment.slices[i]));
    const Slicing& slicing = segment.slices[i];
    if (slicing.samples != segment.slices[0].samples) {
      return MakeError(Reason::kDataShapeMismatch,
                       base::StrCat(arrays[i]->name(), " has ", slicing.samples, " samples but ",
                                    arrays[0]->name(), " has ", segment.slices[0].samples));
    }
    if (slicing.left_over > 0) {
      warnings_.push_back(base::StrCat(arrays[i]->name(), ": the last ", slicing.left_over,
                                       " rows do not fill a batch of ", slicing.rows,
                                       " and are left out"));
    }
  }
  size_ += segment.slices[0].samples;
  if (segments_.size() < 2) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const NpyHeader& header = arrays[i]->header();
      description_.push_back(base::StrCat(arrays[i]->name(), " ",
                                          Describe(header.dtype, header.shape), " -> input '",
                                          inputs_[i].name, "', ", segment.slices[i].samples,
                                          segment.slices[i].samples == 1 ? " sample" : " samples"));
    }
  }
  segments_.push_back(std::move(segment));
  return absl::OkStatus();
}

absl::Status FileDataSet::OpenAll(std::span<const fs::path> paths) {
  if (inputs_.empty()) {
    return MakeError(Reason::kModelUnsupported, "the model has no inputs to feed");
  }
  GQ_ASSIGN_OR_RETURN(const std::vector<fs::path> files, ListDataFiles(paths));
  GQ_RETURN_IF_ERROR(AddSegments(files));
  if (segments_.empty()) return MakeError(Reason::kDataEmpty, "no data files were given");
  if (segments_.size() > 2) {
    description_.push_back(base::StrCat("and ", segments_.size() - 2, " more of this kind"));
  }
  if (options_.num_samples > 0 && size_ > options_.num_samples) {
    description_.push_back(
        base::StrCat("the first ", options_.num_samples, " of ", size_, " samples are used"));
    size_ = options_.num_samples;
  } else if (options_.num_samples > size_) {
    warnings_.push_back(
        base::StrCat(options_.num_samples, " samples were asked for, the data has ", size_));
  }
  return absl::OkStatus();
}

const Segment& FileDataSet::SegmentOf(int64_t index) const {
  const auto after = std::upper_bound(
      segments_.begin(), segments_.end(), index,
      [](int64_t wanted, const Segment& segment) { return wanted < segment.first; });
  return *(after - 1);
}

absl::Status FileDataSet::Fetch(int64_t index, std::vector<Tensor>* sample) {
  const Segment& segment = SegmentOf(index);
  if (open_segment_ != &segment) {
    open_segment_ = nullptr;
    GQ_ASSIGN_OR_RETURN(open_arrays_, OpenArrays(segment, false));
    open_segment_ = &segment;
  }
  sample->clear();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Slicing& slicing = segment.slices[i];
    const int64_t first = (index - segment.first) * slicing.rows;
    GQ_ASSIGN_OR_RETURN(const Tensor rows, slicing.whole
                                               ? open_arrays_[i]->ReadAll()
                                               : open_arrays_[i]->ReadRows(first, slicing.rows));
    sample->push_back(Tensor::Borrow(rows.dtype(), inputs_[i].shape, rows.bytes(), rows.owner()));
  }
  return absl::OkStatus();
}

std::string FileDataSet::Locate(int64_t index, size_t input) const {
  const Segment& segment = SegmentOf(index);
  const fs::path& file = segment.files.size() == 1 ? segment.files[0] : segment.files[input];
  return base::StrCat(
      file.string(), ": input '", inputs_[input].name, "', sample ", index,
      segments_.size() > 1 ? base::StrCat(" (", index - segment.first, " of this file)") : "");
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSet>> DataSet::Open(std::span<const fs::path> paths,
                                                       std::span<const InputSpec> inputs,
                                                       const DataSetOptions& options) {
  auto data = std::make_unique<FileDataSet>(inputs, options);
  GQ_RETURN_IF_ERROR(data->OpenAll(paths));
  return data;
}

}  // namespace gq::runtime
