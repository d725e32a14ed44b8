#include "common/quantize/recover/held_out.h"

#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"
#include "common/quantize/recover/parallel.h"
#include "common/runtime/session.h"

namespace gq::quantize {
namespace {

constexpr double kLowest = -20, kHighest = 60;
constexpr int64_t kFewRows = 200;
constexpr int64_t kFewNumbers = 4000;  // of an output over all samples
constexpr size_t kBlends = 6;          // more for each sample then

runtime::SessionOptions Options() {
  runtime::SessionOptions options;
  options.optimization = runtime::OptimizationLevel::kBasic;
  options.spinning = false;
  return options;
}

double Sum(const std::vector<double>& values, int left_out) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (static_cast<int>(i) != left_out) sum += values[i];
  }
  return sum;
}

int64_t Elements(const graph::GraphIndex& index, std::string_view tensor) {
  const auto shape = index.StaticShape(tensor);
  if (!shape) return kFewNumbers;
  int64_t elements = 1;
  for (const int64_t dim : *shape) elements *= dim;
  return elements;
}

// Few numbers come out of few samples: what a candidate is worth would be chance. Blends of two
// samples are further ones; the float model says what ought to come out of them.
void AddBlends(const graph::GraphIndex& index, size_t beside, std::vector<Sample>* samples) {
  const size_t count = samples->size();
  int64_t fewest = kFewNumbers;
  for (const auto& output : index.graph().output()) {
    if (index.ElemType(output.name()) == onnx::TensorProto::FLOAT) {
      fewest =
          std::min(fewest, Elements(index, output.name()) * static_cast<int64_t>(count + beside));
    }
  }
  const bool floats = count > 1 && std::all_of(samples->begin(), samples->end(), [](const auto& s) {
                        return std::all_of(s.begin(), s.end(), [](const runtime::Tensor& tensor) {
                          return tensor.dtype() == onnx::TensorProto::FLOAT;
                        });
                      });
  if (fewest >= kFewNumbers || !floats) return;
  for (size_t round = 1; round <= kBlends; ++round) {
    const float share = 0.05f * static_cast<float>(round);
    for (size_t i = 0; i < count; ++i) {
      const Sample& other = (*samples)[(i + round) % count];
      Sample blend;
      for (size_t input = 0; input < other.size(); ++input) {
        const auto a = (*samples)[i][input].As<float>(), b = other[input].As<float>();
        std::vector<float> values(a.begin(), a.end());
        for (size_t k = 0; k < values.size() && k < b.size(); ++k) {
          values[k] += share * (b[k] - values[k]);
        }
        blend.push_back(runtime::Tensor::Of<float>((*samples)[i][input].shape(), values));
      }
      samples->push_back(std::move(blend));
    }
  }
}

int64_t Rows(const graph::GraphIndex& index, std::string_view tensor) {
  const auto shape = index.StaticShape(tensor);
  if (!shape || shape->empty()) return kFewRows;
  int64_t rows = 1;
  for (size_t axis = 0; axis + 1 < shape->size(); ++axis) rows *= (*shape)[axis];
  return rows;
}

}  // namespace

// The model with the places that are compared as its outputs.
absl::StatusOr<graph::Model> HeldOut::Exposing(const graph::Model& model,
                                               const std::vector<Place>& places) {
  graph::Model result = model;
  const graph::GraphIndex index(model.graph());
  onnx::GraphProto* graph = result.mutable_graph();
  graph->clear_output();
  int identities = 0;
  for (const Place& place : places) {
    std::string name = place.output;
    if (!place.softmax.empty()) {
      const onnx::NodeProto* node = index.FindNode(place.softmax);
      if (node == nullptr) return base::MakeError(base::Reason::kInternal, "Softmax is gone");
      // A name of its own, since two outputs may read the same tensor.
      name = base::StrCat("gq_held_out_", identities++);
      *graph->add_node() = graph::MakeNode("Identity", name, {node->input(0)}, {name});
    }
    auto* output = graph->add_output();
    output->set_name(name);
    const int32_t type = place.softmax.empty() ? index.ElemType(place.output) : 0;
    output->mutable_type()->mutable_tensor_type()->set_elem_type(
        type == 0 ? static_cast<int32_t>(onnx::TensorProto::FLOAT) : type);
  }
  return result;
}

absl::StatusOr<HeldOut> HeldOut::Create(const graph::Model& float_model,
                                        std::vector<Sample> samples, int threads, size_t beside) {
  HeldOut held_out;
  held_out.threads_ = threads;
  const graph::GraphIndex index(float_model.graph());
  for (const auto& output : float_model.graph().output()) {
    if (!graph::IsFloatType(index.ElemType(output.name()))) continue;
    Place place{.output = output.name()};
    const onnx::NodeProto* producer = index.Producer(output.name());
    if (producer != nullptr && graph::IsOp(*producer, "Softmax") &&
        Rows(index, output.name()) * static_cast<int64_t>(samples.size() + beside) < kFewRows) {
      place.softmax = producer->name();
    }
    held_out.places_.push_back(std::move(place));
  }
  AddBlends(index, beside, &samples);
  GQ_ASSIGN_OR_RETURN(const graph::Model exposing, Exposing(float_model, held_out.places_));
  GQ_ASSIGN_OR_RETURN(const auto session, runtime::Session::Create(exposing, Options()));
  held_out.references_.resize(samples.size());
  GQ_RETURN_IF_ERROR(ForEach(samples.size(), threads, [&](size_t i) {
    return session.Run(samples[i], &held_out.references_[i]);
  }));
  held_out.samples_ = std::move(samples);
  return held_out;
}

absl::StatusOr<OutputErrors> HeldOut::Measure(const graph::Model& candidate) const {
  GQ_ASSIGN_OR_RETURN(const graph::Model exposing, Exposing(candidate, places_));
  GQ_ASSIGN_OR_RETURN(const auto session, runtime::Session::Create(exposing, Options()));
  const size_t count = session.outputs().size();
  OutputErrors errors(count);
  for (OutputError& error : errors) {
    error.signal.resize(samples_.size());
    error.noise.resize(samples_.size());
  }
  std::vector<std::vector<bool>> comparable(samples_.size(), std::vector<bool>(count, true));
  GQ_RETURN_IF_ERROR(ForEach(samples_.size(), threads_, [&](size_t i) -> absl::Status {
    std::vector<runtime::Tensor> outputs;
    GQ_RETURN_IF_ERROR(session.Run(samples_[i], &outputs));
    for (size_t output = 0; output < count; ++output) {
      const runtime::Tensor& reference = references_[i][output];
      if (outputs[output].dtype() != reference.dtype() ||
          outputs[output].size() != reference.size()) {
        comparable[i][output] = false;
        continue;
      }
      GQ_ASSIGN_OR_RETURN(const std::vector<float> r, reference.View().ToFloats());
      GQ_ASSIGN_OR_RETURN(const std::vector<float> a, outputs[output].View().ToFloats());
      double signal = 0, noise = 0;
      for (size_t k = 0; k < r.size(); ++k) {
        const double error = static_cast<double>(r[k]) - static_cast<double>(a[k]);
        signal += static_cast<double>(r[k]) * static_cast<double>(r[k]);
        noise += error * error;
      }
      errors[output].signal[i] = signal;
      errors[output].noise[i] = noise;
    }
    return absl::OkStatus();
  }));
  OutputErrors kept;
  for (size_t output = 0; output < count; ++output) {
    const bool compared = std::all_of(comparable.begin(), comparable.end(),
                                      [output](const auto& sample) { return sample[output]; });
    if (!compared || Sum(errors[output].signal, -1) == 0) continue;
    kept.push_back(std::move(errors[output]));
  }
  return kept;
}

double OutputError::Decibels(int left_out) const {
  const double ratio =
      10 * std::log10(Sum(signal, left_out) / std::max(Sum(noise, left_out), 1e-300));
  return std::isnan(ratio) ? kLowest : std::clamp(ratio, kLowest, kHighest);
}

std::vector<double> Decibels(const OutputErrors& errors) {
  std::vector<double> decibels;
  for (const OutputError& error : errors) decibels.push_back(error.Decibels());
  return decibels;
}

double Mean(const OutputErrors& errors) {
  double sum = 0;
  for (const OutputError& error : errors) sum += error.Decibels();
  return errors.empty() ? 0 : sum / static_cast<double>(errors.size());
}

Gain GainOf(const OutputErrors& before, const OutputErrors& after) {
  const size_t outputs = std::min(before.size(), after.size());
  if (outputs == 0) return {};
  const auto gain = [&](int left_out) {
    double sum = 0;
    for (size_t i = 0; i < outputs; ++i) {
      sum += after[i].Decibels(left_out) - before[i].Decibels(left_out);
    }
    return sum / static_cast<double>(outputs);
  };
  Gain result{.decibels = gain(-1)};
  const auto samples = static_cast<int>(before[0].noise.size());
  if (samples < 2) return result;
  double mean = 0, squares = 0;
  for (int i = 0; i < samples; ++i) {
    const double value = gain(i);
    mean += value / samples;
    squares += value * value / samples;
  }
  result.standard_error = std::sqrt(std::max(0.0, squares - mean * mean) * (samples - 1));
  return result;
}

}  // namespace gq::quantize
