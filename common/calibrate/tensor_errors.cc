#include "common/calibrate/tensor_errors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "common/base/status.h"
#include "common/calibrate/tapped_graph.h"
#include "common/graph/graph_index.h"
#include "common/runtime/float_operator.h"
#include "common/runtime/session.h"

namespace gq::calibrate {
namespace {

constexpr char kTapOperator[] = "Tap";
constexpr size_t kPiece = 16384;

// Both sums over pieces of fixed size, in their order.
void Accumulate(std::span<const float> reference, std::span<const float> candidate,
                TensorError* error) {
  for (size_t begin = 0; begin < reference.size(); begin += kPiece) {
    const size_t end = std::min(reference.size(), begin + kPiece);
    double signal = 0;
    double noise = 0;
    double largest = 0;
    for (size_t i = begin; i < end; ++i) {
      const double r = reference[i];
      const double difference = r - static_cast<double>(candidate[i]);
      signal += r * r;
      noise += difference * difference;
      largest = std::max(largest, std::fabs(difference));
    }
    error->signal += signal;
    error->noise += noise;
    error->max_abs = std::max(error->max_abs, largest);
  }
  error->elements += static_cast<int64_t>(reference.size());
}

// A session that shows some of its tensors, by the number of their pair.
class ShowingSession {
 public:
  using Show = std::function<void(int64_t pair, std::span<const float> values)>;

  absl::Status Start(const graph::Model& model, std::span<const std::string> tensors, Show show) {
    show_ = std::move(show);
    GQ_ASSIGN_OR_RETURN(const runtime::OrtLibrary* library, runtime::OrtLibrary::Get());
    runtime::FloatOperatorDefinition definition{
        .name = kTapOperator,
        .inputs = 1,
        .memory = runtime::FloatOperatorDefinition::Memory::kPassThrough,
        .compute = [this](const runtime::FloatCall& call) {
          for (const int64_t pair : pairs_[static_cast<size_t>(call.id)]) {
            show_(pair, call.inputs[0]);
          }
        }};
    GQ_ASSIGN_OR_RETURN(operators_,
                        runtime::FloatOperators::Create(*library, {std::move(definition)}, 1));
    graph_ = InsertTaps(model, tensors, {.op_type = kTapOperator}, [&](const std::string& tensor) {
      std::vector<int64_t>& pairs = pairs_.emplace_back();
      for (size_t i = 0; i < tensors.size(); ++i) {
        if (tensors[i] == tensor) pairs.push_back(static_cast<int64_t>(i));
      }
      return static_cast<int64_t>(pairs_.size()) - 1;
    });
    GQ_ASSIGN_OR_RETURN(
        runtime::Session session,
        runtime::Session::Create(graph_.model, {.optimization = runtime::OptimizationLevel::kBasic,
                                                .threads = 1,
                                                .custom_op_domains = {operators_->domain()}}));
    session_ = std::make_unique<runtime::Session>(std::move(session));
    return absl::OkStatus();
  }

  absl::Status Run(std::span<const runtime::Tensor> sample) {
    for (const auto& [position, id] : graph_.inputs) ShowTensor(id, sample[position]);
    GQ_RETURN_IF_ERROR(session_->Run(sample, &outputs_));
    for (const auto& [position, id] : graph_.outputs) ShowTensor(id, outputs_[position]);
    return absl::OkStatus();
  }

 private:
  void ShowTensor(int64_t id, const runtime::Tensor& tensor) {
    for (const int64_t pair : pairs_[static_cast<size_t>(id)]) show_(pair, tensor.As<float>());
  }

  Show show_;
  std::vector<std::vector<int64_t>> pairs_;  // by node id
  TappedGraph graph_;
  std::unique_ptr<runtime::FloatOperators> operators_;
  std::unique_ptr<runtime::Session> session_;
  std::vector<runtime::Tensor> outputs_;
};

// One pass for pairs whose reference tensors fit into memory together.
absl::Status CompareGroup(const graph::Model& reference, const graph::Model& candidate,
                          std::span<const TensorPair> pairs, runtime::DataSet& data,
                          const TensorErrorOptions& options, base::Reporter& reporter,
                          std::map<std::string, TensorError>* result) {
  std::vector<std::string> reference_names;
  std::vector<std::string> candidate_names;
  for (const TensorPair& pair : pairs) {
    reference_names.push_back(pair.reference);
    candidate_names.push_back(pair.candidate);
  }
  std::vector<std::vector<float>> held(pairs.size());
  std::vector<TensorError> errors(pairs.size());
  std::vector<bool> compared(pairs.size(), false);
  ShowingSession first;
  GQ_RETURN_IF_ERROR(
      first.Start(reference, reference_names, [&](int64_t pair, std::span<const float> values) {
        held[static_cast<size_t>(pair)].assign(values.begin(), values.end());
      }));
  ShowingSession second;
  GQ_RETURN_IF_ERROR(
      second.Start(candidate, candidate_names, [&](int64_t pair, std::span<const float> values) {
        const auto index = static_cast<size_t>(pair);
        if (held[index].empty() || held[index].size() != values.size()) return;
        Accumulate(held[index], values, &errors[index]);
        compared[index] = true;
      }));
  const int64_t samples =
      options.max_samples > 0 ? std::min(options.max_samples, data.size()) : data.size();
  std::vector<runtime::Tensor> sample;
  for (int64_t index = 0; index < samples; ++index) {
    if (reporter.Cancelled()) {
      return base::MakeError(base::Reason::kCancelled, "the comparison was cancelled");
    }
    GQ_ASSIGN_OR_RETURN(const auto read, data.Read(index, &sample));
    if (read == runtime::DataSet::ReadResult::kSkipped) continue;
    GQ_RETURN_IF_ERROR(first.Run(sample));
    GQ_RETURN_IF_ERROR(second.Run(sample));
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (compared[i]) result->insert_or_assign(pairs[i].reference, errors[i]);
  }
  return absl::OkStatus();
}

}  // namespace

double TensorError::SnrDb() const {
  if (noise == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(signal / noise);
}

absl::StatusOr<std::map<std::string, TensorError>> CompareTensors(
    const graph::Model& reference, const graph::Model& candidate, std::span<const TensorPair> pairs,
    runtime::DataSet& data, const TensorErrorOptions& options, base::Reporter& reporter) {
  const graph::GraphIndex index(reference.graph());
  std::map<std::string, TensorError> result;
  size_t begin = 0;
  while (begin < pairs.size()) {
    size_t end = begin;
    int64_t bytes = 0;
    while (end < pairs.size()) {
      const auto shape = index.StaticShape(pairs[end].reference);
      const int64_t elements = shape.has_value() ? graph::ElementCount(*shape).value_or(0) : 0;
      bytes += elements * static_cast<int64_t>(sizeof(float));
      if (end > begin && bytes > options.max_bytes) break;
      ++end;
    }
    GQ_RETURN_IF_ERROR(CompareGroup(reference, candidate, pairs.subspan(begin, end - begin), data,
                                    options, reporter, &result));
    begin = end;
  }
  return result;
}

}  // namespace gq::calibrate
