#include "common/quantize/reduced_precision.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/analysis.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"
#include "common/quantize/bf16_casts.h"
#include "common/quantize/names.h"
#include "common/quantize/qdq_nodes.h"
#include "common/quantize/quantize_values.h"

namespace gq::quantize {
namespace {

using base::StrCat;
using graph::GraphIndex;
using graph::TensorView;
using onnx::TensorProto;

// Results hold only values that the float inputs hold, or a bound among them.
bool OnlySelectsValues(const onnx::NodeProto& node) {
  static const auto* const kTypes =
      new absl::flat_hash_set<std::string>{"Abs",          "Clip",      "Concat",
                                           "DepthToSpace", "Expand",    "Flatten",
                                           "Gather",       "GatherND",  "GatherElements",
                                           "Identity",     "Max",       "MaxPool",
                                           "Min",          "Neg",       "Pad",
                                           "Relu",         "Reshape",   "Slice",
                                           "SpaceToDepth", "Split",     "Squeeze",
                                           "Tile",         "Transpose", "Unsqueeze",
                                           "Where"};
  return node.domain().empty() && kTypes->contains(node.op_type());
}

// Activations that a compute layer takes in before its result is quantized; an imitated average
// pool multiplies by a constant.
bool IsFusedActivation(const onnx::NodeProto& node) {
  static const auto* const kTypes = new absl::flat_hash_set<std::string>{
      "Relu", "LeakyRelu", "PRelu", "Clip", "Gelu", "HardSigmoid", "Mul"};
  return kTypes->contains(node.op_type());
}

// Inputs that are shapes, scales of a size, or positions, though float.
bool IsParameterInput(const onnx::NodeProto& node, int input) {
  if (node.op_type() == "Resize" || node.op_type() == "Upsample") return input > 0;
  if (node.op_type() == "Dropout") return input == 1;
  return node.op_type() == "Range" || node.op_type() == "OneHot" || IsQdqNode(node);
}

// Finds the tensors that live inside int8 layers.
class IntegerLayers {
 public:
  explicit IntegerLayers(const GraphIndex& index) : index_(index) {}

  bool IsInside(const std::string& tensor) const {
    return FromIntegers(tensor) && EndsInIntegers(tensor);
  }

 private:
  static constexpr int kMostHops = 8;

  bool IsDequantized(std::string_view tensor) const {
    const onnx::NodeProto* producer = index_.Producer(tensor);
    return producer != nullptr && IsDequantizeNode(*producer);
  }

  bool FromIntegers(std::string_view tensor, int hops = 0) const {
    const onnx::NodeProto* node = index_.Producer(tensor);
    if (node == nullptr || IsQdqNode(*node) || hops > kMostHops) return false;
    bool dequantized = false;
    for (int i = 0; i < node->input_size(); ++i) {
      const std::string& input = node->input(i);
      if (input.empty() || index_.ElemType(input) != TensorProto::FLOAT) continue;
      if (IsDequantized(input)) {
        dequantized = true;
      } else if (index_.IsInitializer(input)) {
        // A weight in float makes it a float layer.
        if (i == 1 && graph::IsComputeNode(*node)) return false;
      } else if (IsFusedActivation(*node) && FromIntegers(input, hops + 1)) {
        dequantized = true;
      } else {
        return false;
      }
    }
    return dequantized;
  }

  bool EndsInIntegers(const std::string& tensor, int hops = 0) const {
    const auto uses = index_.Uses(tensor);
    if (uses.empty() || index_.IsGraphOutput(tensor) || hops > kMostHops) return false;
    return std::all_of(uses.begin(), uses.end(), [&](const graph::TensorUse& use) {
      if (use.input == graph::TensorUse::kCaptured) return false;
      const auto& node = index_.node(use.node);
      if (IsQuantizeNode(node)) return true;
      return IsFusedActivation(node) && EndsInIntegers(node.output(0), hops + 1);
    });
  }

  const GraphIndex& index_;
};

class Rounder {
 public:
  Rounder(ElementType precision, ReducedPrecision* result)
      : precision_(precision),
        result_(result),
        before_(result->model.graph()),
        index_(before_),
        layers_(index_),
        names_(before_),
        graph_(result->model.mutable_graph()) {}

  absl::Status Run() {
    GQ_RETURN_IF_ERROR(RoundConstants());
    FindTensors();
    Rewrite();
    return absl::OkStatus();
  }

 private:
  struct Rounded {
    std::string low;   // in the reduced type
    std::string back;  // back in float32: what readers get
  };

  bool IsFloat(std::string_view tensor) const {
    return index_.ElemType(tensor) == TensorProto::FLOAT;
  }

  // Large constants stay shared between copies of the model, so each gets data of its own.
  absl::Status RoundConstants() {
    for (auto& initializer : *graph_->mutable_initializer()) {
      if (initializer.data_type() != TensorProto::FLOAT || !IsComputedWith(initializer.name())) {
        continue;
      }
      GQ_ASSIGN_OR_RETURN(const TensorView data, result_->model.Data(initializer));
      const auto values = data.As<float>();
      const std::vector<float> finite = ClampToFinite(values, precision_);
      const std::vector<float> rounded = RoundTrip(finite, {.scale = 1, .type = precision_});
      ++result_->constants;
      if (std::equal(values.begin(), values.end(), rounded.begin())) continue;
      result_->model.SetData(TensorView::Of<float>(data.dims(), rounded), &initializer);
    }
    return absl::OkStatus();
  }

  bool IsComputedWith(const std::string& constant) const {
    if (index_.IsGraphOutput(constant)) return true;
    const auto uses = index_.Uses(constant);
    return std::any_of(uses.begin(), uses.end(), [&](const graph::TensorUse& use) {
      if (use.input == graph::TensorUse::kCaptured) return false;
      const auto& node = index_.node(use.node);
      return !IsParameterInput(node, use.input) && !layers_.IsInside(node.output(0));
    });
  }

  void FindTensors() {
    for (const auto& input : before_.input()) {
      if (!index_.IsInitializer(input.name()) && IsFloat(input.name()) &&
          IsReadInFloat(input.name())) {
        Plan(input.name());
      }
    }
    int bodies = 0;
    for (const auto& node : before_.node()) {
      graph::ForEachSubgraph(node, [&](const auto&) { ++bodies; });
      if (IsDequantizeNode(node)) continue;
      if (KeepsRounding(node)) {
        for (const auto& output : node.output()) exact_.insert(output);
        continue;
      }
      for (const auto& output : node.output()) {
        if (output.empty() || !IsFloat(output) || layers_.IsInside(output)) continue;
        if (!index_.IsGraphOutput(output) && !IsReadInFloat(output) && !IsQuantized(output))
          continue;
        Plan(output);
      }
    }
    if (bodies > 0) {
      result_->notes.push_back(
          StrCat("tensors in the bodies of If and Loop (", bodies, ") are not rounded"));
    }
  }

  void Plan(const std::string& tensor) {
    if (IsRoundedByReader(tensor)) {
      exact_.insert(tensor);
      return;
    }
    rounded_.emplace(tensor, Rounded{names_.Unique(StrCat(tensor, "_reduced")),
                                     names_.Unique(StrCat(tensor, "_rounded"))});
    exact_.insert(tensor);
    ++result_->tensors;
  }

  // All readers take the tensor through a Cast to the reduced type as it is.
  bool IsRoundedByReader(const std::string& tensor) const {
    const auto uses = index_.Uses(tensor);
    return !uses.empty() && !index_.IsGraphOutput(tensor) &&
           std::all_of(uses.begin(), uses.end(), [&](const graph::TensorUse& use) {
             const auto& node = index_.node(use.node);
             return use.input == 0 && graph::IsOp(node, "Cast") &&
                    graph::AttributeInt(node, "to", 0) == precision_;
           });
  }

  bool IsQuantized(const std::string& tensor) const {
    const auto uses = index_.Uses(tensor);
    return std::any_of(uses.begin(), uses.end(), [&](const graph::TensorUse& use) {
      return use.input == 0 && IsQuantizeNode(index_.node(use.node));
    });
  }

  // Some operator computes with it (a Q alone takes float32 from the host).
  bool IsReadInFloat(const std::string& tensor) const {
    const auto uses = index_.Uses(tensor);
    return std::any_of(uses.begin(), uses.end(), [&](const graph::TensorUse& use) {
      return use.input != graph::TensorUse::kCaptured &&
             !IsParameterInput(index_.node(use.node), use.input);
    });
  }

  bool KeepsRounding(const onnx::NodeProto& node) const {
    if (graph::IsOp(node, "Cast")) return index_.ElemType(node.input(0)) == precision_;
    if (!OnlySelectsValues(node)) return false;
    return std::all_of(node.input().begin(), node.input().end(), [&](const std::string& input) {
      if (input.empty() || !IsFloat(input)) return true;
      const onnx::NodeProto* producer = index_.Producer(input);
      return exact_.contains(input) || index_.IsInitializer(input) ||
             (producer != nullptr && IsDequantizeNode(*producer));
    });
  }

  onnx::NodeProto Cast(const std::string& input, const std::string& output, ElementType type) {
    onnx::NodeProto cast =
        graph::MakeNode("Cast", names_.UniqueNode(StrCat(output, "_Cast")), {input}, {output});
    graph::SetAttribute("to", int64_t{type}, &cast);
    return cast;
  }

  // A graph output keeps its name: its producer makes another, which is rounded into it.
  void Rewrite() {
    absl::flat_hash_map<std::string, std::string> made;  // graph output -> name at its producer
    for (auto& [tensor, names] : rounded_) {
      if (!index_.IsGraphOutput(tensor) || index_.Producer(tensor) == nullptr) continue;
      made[tensor] = names.back;
      names.back = tensor;
    }
    std::vector<onnx::NodeProto> nodes;
    const auto round = [&](const std::string& tensor) {
      const auto found = rounded_.find(tensor);
      if (found == rounded_.end()) return;
      const auto source = made.find(tensor);
      nodes.push_back(
          Cast(source == made.end() ? tensor : source->second, found->second.low, precision_));
      nodes.push_back(Cast(found->second.low, found->second.back, TensorProto::FLOAT));
    };
    for (const auto& input : before_.input()) round(input.name());
    for (auto& node : *graph_->mutable_node()) {
      const onnx::NodeProto old = node;
      for (int i = 0; i < node.input_size(); ++i) {
        if (IsParameterInput(node, i) && !(i == 0 && IsQuantizeNode(node))) continue;
        if (index_.IsGraphInput(node.input(i)) && IsQuantizeNode(node)) continue;
        const auto found = rounded_.find(node.input(i));
        if (found != rounded_.end()) node.set_input(i, found->second.back);
      }
      for (auto& output : *node.mutable_output()) {
        if (const auto found = made.find(output); found != made.end()) output = found->second;
      }
      nodes.push_back(std::move(node));
      for (const auto& output : old.output()) round(output);
    }
    graph_->clear_node();
    for (auto& node : nodes) *graph_->add_node() = std::move(node);
  }

  const ElementType precision_;
  ReducedPrecision* result_;
  const onnx::GraphProto before_;
  const GraphIndex index_;
  const IntegerLayers layers_;
  graph::NameScope names_;
  onnx::GraphProto* graph_;
  absl::flat_hash_map<std::string, Rounded> rounded_;
  // Tensors that hold only values of the reduced type.
  absl::flat_hash_set<std::string> exact_;
};

bool HasExtendedPairs(const onnx::GraphProto& graph) {
  return std::any_of(graph.node().begin(), graph.node().end(), [](const onnx::NodeProto& node) {
    return node.domain() == kQuarkDomain && IsQdqNode(node);
  });
}

// Pairs of com.amd.quark as standard operators: Casts, or Q/DQ of the domain that takes every
// integer type at any opset.
int ReplaceExtendedPairs(graph::Model* model) {
  if (!HasExtendedPairs(model->graph())) return 0;
  graph::NameScope names(model->graph());
  int replaced = ReplacePairsByCasts(/*float16_too=*/true, model, &names);
  for (auto& node : *model->mutable_graph()->mutable_node()) {
    if (node.domain() != kQuarkDomain || !IsQdqNode(node)) continue;
    node.set_op_type(IsQuantizeNode(node) ? "QuantizeLinear" : "DequantizeLinear");
    node.set_domain(std::string(kMicrosoftDomain));
    ++replaced;
  }
  if (model->OpsetOf(kMicrosoftDomain) == 0) model->SetOpset(kMicrosoftDomain, 1);
  return replaced;
}

// Quark's weights-only form: initializers `<name>_bf16` of float type, all of them rounded.
bool HasRoundedWeights(const graph::Model& model) {
  int found = 0;
  for (const auto& initializer : model.graph().initializer()) {
    if (initializer.data_type() != TensorProto::FLOAT || !initializer.name().ends_with("_bf16")) {
      continue;
    }
    const auto data = model.Data(initializer);
    if (!data.ok()) return false;
    const auto values = data->As<uint32_t>();
    if (std::any_of(values.begin(), values.end(), [](uint32_t bits) { return bits & 0xFFFF; })) {
      return false;
    }
    ++found;
  }
  return found > 0;
}

ElementType PrecisionFromName(std::string_view name) {
  if (name == "bf16") return TensorProto::BFLOAT16;
  if (name == "fp16") return TensorProto::FLOAT16;
  return TensorProto::UNDEFINED;
}

}  // namespace

std::string_view PrecisionName(ElementType precision) {
  return precision == TensorProto::FLOAT16 ? "FP16" : "BF16";
}

HiddenPrecision FindHiddenPrecision(const graph::Model& model) {
  HiddenPrecision hidden;
  hidden.extended_pairs = HasExtendedPairs(model.graph());
  if (hidden.extended_pairs) hidden.reason = "it holds Q/DQ pairs of com.amd.quark";
  for (const auto& entry : model.proto().metadata_props()) {
    if (entry.key() != kFloatPrecisionKey) continue;
    hidden.float_tensors = PrecisionFromName(entry.value());
    if (hidden.float_tensors == TensorProto::UNDEFINED) continue;
    hidden.reason =
        StrCat("the compiler turns its float tensors into ", PrecisionName(hidden.float_tensors));
    return hidden;
  }
  if (!hidden.extended_pairs && HasRoundedWeights(model)) {
    hidden.float_tensors = TensorProto::BFLOAT16;
    hidden.reason = "its weights are rounded to BF16, its activations are left to the compiler";
  }
  return hidden;
}

absl::StatusOr<ReducedPrecision> ReducedPrecisionReference(const graph::Model& model,
                                                           ElementType precision) {
  ReducedPrecision result;
  result.model = model;
  result.pairs = ReplaceExtendedPairs(&result.model);
  if (IsReducedFloat(precision)) GQ_RETURN_IF_ERROR(Rounder(precision, &result).Run());
  return result;
}

absl::StatusOr<graph::Model> AsOnDevice(const graph::Model& model) {
  const HiddenPrecision hidden = FindHiddenPrecision(model);
  if (!hidden.any()) return model;
  GQ_ASSIGN_OR_RETURN(ReducedPrecision reduced,
                      ReducedPrecisionReference(model, hidden.float_tensors));
  return std::move(reduced.model);
}

}  // namespace gq::quantize
