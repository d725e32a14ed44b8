#include "common/runtime/unsigned_weights.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"

namespace gq::runtime {
namespace {

using graph::InputName;

constexpr int kNone = -1;  // activations are float and become uint8 inside

// Where the inputs of an operator are that have to do with one of its weights.
struct WeightInputs {
  int activation = kNone;
  int activation_zero_point = kNone;
  int weight = 0;
  int scale = kNone;
  int zero_point = 0;
};

const std::multimap<std::string_view, WeightInputs>& Operators() {
  static const auto* const operators = new std::multimap<std::string_view, WeightInputs>{
      {"MatMulInteger", {0, 2, 1, kNone, 3}},
      {"ConvInteger", {0, 2, 1, kNone, 3}},
      {"QLinearMatMul", {0, 2, 3, 4, 5}},
      {"QLinearConv", {0, 2, 3, 4, 5}},
      {"QGemm", {0, 2, 3, 4, 5}},
      {"MatMulIntegerToFloat", {0, 4, 1, 3, 5}},
      {"QAttention", {0, 6, 1, 4, 7}},
      {"DynamicQuantizeMatMul", {kNone, kNone, 1, 2, 3}},
      {"DynamicQuantizeLSTM", {kNone, kNone, 1, 8, 9}},
      {"DynamicQuantizeLSTM", {kNone, kNone, 2, 10, 11}},
  };
  return *operators;
}

class Rewriter {
 public:
  explicit Rewriter(const graph::Model& model)
      : model_(model), index_(model.graph()), names_(model.graph()), copy_(model) {}

  std::optional<graph::Model> Run() {
    for (int i = 0; i < model_.graph().node_size(); ++i) {
      const auto [begin, end] = Operators().equal_range(model_.graph().node(i).op_type());
      for (auto at = begin; at != end; ++at) Rewrite(i, at->second);
    }
    if (unsigned_.empty()) return std::nullopt;
    // ONNX Runtime takes no data for an initializer that nobody reads.
    graph::RemoveUnusedInitializers(copy_.mutable_graph());
    return std::move(copy_);
  }

 private:
  bool MeetsUint8(const onnx::NodeProto& node, const WeightInputs& at) const {
    if (at.activation == kNone) return true;
    const std::string_view activation = InputName(node, at.activation);
    const onnx::NodeProto* producer = index_.Producer(activation);
    return index_.ElemType(activation) == onnx::TensorProto::UINT8 ||
           index_.ElemType(InputName(node, at.activation_zero_point)) == onnx::TensorProto::UINT8 ||
           (producer != nullptr && producer->op_type() == "DynamicQuantizeLinear");
  }

  // The int8 initializer's dims and elements.
  std::optional<std::pair<std::vector<int64_t>, std::vector<uint8_t>>> Shifted(
      std::string_view name) const {
    const onnx::TensorProto* tensor = index_.Initializer(name);
    if (tensor == nullptr || tensor->data_type() != onnx::TensorProto::INT8) return std::nullopt;
    const auto view = model_.Data(*tensor);
    if (!view.ok()) return std::nullopt;
    std::vector<uint8_t> values;
    values.reserve(view->bytes().size());
    for (const std::byte byte : view->bytes()) {
      values.push_back(static_cast<uint8_t>(byte ^ std::byte{0x80}));
    }
    return std::pair(std::vector<int64_t>(tensor->dims().begin(), tensor->dims().end()),
                     std::move(values));
  }

  std::string Add(std::string_view name, const std::vector<int64_t>& dims,
                  const std::vector<uint8_t>& values) {
    const std::string added = names_.Unique(base::StrCat(name, "_unsigned"));
    copy_.AddInitializer(added, graph::TensorView::Of<uint8_t>(dims, values));
    return added;
  }

  // The name of the unsigned form; empty where there is none.
  std::string Unsigned(std::string_view name) {
    const auto known = unsigned_.find(std::string(name));
    if (known != unsigned_.end()) return known->second;
    const auto shifted = Shifted(name);
    if (!shifted) return "";
    return unsigned_[std::string(name)] = Add(name, shifted->first, shifted->second);
  }

  // An absent zero point is 0 for every scale.
  std::string ZeroPoint(const onnx::NodeProto& node, const WeightInputs& at) {
    const std::string_view given = InputName(node, at.zero_point);
    if (!given.empty()) return Unsigned(given);
    std::vector<int64_t> dims;
    if (at.scale != kNone) {
      const auto shape = index_.StaticShape(InputName(node, at.scale));
      if (!shape) return "";
      dims = *shape;
    }
    size_t count = 1;
    for (const int64_t dim : dims) count *= static_cast<size_t>(dim);
    return Add(InputName(node, at.weight), dims, std::vector<uint8_t>(count, 128));
  }

  void Rewrite(int position, const WeightInputs& at) {
    const onnx::NodeProto& node = model_.graph().node(position);
    const onnx::TensorProto* weight = index_.Initializer(InputName(node, at.weight));
    if (weight == nullptr || weight->data_type() != onnx::TensorProto::INT8) return;
    if (!MeetsUint8(node, at)) return;
    const std::string zero_point = ZeroPoint(node, at);
    if (zero_point.empty()) return;
    const std::string name = Unsigned(weight->name());
    if (name.empty()) return;
    onnx::NodeProto* changed = copy_.mutable_graph()->mutable_node(position);
    while (changed->input_size() <= at.zero_point) changed->add_input("");
    changed->set_input(at.weight, name);
    changed->set_input(at.zero_point, zero_point);
  }

  const graph::Model& model_;
  const graph::GraphIndex index_;
  graph::NameScope names_;
  graph::Model copy_;
  std::map<std::string, std::string> unsigned_;  // by the name of the int8 tensor
};

}  // namespace

bool IntegerKernelsSaturate() {
#if defined(__x86_64__)
  return !__builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

std::optional<graph::Model> WithUnsignedWeights(const graph::Model& model) {
  const auto& nodes = model.graph().node();
  if (std::none_of(nodes.begin(), nodes.end(),
                   [](const auto& node) { return Operators().contains(node.op_type()); })) {
    return std::nullopt;
  }
  return Rewriter(model).Run();
}

}  // namespace gq::runtime
