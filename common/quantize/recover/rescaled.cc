#include "common/quantize/recover/rescaled.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/graph_index.h"
#include "common/runtime/session.h"

namespace gq::quantize {
namespace {

constexpr std::string_view kKey = "gq_rescaled_tensors";
constexpr float kRounding = 1e-3f;  // of the largest magnitude

absl::StatusOr<std::vector<runtime::Tensor>> Run(const graph::Model& model,
                                                 const std::vector<std::string>& tensors,
                                                 const Sample& sample) {
  graph::Model exposing = model;
  onnx::GraphProto* graph = exposing.mutable_graph();
  graph->clear_output();
  for (const std::string& tensor : tensors) {
    auto* output = graph->add_output();
    output->set_name(tensor);
    output->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  }
  runtime::SessionOptions options;
  options.optimization = runtime::OptimizationLevel::kBasic;
  options.spinning = false;
  GQ_ASSIGN_OR_RETURN(const auto session, runtime::Session::Create(exposing, options));
  std::vector<runtime::Tensor> outputs;
  GQ_RETURN_IF_ERROR(session.Run(sample, &outputs));
  return outputs;
}

bool Differ(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return true;
  float largest = 0, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(a[i]));
    difference = std::max(difference, std::abs(a[i] - b[i]));
  }
  return difference > kRounding * largest;
}

}  // namespace

absl::StatusOr<std::set<std::string>> RescaledTensors(const graph::Model& before,
                                                      const graph::Model& after,
                                                      const Sample& sample) {
  std::set<std::string> names;
  const graph::GraphIndex old_index(before.graph()), index(after.graph());
  for (const auto& tensor : after.graph().initializer()) {
    const auto* old = old_index.Initializer(tensor.name());
    if (old == nullptr || tensor.data_type() != onnx::TensorProto::FLOAT) continue;
    GQ_ASSIGN_OR_RETURN(const graph::TensorView a, before.Data(*old));
    GQ_ASSIGN_OR_RETURN(const graph::TensorView b, after.Data(tensor));
    const auto x = a.bytes(), y = b.bytes();
    if (x.size() != y.size() || std::memcmp(x.data(), y.data(), x.size()) != 0) {
      names.insert(tensor.name());
    }
  }
  std::vector<std::string> common;
  for (const auto& node : after.graph().node()) {
    for (const auto& output : node.output()) {
      if (old_index.Producer(output) != nullptr &&
          index.ElemType(output) == onnx::TensorProto::FLOAT) {
        common.push_back(output);
      }
    }
  }
  if (common.empty()) return names;
  GQ_ASSIGN_OR_RETURN(const auto old_values, Run(before, common, sample));
  GQ_ASSIGN_OR_RETURN(const auto values, Run(after, common, sample));
  for (size_t i = 0; i < common.size(); ++i) {
    if (Differ(old_values[i].As<float>(), values[i].As<float>())) names.insert(common[i]);
  }
  return names;
}

void WriteRescaled(const std::set<std::string>& names, graph::Model* model) {
  if (names.empty()) return;
  auto* entry = model->mutable_proto()->add_metadata_props();
  entry->set_key(std::string(kKey));
  std::string text;
  for (const std::string& name : names) base::StrAppend(&text, text.empty() ? "" : "\n", name);
  entry->set_value(text);
}

std::set<std::string> ReadRescaled(const graph::Model& model) {
  std::set<std::string> names;
  for (const auto& entry : model.proto().metadata_props()) {
    if (entry.key() != kKey) continue;
    for (const std::string_view name : base::StrSplit(entry.value(), '\n')) names.emplace(name);
  }
  return names;
}

}  // namespace gq::quantize
