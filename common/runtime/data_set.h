// Samples for calibration and evaluation, streamed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/graph/model.h"
#include "common/runtime/tensor.h"

namespace gq::runtime {

// One model input as the data set must deliver it.
struct InputSpec {
  std::string name;
  int32_t dtype = 0;
  std::vector<int64_t> shape;  // all dimensions known
  // Element type that the user's file has where the engine changed the input's type (a float16 or
  // double model that became float32); elements are then converted. 0: the same as dtype.
  int32_t file_dtype = 0;
};

// The inputs of a model (initializers left out). DYNAMIC_SHAPE when a dimension is not known.
absl::StatusOr<std::vector<InputSpec>> InputSpecs(const graph::Model& model);

struct DataSetOptions {
  int64_t num_samples = 0;  // at most this many; 0: all
  uint64_t seed = 42;       // of random data
  // A sample with NaN or infinity is left out with a warning instead of being an error.
  bool allow_nonfinite = false;
};

// Samples in a fixed order. One sample holds one tensor an input, in the order of the specs and of
// exactly their type and shape. Not thread-safe. Memory: one sample (plus one array where a
// compressed file is not read in order).
//
// Forms of files, for an input of shape S:
//   .npy  (one input): exactly S, or [N] + S, or N * S[0] along the first axis (N > 1 only for rank
//         >= 2 or S[0] = 1).
//   .npz  keys are input names; each array has one of these forms, and all give the same N.
//   k > 1 inputs as .npy: NAME.npy, or ifm_0.npy, ifm_1.npy, ... for input 0, 1, ...
//   Several files are taken in the given order, a folder's .npy and .npz files in order of name.
class DataSet {
 public:
  virtual ~DataSet() = default;

  // FILE_NOT_FOUND, FILE_UNREADABLE, DATA_INVALID, DATA_EMPTY, DATA_KEY_MISMATCH,
  // DATA_SHAPE_MISMATCH, DATA_TYPE_MISMATCH; messages name file and key and what was expected.
  static absl::StatusOr<std::unique_ptr<DataSet>> Open(std::span<const std::filesystem::path> paths,
                                                       std::span<const InputSpec> inputs,
                                                       const DataSetOptions& options = {});
  // `num_samples` (8 when 0) standard-normal samples; integers 0..99, bools 0 and 1, from the seed.
  // The same on every host.
  static absl::StatusOr<std::unique_ptr<DataSet>> Random(std::span<const InputSpec> inputs,
                                                         const DataSetOptions& options = {});
  // Over samples in memory, each with one tensor an input.
  static absl::StatusOr<std::unique_ptr<DataSet>> FromSamples(
      std::vector<std::vector<Tensor>> samples, std::span<const InputSpec> inputs,
      const DataSetOptions& options = {});

  const std::vector<InputSpec>& inputs() const { return inputs_; }
  int64_t size() const { return size_; }
  bool random() const { return random_; }
  bool allow_nonfinite() const { return options_.allow_nonfinite; }
  // How files were mapped to inputs and anything worth a warning, one sentence each, for the log.
  const std::vector<std::string>& description() const { return description_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

  enum class ReadResult {
    kSample,
    kSkipped,  // NaN or infinity and allow_nonfinite; SkipReason says where
  };
  // Sample `index` of 0 .. size()-1. `sample` may hold the tensors of an earlier call. Cheapest in
  // ascending order. DATA_NONFINITE names file, input, sample and element.
  absl::StatusOr<ReadResult> Read(int64_t index, std::vector<Tensor>* sample);
  const std::string& skip_reason() const { return skip_reason_; }

  // SHA-256 in hexadecimal over names, types, shapes and elements of all samples: equal for equal
  // data whatever files it came in. Reads everything once; kept afterwards.
  absl::StatusOr<std::string> Digest();

 protected:
  DataSet(std::span<const InputSpec> inputs, const DataSetOptions& options)
      : inputs_(inputs.begin(), inputs.end()), options_(options) {}
  // Delivers sample `index` with the types of the files, without checking elements.
  virtual absl::Status Fetch(int64_t index, std::vector<Tensor>* sample) = 0;
  // Where sample `index` of an input lies, for messages.
  virtual std::string Locate(int64_t index, size_t input) const = 0;

  std::vector<InputSpec> inputs_;
  DataSetOptions options_;
  int64_t size_ = 0;
  bool random_ = false;
  std::vector<std::string> description_;
  std::vector<std::string> warnings_;

 private:
  std::string skip_reason_;
  std::string digest_;
};

}  // namespace gq::runtime
