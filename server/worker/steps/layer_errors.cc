#include "server/worker/steps/layer_errors.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/accuracy/evaluation_json.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/calibrate/tensor_errors.h"
#include "common/graph/analysis.h"
#include "common/graph/graph_index.h"
#include "common/quantize/qdq_nodes.h"
#include "common/quantize/recover/rescaled.h"
#include "server/worker/steps/graph_optimize.h"
#include "server/worker/steps/sample_data.h"

namespace gq::worker {
namespace {

using base::StrCat;
using graph::GraphIndex;
using nlohmann::json;

constexpr size_t kMostLines = 15;
constexpr std::string_view kFormerOutput = "_QuantizeLinear_Input";
constexpr std::string_view kIntegers = "_quantized";

struct Entry {
  std::string tensor;
  std::string op;
  std::string_view tensor_class;
  calibrate::TensorError error;
};

// The name in the float model: a tensor whose own name went to a graph output has a suffix.
std::string NameInReference(const std::string& tensor, const GraphIndex& reference) {
  if (reference.Exists(tensor) || !tensor.ends_with(kFormerOutput)) return tensor;
  return tensor.substr(0, tensor.size() - kFormerOutput.size());
}

std::string OperatorOf(const GraphIndex& reference, const std::string& tensor) {
  const onnx::NodeProto* producer = reference.Producer(tensor);
  if (producer != nullptr) return producer->op_type();
  const auto uses = reference.Uses(tensor);
  return uses.empty() ? "" : reference.node(uses[0].node).op_type();
}

// What the first DequantizeLinear behind a quantizer makes.
std::optional<std::string> Dequantized(const GraphIndex& index, const onnx::NodeProto& quantize) {
  for (const graph::TensorUse& use : index.Uses(quantize.output(0))) {
    const onnx::NodeProto& reader = index.node(use.node);
    if (quantize::IsDequantizeNode(reader)) return reader.output(0);
  }
  return std::nullopt;
}

std::vector<calibrate::TensorPair> ActivationPairs(const GraphIndex& reference,
                                                   const GraphIndex& candidate,
                                                   std::set<std::string> seen) {
  std::vector<calibrate::TensorPair> pairs;
  for (const onnx::NodeProto& node : candidate.graph().node()) {
    if (!quantize::IsQuantizeNode(node) || candidate.IsInitializer(node.input(0))) continue;
    const std::string tensor = NameInReference(node.input(0), reference);
    const auto value = Dequantized(candidate, node);
    if (!value || !reference.Exists(tensor) || !seen.insert(tensor).second) continue;
    pairs.push_back({.reference = tensor, .candidate = *value});
  }
  return pairs;
}

// Integers of a constant with one scale, or one for each index of an axis, as floats.
std::optional<std::vector<float>> Values(const graph::Model& model, const GraphIndex& index,
                                         const onnx::NodeProto& dequantize) {
  const auto* constant = index.Initializer(dequantize.input(0));
  const auto* scale = index.Initializer(graph::InputName(dequantize, 1));
  if (constant == nullptr || scale == nullptr) return std::nullopt;
  const auto integers = model.Data(*constant);
  const auto scales = model.Data(*scale);
  if (!integers.ok() || !scales.ok() || scales->size() == 0) return std::nullopt;
  auto values = integers->ToFloats();
  if (!values.ok()) return std::nullopt;
  std::vector<double> zeros(1, 0);
  if (const auto* zero_point = index.Initializer(graph::InputName(dequantize, 2))) {
    const auto data = model.Data(*zero_point);
    if (!data.ok() || data->size() == 0) return std::nullopt;
    zeros.clear();
    for (int64_t i = 0; i < data->size(); ++i) zeros.push_back(data->At(i));
  }
  const int64_t channels = scales->size();
  int64_t inner = 1;
  if (channels > 1) {
    const auto rank = static_cast<int64_t>(integers->dims().size());
    int64_t axis = graph::AttributeInt(dequantize, "axis", 1);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || integers->dims()[static_cast<size_t>(axis)] != channels) {
      return std::nullopt;
    }
    for (int64_t i = axis + 1; i < rank; ++i) inner *= integers->dims()[static_cast<size_t>(i)];
  }
  for (size_t i = 0; i < values->size(); ++i) {
    const int64_t channel = static_cast<int64_t>(i) / inner % channels;
    const double zero = zeros[zeros.size() == 1 ? 0 : static_cast<size_t>(channel)];
    (*values)[i] = static_cast<float>(((*values)[i] - zero) * scales->At(channel));
  }
  return *std::move(values);
}

void AddWeights(const graph::Model& reference, const GraphIndex& reference_index,
                const graph::Model& candidate, const GraphIndex& index, std::set<std::string> seen,
                std::vector<Entry>& entries) {
  for (const onnx::NodeProto& node : index.graph().node()) {
    if (!quantize::IsDequantizeNode(node)) continue;
    const std::string& integers = node.input(0);
    const size_t suffix = integers.rfind(kIntegers);
    if (suffix == std::string::npos) continue;
    const std::string name = integers.substr(0, suffix);
    const auto* original = reference_index.Initializer(name);
    if (original == nullptr || !seen.insert(name).second) continue;
    const auto data = reference.Data(*original);
    const auto values = Values(candidate, index, node);
    if (!data.ok() || !values || data->size() != static_cast<int64_t>(values->size())) continue;
    calibrate::TensorError error{.elements = data->size()};
    for (int64_t i = 0; i < data->size(); ++i) {
      const double value = data->At(i);
      const double difference = value - (*values)[static_cast<size_t>(i)];
      error.signal += value * value;
      error.noise += difference * difference;
      error.max_abs = std::max(error.max_abs, std::fabs(difference));
    }
    entries.push_back({name, OperatorOf(reference_index, name), "weight", error});
  }
}

}  // namespace

absl::StatusOr<json> LayerErrors(const graph::Model& reference, const graph::Model& candidate,
                                 runtime::DataSet& data, int64_t samples,
                                 base::Reporter& reporter) {
  const GraphIndex reference_index(reference.graph());
  const GraphIndex index(candidate.graph());
  std::vector<Entry> entries;
  // What accuracy recovery has rescaled holds other values than in the float model.
  const std::set<std::string> rescaled = quantize::ReadRescaled(candidate);
  const auto pairs = ActivationPairs(reference_index, index, rescaled);
  if (!pairs.empty()) {
    GQ_ASSIGN_OR_RETURN(const auto errors,
                        calibrate::CompareTensors(reference, candidate, pairs, data,
                                                  {.max_samples = samples}, reporter));
    for (const auto& [tensor, error] : errors) {
      entries.push_back({tensor, OperatorOf(reference_index, tensor), "activation", error});
    }
  }
  AddWeights(reference, reference_index, candidate, index, rescaled, entries);
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.error.SnrDb() < b.error.SnrDb();
  });
  json list = json::array();
  for (const Entry& entry : entries) {
    list.push_back({{"tensor", entry.tensor},
                    {"op", entry.op},
                    {"class", entry.tensor_class},
                    {"snr_db", accuracy::JsonNumber(entry.error.SnrDb())},
                    {"max_abs", accuracy::JsonNumber(entry.error.max_abs)},
                    {"elements", entry.error.elements}});
  }
  return list;
}

absl::Status AddLayerErrors(const JobInputs& inputs, StepLog& log, json& report) {
  GQ_ASSIGN_OR_RETURN(const graph::Model candidate, LoadStatic(inputs.model, inputs, log));
  if (graph::StateOf(candidate.graph()) == graph::ModelState::kFloat) {
    return base::MakeError(base::Reason::kNotQuantized,
                           StrCat(inputs.model.filename().string(), " is not quantized"),
                           "give the model that came out of a quantization: --quantized Q.onnx");
  }
  // Optimized as for a quantization, so that tensors have the names they have in the candidate.
  JobInputs float_inputs = inputs;
  float_inputs.model = *inputs.reference;
  float_inputs.reference.reset();
  GQ_ASSIGN_OR_RETURN(const GraphOptimizeResult optimized, RunGraphOptimize(float_inputs, log));
  GQ_ASSIGN_OR_RETURN(const SampleData data,
                      OpenEvaluationData(inputs, optimized.float_model, log));
  GQ_ASSIGN_OR_RETURN(report["layer_errors"],
                      LayerErrors(optimized.float_model, candidate, *data.samples, 0, log));
  const json& errors = report["layer_errors"];
  log.Info("Analyze", StrCat("error of ", errors.size(), " quantized tensors against ",
                             inputs.reference->filename().string(), " on ", data.samples->size(),
                             " samples, worst first:"));
  for (size_t i = 0; i < std::min(kMostLines, errors.size()); ++i) {
    char number[32];
    const json& snr = errors[i]["snr_db"];
    std::snprintf(number, sizeof number, "%7.2f dB  ", snr.is_number() ? snr.get<double>() : 0.0);
    log.Info("Analyze", StrCat(snr.is_number() ? number : snr.get<std::string>() + " dB  ",
                               errors[i].value("tensor", ""), " (", errors[i].value("op", ""), ", ",
                               errors[i].value("class", ""), ")"));
  }
  return absl::OkStatus();
}

}  // namespace gq::worker
