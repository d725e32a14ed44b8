#include "common/calibrate/tapped_graph.h"

#include <set>
#include <vector>

#include "common/base/text.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"
#include "common/runtime/float_operator.h"

namespace gq::calibrate {
namespace {

// Why a tensor cannot be tapped; empty when it can.
std::string ReasonAgainst(const graph::GraphIndex& index, const std::string& tensor) {
  if (index.IsInitializer(tensor)) return "a constant";
  if (index.Producer(tensor) == nullptr && !index.IsGraphInput(tensor)) {
    return "not a tensor of the main graph";
  }
  const int32_t type = index.ElemType(tensor);
  if (type == onnx::TensorProto::UNDEFINED) return "of unknown type";
  if (type != onnx::TensorProto::FLOAT) return std::string(graph::DTypeName(type));
  return "";
}

using ValueInfos = google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>;

// Positions among what a session has as inputs (constants are none) or outputs (strings and what is
// no tensor are none).
std::map<std::string_view, size_t> Positions(const ValueInfos& values,
                                             const graph::GraphIndex* without_constants) {
  std::map<std::string_view, size_t> positions;
  size_t position = 0;
  for (const onnx::ValueInfoProto& value : values) {
    if (without_constants != nullptr && without_constants->IsInitializer(value.name())) continue;
    if (!value.type().has_tensor_type() ||
        value.type().tensor_type().elem_type() == onnx::TensorProto::STRING) {
      continue;
    }
    positions.emplace(value.name(), position++);
  }
  return positions;
}

class TapInserter {
 public:
  TapInserter(const graph::Model& model, const TapOptions& options)
      : original_(model.graph()),
        options_(options),
        index_(original_),
        names_(original_),
        inputs_(Positions(original_.input(), &index_)),
        outputs_(Positions(original_.output(), nullptr)) {
    result_.model = model;
  }

  void Tap(const std::string& tensor, const std::function<int64_t(const std::string&)>& number) {
    if (!seen_.insert(tensor).second) return;
    if (std::string reason = ReasonAgainst(index_, tensor); !reason.empty()) {
      result_.left_out.emplace(tensor, std::move(reason));
      return;
    }
    const int64_t id = number(tensor);
    const auto input = inputs_.find(tensor);
    const auto output = outputs_.find(tensor);
    if (options_.skip_ends && input != inputs_.end()) {
      result_.inputs[input->second] = id;
    } else if (options_.skip_ends && output != outputs_.end()) {
      result_.outputs[output->second] = id;
    } else if (output != outputs_.end() && input == inputs_.end()) {
      // The node makes the output; its producer makes another tensor.
      std::string before = NewTensor(tensor, "_before");
      AddTap(tensor, before, tensor, id);
      renamed_.emplace(tensor, std::move(before));
    } else {
      std::string after = NewTensor(tensor, "_observed");
      AddTap(tensor, tensor, after, id);
      replaced_.emplace(tensor, std::move(after));
    }
  }

  TappedGraph Finish() {
    onnx::GraphProto* graph = result_.model.mutable_graph();
    graph->clear_node();
    for (onnx::NodeProto& tap : behind_[-1]) *graph->add_node() = std::move(tap);
    for (int position = 0; position < original_.node_size(); ++position) {
      onnx::NodeProto* node = graph->add_node();
      *node = original_.node(position);
      for (std::string& input : *node->mutable_input()) {
        if (const auto found = replaced_.find(input); found != replaced_.end()) {
          input = found->second;
        }
      }
      for (std::string& output : *node->mutable_output()) {
        if (const auto found = renamed_.find(output); found != renamed_.end()) {
          output = found->second;
        }
      }
      for (onnx::NodeProto& tap : behind_[position]) *graph->add_node() = std::move(tap);
    }
    result_.model.SetOpset(runtime::kOperatorDomain, 1);
    return std::move(result_);
  }

 private:
  std::string NewTensor(const std::string& tensor, std::string_view suffix) {
    std::string name = names_.Unique(base::StrCat(tensor, suffix));
    if (const auto shape = index_.StaticShape(tensor)) {
      graph::AddValueInfo(name, onnx::TensorProto::FLOAT, *shape, result_.model.mutable_graph());
    }
    return name;
  }

  void AddTap(const std::string& tensor, const std::string& from, const std::string& to,
              int64_t id) {
    onnx::NodeProto node =
        graph::MakeNode(options_.op_type, names_.UniqueNode(base::StrCat(tensor, "_tap")), {from},
                        {to}, runtime::kOperatorDomain);
    graph::SetAttribute(runtime::kNodeIdAttribute, id, &node);
    behind_[index_.ProducerPosition(tensor)].push_back(std::move(node));
  }

  const onnx::GraphProto& original_;
  TapOptions options_;
  graph::GraphIndex index_;
  graph::NameScope names_;
  std::map<std::string_view, size_t> inputs_;
  std::map<std::string_view, size_t> outputs_;
  TappedGraph result_;
  std::set<std::string> seen_;
  std::map<std::string, std::string, std::less<>> replaced_;  // what readers read instead
  std::map<std::string, std::string, std::less<>> renamed_;   // what producers make instead
  std::map<int, std::vector<onnx::NodeProto>> behind_;  // by position of the producer, -1: inputs
};

}  // namespace

TappedGraph InsertTaps(const graph::Model& model, std::span<const std::string> tensors,
                       const TapOptions& options,
                       const std::function<int64_t(const std::string& tensor)>& number) {
  TapInserter inserter(model, options);
  for (const std::string& tensor : tensors) inserter.Tap(tensor, number);
  return inserter.Finish();
}

}  // namespace gq::calibrate
