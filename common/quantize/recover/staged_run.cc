#include "common/quantize/recover/staged_run.h"

#include <algorithm>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "common/base/status.h"
#include "common/quantize/recover/parallel.h"
#include "common/runtime/session.h"

namespace gq::quantize {
namespace {

// What a node reads, subgraphs included.
std::vector<std::string> Reads(const onnx::NodeProto& node) {
  std::vector<std::string> names;
  for (const auto& input : node.input()) {
    if (!input.empty()) names.push_back(input);
  }
  for (auto& name : graph::CapturedNames(node)) names.push_back(std::move(name));
  return names;
}

}  // namespace

StagedRun::StagedRun(const graph::Model& model, const std::vector<runtime::InputSpec>& inputs,
                     const std::vector<Sample>& samples, int threads)
    : model_(model),
      index_(model.graph()),
      num_samples_(samples.size()),
      threads_(threads),
      done_(static_cast<size_t>(model.graph().node_size()), false) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    Value value;
    for (const Sample& sample : samples) value.samples.push_back(sample[i]);
    value.pending = PendingReaders(inputs[i].name);
    values_.emplace(inputs[i].name, std::move(value));
  }
}

std::vector<int> StagedRun::PendingAncestors(const std::string& tensor) const {
  std::set<int> found;
  std::vector<std::string> open = {tensor};
  while (!open.empty()) {
    const std::string name = std::move(open.back());
    open.pop_back();
    const int position = index_.ProducerPosition(name);
    if (position < 0 || done_[static_cast<size_t>(position)] || !found.insert(position).second) {
      continue;
    }
    for (auto& read : Reads(index_.node(position))) open.push_back(std::move(read));
  }
  return {found.begin(), found.end()};  // graph order is topological
}

int StagedRun::PendingReaders(std::string_view tensor) const {
  int last = -1, count = 0;
  for (const auto& use : index_.Uses(tensor)) {
    if (use.node == last || done_[static_cast<size_t>(use.node)]) continue;
    last = use.node;
    ++count;
  }
  return count;
}

absl::StatusOr<graph::Model> StagedRun::Piece(const std::vector<int>& nodes,
                                              const std::string& wanted,
                                              std::vector<std::string>* inputs,
                                              std::vector<std::string>* outputs) const {
  const std::set<int> inside(nodes.begin(), nodes.end());
  absl::flat_hash_set<std::string> made;
  for (const int node : nodes) {
    for (const auto& output : index_.node(node).output()) made.insert(output);
  }
  std::set<std::string> borders, initializers;
  for (const int node : nodes) {
    for (const std::string& name : Reads(index_.node(node))) {
      if (made.contains(name)) continue;
      (index_.IsInitializer(name) ? initializers : borders).insert(name);
    }
  }
  graph::Model piece = model_;
  onnx::GraphProto* graph = piece.mutable_graph();
  graph->clear_node();
  graph->clear_input();
  graph->clear_output();
  graph->clear_value_info();
  graph->clear_initializer();
  for (const int node : nodes) *graph->add_node() = index_.node(node);
  for (const auto& name : initializers) *graph->add_initializer() = *index_.Initializer(name);
  for (const auto& name : borders) {
    const auto value = values_.find(name);
    if (value == values_.end() || value->second.samples.empty()) {
      return base::MakeError(base::Reason::kInternal,
                             base::StrCat("tensor '", name, "' is needed again"));
    }
    auto* input = graph->add_input();
    input->set_name(name);
    auto* type = input->mutable_type()->mutable_tensor_type();
    type->set_elem_type(value->second.samples[0].dtype());
    type->mutable_shape();
    for (const int64_t dim : value->second.samples[0].shape()) {
      type->mutable_shape()->add_dim()->set_dim_value(dim);
    }
    inputs->push_back(name);
  }
  for (const int node : nodes) {
    for (const auto& name : index_.node(node).output()) {
      if (name.empty()) continue;
      const auto uses = index_.Uses(name);
      const bool read_later = std::any_of(uses.begin(), uses.end(), [&](const auto& use) {
        return !inside.contains(use.node) && !done_[static_cast<size_t>(use.node)];
      });
      if (name != wanted && !read_later) continue;
      graph->add_output()->set_name(name);
      outputs->push_back(name);
    }
  }
  return piece;
}

void StagedRun::Release(const std::vector<int>& nodes) {
  for (const int node : nodes) done_[static_cast<size_t>(node)] = true;
  for (const int node : nodes) {
    for (const std::string& name : Reads(index_.node(node))) {
      const auto value = values_.find(name);
      if (value != values_.end() && PendingReaders(name) == 0) value->second.samples.clear();
    }
  }
}

absl::StatusOr<std::vector<runtime::Tensor>> StagedRun::Compute(const std::string& tensor) {
  const std::vector<int> nodes = PendingAncestors(tensor);
  if (!nodes.empty()) {
    std::vector<std::string> inputs, outputs;
    GQ_ASSIGN_OR_RETURN(const graph::Model piece, Piece(nodes, tensor, &inputs, &outputs));
    runtime::SessionOptions options;
    options.optimization = runtime::OptimizationLevel::kBasic;
    options.arena = false;
    options.spinning = false;
    GQ_ASSIGN_OR_RETURN(const runtime::Session session, runtime::Session::Create(piece, options));
    std::vector<std::vector<runtime::Tensor>> results(num_samples_);
    std::vector<const Value*> sources;
    for (const auto& input : session.inputs()) sources.push_back(&values_[input.name]);
    GQ_RETURN_IF_ERROR(ForEach(num_samples_, threads_, [&](size_t i) {
      Sample feed;
      for (const Value* source : sources) feed.push_back(source->samples[i]);
      return session.Run(feed, &results[i]);
    }));
    for (size_t output = 0; output < session.outputs().size(); ++output) {
      Value value;
      for (auto& result : results) value.samples.push_back(std::move(result[output]));
      values_[session.outputs()[output].name] = std::move(value);
    }
    Release(nodes);
  }
  const auto value = values_.find(tensor);
  if (value == values_.end() || value->second.samples.empty()) {
    return base::MakeError(base::Reason::kInternal,
                           base::StrCat("tensor '", tensor, "' was given up before"));
  }
  std::vector<runtime::Tensor> samples = value->second.samples;
  if (PendingReaders(tensor) == 0) value->second.samples.clear();
  return samples;
}

int64_t PeakLiveBytes(const graph::Model& model) {
  const graph::GraphIndex index(model.graph());
  absl::flat_hash_map<std::string, std::pair<int, int64_t>> live;  // last reader, bytes
  const auto bytes_of = [&](const std::string& name) -> int64_t {
    const auto shape = index.StaticShape(name);
    if (!shape) return 0;
    int64_t bytes = graph::BitsPerElement(index.ElemType(name)) / 8;
    for (const int64_t dim : *shape) bytes *= dim;
    return bytes;
  };
  int64_t now = 0, peak = 0;
  for (int node = 0; node < model.graph().node_size(); ++node) {
    for (const auto& output : index.node(node).output()) {
      const auto uses = index.Uses(output);
      if (output.empty() || uses.empty()) continue;
      const int64_t bytes = bytes_of(output);
      live[output] = {uses.back().node, bytes};
      now += bytes;
    }
    peak = std::max(peak, now);
    for (const std::string& name : Reads(index.node(node))) {
      const auto it = live.find(name);
      if (it == live.end() || it->second.first != node) continue;
      now -= it->second.second;
      live.erase(it);
    }
  }
  return peak;
}

}  // namespace gq::quantize
