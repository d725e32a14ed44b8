#include <cmath>
#include <numbers>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/runtime/data_set.h"

namespace gq::runtime {
namespace {

constexpr int64_t kDefaultSamples = 8;

// SplitMix64 (Steele, Lea, Flood 2014): small, and the same everywhere.
class Generator {
 public:
  explicit Generator(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In (0, 1].
  double Uniform() { return static_cast<double>((Next() >> 11) + 1) * 0x1p-53; }
  // Box-Muller, one of the pair.
  double Normal() {
    const double radius = std::sqrt(-2 * std::log(Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

 private:
  uint64_t state_;
};

template <typename T>
void FillIntegers(Generator& generator, uint64_t below, Tensor* tensor) {
  for (T& value : tensor->MutableAs<T>()) value = static_cast<T>(generator.Next() % below);
}

absl::Status Fill(Generator& generator, Tensor* tensor) {
  switch (tensor->dtype()) {
    case onnx::TensorProto::FLOAT:
      for (float& value : tensor->MutableAs<float>()) {
        value = static_cast<float>(generator.Normal());
      }
      return absl::OkStatus();
    case onnx::TensorProto::DOUBLE:
      for (double& value : tensor->MutableAs<double>()) value = generator.Normal();
      return absl::OkStatus();
    case onnx::TensorProto::FLOAT16:
      for (uint16_t& value : tensor->MutableAs<uint16_t>()) {
        value = graph::FloatToHalf(static_cast<float>(generator.Normal()));
      }
      return absl::OkStatus();
    case onnx::TensorProto::BFLOAT16:
      for (uint16_t& value : tensor->MutableAs<uint16_t>()) {
        value = graph::FloatToBFloat16(static_cast<float>(generator.Normal()));
      }
      return absl::OkStatus();
    case onnx::TensorProto::INT8:
    case onnx::TensorProto::UINT8:
      FillIntegers<uint8_t>(generator, 100, tensor);
      return absl::OkStatus();
    case onnx::TensorProto::INT16:
    case onnx::TensorProto::UINT16:
      FillIntegers<uint16_t>(generator, 100, tensor);
      return absl::OkStatus();
    case onnx::TensorProto::INT32:
    case onnx::TensorProto::UINT32:
      FillIntegers<uint32_t>(generator, 100, tensor);
      return absl::OkStatus();
    case onnx::TensorProto::INT64:
    case onnx::TensorProto::UINT64:
      FillIntegers<uint64_t>(generator, 100, tensor);
      return absl::OkStatus();
    case onnx::TensorProto::BOOL:
      FillIntegers<uint8_t>(generator, 2, tensor);
      return absl::OkStatus();
    default:
      return base::MakeError(
          base::Reason::kModelUnsupported,
          base::StrCat("no random data for inputs of type ", graph::DTypeName(tensor->dtype())),
          "Give data with --calibration-data.");
  }
}

class RandomDataSet : public DataSet {
 public:
  RandomDataSet(std::span<const InputSpec> inputs, const DataSetOptions& options)
      : DataSet(inputs, options) {
    size_ = options.num_samples > 0 ? options.num_samples : kDefaultSamples;
    random_ = true;
    description_.push_back(base::StrCat(size_, " random samples from seed ", options.seed));
  }

  absl::Status Fetch(int64_t index, std::vector<Tensor>* sample) override {
    sample->clear();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      // A sequence of its own for each sample and input.
      Generator seeds(options_.seed);
      Generator sample_seeds(seeds.Next() + static_cast<uint64_t>(index) * inputs_.size() + i);
      Generator generator(sample_seeds.Next());
      GQ_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(inputs_[i].dtype, inputs_[i].shape));
      GQ_RETURN_IF_ERROR(Fill(generator, &tensor));
      sample->push_back(std::move(tensor));
    }
    return absl::OkStatus();
  }

 protected:
  std::string Locate(int64_t index, size_t input) const override {
    return base::StrCat("random data: input '", inputs_[input].name, "', sample ", index);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataSet>> DataSet::Random(std::span<const InputSpec> inputs,
                                                         const DataSetOptions& options) {
  auto data = std::make_unique<RandomDataSet>(inputs, options);
  std::vector<Tensor> sample;
  GQ_RETURN_IF_ERROR(data->Fetch(0, &sample));
  return data;
}

}  // namespace gq::runtime
