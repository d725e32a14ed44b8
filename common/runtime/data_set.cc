#include "common/runtime/data_set.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::runtime {
namespace {

using base::MakeError;
using base::Reason;

// SHA-256 over pieces of known length, so that no two sequences of pieces look alike.
class PieceHash {
 public:
  void Number(int64_t value) {
    hash_.Update({reinterpret_cast<const char*>(&value), sizeof value});
  }
  void Text(std::string_view text) {
    Number(static_cast<int64_t>(text.size()));
    hash_.Update(text);
  }
  void Bytes(std::span<const std::byte> bytes) {
    Text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  std::string Finish() { return hash_.Finish(); }

 private:
  base::Sha256 hash_;
};

// Brings a tensor of the files to the type of the input.
absl::StatusOr<Tensor> Convert(const Tensor& tensor, const InputSpec& input) {
  if (tensor.dtype() == input.dtype) return tensor;
  GQ_ASSIGN_OR_RETURN(const std::vector<float> floats, tensor.View().ToFloats());
  return Tensor::Of<float>(tensor.shape(), floats);
}

class MemoryDataSet : public DataSet {
 public:
  MemoryDataSet(std::vector<std::vector<Tensor>> samples, std::span<const InputSpec> inputs,
                const DataSetOptions& options)
      : DataSet(inputs, options), samples_(std::move(samples)) {
    size_ = static_cast<int64_t>(samples_.size());
    if (options.num_samples > 0) size_ = std::min(size_, options.num_samples);
  }

 protected:
  absl::Status Fetch(int64_t index, std::vector<Tensor>* sample) override {
    *sample = samples_[static_cast<size_t>(index)];
    return absl::OkStatus();
  }
  std::string Locate(int64_t index, size_t input) const override {
    return base::StrCat("input '", inputs_[input].name, "', sample ", index);
  }

 private:
  std::vector<std::vector<Tensor>> samples_;
};

}  // namespace

absl::StatusOr<std::vector<InputSpec>> InputSpecs(const graph::Model& model) {
  std::set<std::string_view> initializers;
  for (const auto& tensor : model.graph().initializer()) initializers.insert(tensor.name());
  std::vector<InputSpec> specs;
  for (const onnx::ValueInfoProto& input : model.graph().input()) {
    if (initializers.contains(input.name())) continue;
    if (!input.type().has_tensor_type()) {
      return MakeError(Reason::kModelUnsupported,
                       base::StrCat("input '", input.name(), "' is not a tensor"));
    }
    const auto& type = input.type().tensor_type();
    InputSpec spec{.name = input.name(), .dtype = type.elem_type()};
    bool known = type.has_shape();
    for (const auto& dim : type.shape().dim()) {
      known = known && dim.has_dim_value() && dim.dim_value() >= 0;
      spec.shape.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
    }
    if (!known) {
      return MakeError(Reason::kDynamicShape,
                       base::StrCat("the shape of input '", input.name(),
                                    "' is not fixed: ", Describe(spec.dtype, spec.shape)),
                       base::StrCat("Fix it with --input-shape ", input.name(), "=1x..."));
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

absl::StatusOr<std::unique_ptr<DataSet>> DataSet::FromSamples(
    std::vector<std::vector<Tensor>> samples, std::span<const InputSpec> inputs,
    const DataSetOptions& options) {
  if (samples.empty()) return MakeError(Reason::kDataEmpty, "no samples");
  for (size_t s = 0; s < samples.size(); ++s) {
    if (samples[s].size() != inputs.size()) {
      return MakeError(Reason::kDataShapeMismatch,
                       base::StrCat("sample ", s, " has ", samples[s].size(),
                                    " tensors, the model has ", inputs.size(), " inputs"));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& tensor = samples[s][i];
      if (tensor.shape() == inputs[i].shape &&
          (tensor.dtype() == inputs[i].dtype || tensor.dtype() == inputs[i].file_dtype)) {
        continue;
      }
      return MakeError(Reason::kDataShapeMismatch,
                       base::StrCat("sample ", s, ", input '", inputs[i].name,
                                    "': ", Describe(tensor.dtype(), tensor.shape()), ", expected ",
                                    Describe(inputs[i].dtype, inputs[i].shape)));
    }
  }
  return std::make_unique<MemoryDataSet>(std::move(samples), inputs, options);
}

absl::StatusOr<DataSet::ReadResult> DataSet::Read(int64_t index, std::vector<Tensor>* sample) {
  if (index < 0 || index >= size_) {
    return MakeError(Reason::kInternal, base::StrCat("no sample ", index, " of ", size_));
  }
  GQ_RETURN_IF_ERROR(Fetch(index, sample));
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Tensor& tensor = (*sample)[i];
    GQ_ASSIGN_OR_RETURN(tensor, Convert(tensor, inputs_[i]));
    const int64_t bad = FindNonFinite(tensor);
    if (bad < 0) continue;
    const double value = tensor.View().At(bad);
    skip_reason_ = base::StrCat(Locate(index, i), ": element ", bad, " is ",
                                std::isnan(value) ? "NaN"
                                : value > 0       ? "+infinity"
                                                  : "-infinity");
    if (options_.allow_nonfinite) return ReadResult::kSkipped;
    return MakeError(Reason::kDataNonfinite, skip_reason_,
                     "Remove the sample, or leave such samples out with --allow-nonfinite.");
  }
  return ReadResult::kSample;
}

absl::StatusOr<std::string> DataSet::Digest() {
  if (!digest_.empty()) return digest_;
  PieceHash hash;
  hash.Number(static_cast<int64_t>(inputs_.size()));
  for (const InputSpec& input : inputs_) {
    hash.Text(input.name);
    hash.Number(input.dtype);
    hash.Number(static_cast<int64_t>(input.shape.size()));
    for (const int64_t dim : input.shape) hash.Number(dim);
  }
  hash.Number(size_);
  std::vector<Tensor> sample;
  for (int64_t index = 0; index < size_; ++index) {
    GQ_RETURN_IF_ERROR(Fetch(index, &sample));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      GQ_ASSIGN_OR_RETURN(const Tensor tensor, Convert(sample[i], inputs_[i]));
      hash.Bytes(tensor.bytes());
    }
  }
  return digest_ = hash.Finish();
}

}  // namespace gq::runtime
