#include "common/explore/meter.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"
#include "common/runtime/session.h"

namespace gq::explore {
namespace {

constexpr double kLowest = -20;
constexpr double kHighest = 80;
constexpr int64_t kFewRows = 200;

int64_t Rows(const graph::GraphIndex& index, std::string_view tensor) {
  const auto shape = index.StaticShape(tensor);
  if (!shape || shape->empty()) return kFewRows;
  return std::accumulate(shape->begin(), shape->end() - 1, int64_t{1}, std::multiplies<>());
}

// Names of the Softmax nodes whose inputs are compared, by output.
std::vector<std::string> SoftmaxBehind(const graph::Model& model) {
  const graph::GraphIndex index(model.graph());
  std::vector<std::string> names;
  for (const auto& output : model.graph().output()) {
    const onnx::NodeProto* producer = index.Producer(output.name());
    const bool softmax = producer != nullptr && graph::IsOp(*producer, "Softmax") &&
                         Rows(index, output.name()) < kFewRows;
    names.push_back(softmax ? producer->name() : "");
  }
  return names;
}

// Adds an output for what each of these Softmax nodes reads. False where one is missing.
bool AddSoftmaxInputs(const std::vector<std::string>& softmax, graph::Model* model) {
  const graph::Model before = *model;
  const graph::GraphIndex index(before.graph());
  graph::NameScope names(before.graph());
  onnx::GraphProto* graph = model->mutable_graph();
  for (const std::string& name : softmax) {
    if (name.empty()) continue;
    const onnx::NodeProto* node = index.FindNode(name);
    if (node == nullptr) return false;
    const std::string output = names.Unique("gq_softmax_input");
    *graph->add_node() = graph::MakeNode("Identity", output, {node->input(0)}, {output});
    auto* info = graph->add_output();
    info->set_name(output);
    info->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  }
  return true;
}

struct Sums {
  double signal = 0;
  double noise = 0;
  double peak = 0;
  double count = 0;

  void Add(std::span<const float> reference, std::span<const float> actual) {
    for (size_t i = 0; i < reference.size(); ++i) {
      const double r = reference[i];
      const double difference = r - static_cast<double>(actual[i]);
      signal += r * r;
      noise += difference * difference;
      peak = std::max(peak, std::fabs(r));
    }
    count += static_cast<double>(reference.size());
  }

  double Decibels(bool snr) const {
    const double against = snr ? signal : peak * peak * count;
    if (against == 0) return kHighest;
    const double ratio = 10 * std::log10(against / std::max(noise, 1e-300));
    return std::isnan(ratio) ? kLowest : std::clamp(ratio, kLowest, kHighest);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Meter>> Meter::Create(
    const graph::Model& float_model, const graph::Model& source, const graph::Model& quantized,
    const std::vector<Region>& regions, runtime::DataSet& data, const std::vector<int64_t>& samples,
    const MeterOptions& options) {
  std::unique_ptr<Meter> meter(new Meter());
  meter->snr_ = options.snr;
  graph::Model reference = float_model;
  graph::Model candidate = quantized;
  const std::vector<std::string> softmax = SoftmaxBehind(float_model);
  const bool exposed =
      AddSoftmaxInputs(softmax, &reference) && AddSoftmaxInputs(softmax, &candidate);
  if (!exposed) {
    reference = float_model;
    candidate = quantized;
  }
  runtime::SessionOptions session_options;
  session_options.threads = std::max(1, options.threads);
  session_options.spinning = false;
  GQ_ASSIGN_OR_RETURN(const runtime::Session session,
                      runtime::Session::Create(reference, session_options));
  size_t behind = softmax.size();
  for (size_t i = 0; i < softmax.size(); ++i) {
    if (session.outputs()[i].dtype != onnx::TensorProto::FLOAT) {
      if (exposed && !softmax[i].empty()) ++behind;
      continue;
    }
    meter->places_.push_back(exposed && !softmax[i].empty() ? behind++ : i);
  }
  for (const int64_t index : samples) {
    std::vector<runtime::Tensor> sample;
    GQ_ASSIGN_OR_RETURN(const auto read, data.Read(index, &sample));
    if (read != runtime::DataSet::ReadResult::kSample) continue;
    GQ_RETURN_IF_ERROR(session.Run(sample, &meter->references_.emplace_back()));
    meter->samples_.push_back(std::move(sample));
  }
  if (meter->samples_.empty()) {
    return base::MakeError(base::Reason::kDataEmpty, "no sample is left to measure on",
                           "give samples without NaN and infinity");
  }
  GQ_ASSIGN_OR_RETURN(meter->model_,
                      SwitchModel::Create(source, candidate, regions, options.in_float,
                                          options.precision, options.threads));
  return meter;
}

absl::StatusOr<double> Meter::Score(const std::vector<bool>& promoted, int64_t samples,
                                    double enough_db) {
  const size_t count =
      samples <= 0 ? samples_.size() : std::min(samples_.size(), static_cast<size_t>(samples));
  model_->Promote(promoted);
  std::vector<Sums> sums(places_.size());
  for (size_t i = 0; i < count; ++i) {
    GQ_RETURN_IF_ERROR(model_->Run(samples_[i], &outputs_));
    ++runs_;
    for (size_t place = 0; place < places_.size(); ++place) {
      const runtime::Tensor& reference = references_[i][places_[place]];
      const runtime::Tensor& actual = outputs_[places_[place]];
      if (reference.size() != actual.size() || actual.dtype() != onnx::TensorProto::FLOAT) {
        continue;
      }
      sums[place].Add(reference.As<float>(), actual.As<float>());
    }
  }
  double worst = kHighest;
  double mean = 0;
  for (const Sums& sum : sums) {
    const double decibels = std::min(sum.Decibels(snr_), enough_db);
    worst = std::min(worst, decibels);
    mean += decibels / static_cast<double>(sums.size());
  }
  return (worst + mean) / 2;
}

}  // namespace gq::explore
