#include "common/quantize/dequantize/stripper.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/base/text.h"
#include "common/graph/tensor_data.h"

namespace gq::quantize {

using base::MakeError;
using base::Reason;
using base::StrCat;
using graph::MakeNode;
using graph::TensorView;
using onnx::NodeProto;
using onnx::TensorProto;

Stripper::Stripper(const graph::Model& source, graph::Model* target, DequantizeReport* report)
    : source_(source), target_(target), report_(report), names_(target->graph()) {}

absl::Status Stripper::Run() { return Walk(source_.graph(), target_->mutable_graph(), nullptr); }

absl::Status Stripper::Walk(const onnx::GraphProto& source, onnx::GraphProto* target,
                            StripScope* outer) {
  StripScope scope(source, outer);
  StripScope* const before = std::exchange(scope_, &scope);
  absl::Status status = [&]() -> absl::Status {
    GQ_RETURN_IF_ERROR(FindMeanings(target));
    for (const NodeProto& node : source.node()) GQ_RETURN_IF_ERROR(Node(node));
    GQ_RETURN_IF_ERROR(FinishOutputs(target));
    target->clear_node();
    target->clear_value_info();
    target->clear_quantization_annotation();
    for (NodeProto& node : scope.nodes) *target->add_node() = std::move(node);
    return absl::OkStatus();
  }();
  scope_ = before;
  return status;
}

absl::Status Stripper::Node(const NodeProto& node) {
  if (const StripRule rule = FindRule(node)) {
    if (node.input_size() == 0 || OutputOf(node, 0).empty()) {
      return Refuse(node, "it has no input or no output");
    }
    GQ_ASSIGN_OR_RETURN(const bool done, rule(node, *this));
    if (done) return absl::OkStatus();
  }
  return Ordinary(node);
}

absl::Status Stripper::Ordinary(const NodeProto& node) {
  NodeProto copy = node;
  for (std::string& input : *copy.mutable_input()) {
    if (input.empty()) continue;
    GQ_ASSIGN_OR_RETURN(input, Plain(input, node));
  }
  GQ_RETURN_IF_ERROR(Bodies(&copy).status());
  Emit(std::move(copy));
  return absl::OkStatus();
}

// Bodies of If keep quantized results as floats when all branches agree; others deliver integers.
absl::StatusOr<bool> Stripper::Bodies(NodeProto* node) {
  bool any = false;
  absl::Status status;
  const NodeProto before = *node;
  for (int i = 0; i < node->attribute_size(); ++i) {
    auto* attribute = node->mutable_attribute(i);
    if (attribute->has_g()) {
      any = true;
      status.Update(Walk(before.attribute(i).g(), attribute->mutable_g(), scope_));
    }
    for (int j = 0; j < attribute->graphs_size(); ++j) {
      any = true;
      status.Update(Walk(before.attribute(i).graphs(j), attribute->mutable_graphs(j), scope_));
    }
  }
  if (!status.ok()) return status;
  return any;
}

absl::Status Stripper::FindMeanings(onnx::GraphProto* target) {
  const bool main = scope_->outer == nullptr;
  // Parameters that all readers of a tensor agree on, looking through pass-through operators.
  struct Finder {
    Stripper& stripper;
    Grid grid;
    bool passed = false;  // a pass-through operator stands between
    bool Find(std::string_view name, int depth) {
      const graph::GraphIndex& index = stripper.scope().index;
      if (depth > 32 || index.IsGraphOutput(name) || index.Uses(name).empty()) return false;
      for (const graph::TensorUse& use : index.Uses(name)) {
        if (use.input == graph::TensorUse::kCaptured) return false;
        const NodeProto& node = index.node(use.node);
        const Grid operand = OperandGrid(node, use.input);
        if (!operand.scale.empty()) {
          if (grid.scale.empty()) {
            grid = operand;
          } else if (!stripper.SameGrid(grid, operand)) {
            return false;
          }
          continue;
        }
        const std::vector<int> passing = PassingInputs(node);
        if (std::find(passing.begin(), passing.end(), use.input) == passing.end()) return false;
        passed = true;
        if (!Find(OutputOf(node, 0), depth + 1)) return false;
      }
      return !grid.scale.empty();
    }
  };
  const auto is_small = [](int32_t type) {
    return graph::IsIntegerType(type) && graph::BitsPerElement(type) <= 16;
  };
  for (const auto& tensor : scope_->source.initializer()) {
    if (!is_small(tensor.data_type())) continue;
    Finder finder{*this, {}};
    if (!finder.Find(tensor.name(), 0) || !finder.passed || !IsConstantGrid(finder.grid)) continue;
    NodeProto nobody;
    GQ_ASSIGN_OR_RETURN(const std::string real, Real(tensor.name(), finder.grid, nobody));
    Define(tensor.name(), {.real = real, .grid = finder.grid});
  }
  if (!main) return absl::OkStatus();
  for (auto& input : *target->mutable_input()) {
    auto* type = input.mutable_type()->mutable_tensor_type();
    if (!is_small(type->elem_type())) continue;
    Finder finder{*this, {}};
    if (!finder.Find(input.name(), 0)) continue;
    report_->warnings.push_back(StrCat("input '", input.name(), "' was ",
                                       graph::DTypeName(type->elem_type()),
                                       " and is float32 now: give (integer - zero point) * scale"));
    type->set_elem_type(TensorProto::FLOAT);
    Define(input.name(), {.real = input.name(), .grid = finder.grid});
  }
  return absl::OkStatus();
}

absl::Status Stripper::FinishOutputs(onnx::GraphProto* target) {
  std::map<std::string, std::string> renamed;
  for (auto& output : *target->mutable_output()) {
    GQ_RETURN_IF_ERROR(FinishOutput(output.name(), &output, &renamed));
  }
  if (renamed.empty()) return absl::OkStatus();
  std::unordered_map<std::string, std::string> readers(renamed.begin(), renamed.end());
  onnx::GraphProto all;
  for (NodeProto& node : scope_->nodes) {
    for (std::string& output : *node.mutable_output()) {
      const auto found = readers.find(output);
      if (found != readers.end()) output = found->second;
    }
    *all.add_node() = std::move(node);
  }
  graph::ReplaceUses(std::move(readers), &all);
  scope_->nodes.assign(std::make_move_iterator(all.mutable_node()->begin()),
                       std::make_move_iterator(all.mutable_node()->end()));
  return absl::OkStatus();
}

absl::Status Stripper::FinishOutput(const std::string& name, onnx::ValueInfoProto* info,
                                    std::map<std::string, std::string>* renamed) {
  std::string real = Aliased(name);
  NodeProto nobody;
  nobody.set_op_type("graph output");
  nobody.set_name(name);
  const Meaning* meaning = Find(name);
  if (meaning != nullptr && scope_->outer == nullptr) {
    if (meaning->kind != Meaning::Kind::kQuantized) return Plain(name, nobody).status();
    real = meaning->real;
    auto* type = info->mutable_type()->mutable_tensor_type();
    report_->warnings.push_back(StrCat("output '", name, "' was ",
                                       graph::DTypeName(type->elem_type()), " and is float32 now"));
    type->set_elem_type(TensorProto::FLOAT);
  } else if (meaning != nullptr) {
    GQ_ASSIGN_OR_RETURN(real, Plain(name, nobody));
  }
  if (real == name) return absl::OkStatus();
  const bool made_here = scope_->producers.contains(real);
  const bool taken = scope_->index.IsGraphOutput(real) || renamed->contains(real) ||
                     scope_->producers.contains(name);
  if (made_here && !taken) {
    renamed->emplace(real, name);
    return absl::OkStatus();
  }
  if (const auto found = renamed->find(real); found != renamed->end()) real = found->second;
  Emit(MakeNode("Identity", UniqueNode(StrCat(name, "_Identity")), {real}, {name}));
  return absl::OkStatus();
}

const Meaning* Stripper::Find(std::string_view name) const {
  const std::string key(name);
  for (const StripScope* scope = scope_; scope != nullptr; scope = scope->outer) {
    const auto found = scope->meanings.find(key);
    if (found != scope->meanings.end()) return &found->second;
    if (scope->index.Exists(name)) return nullptr;
  }
  return nullptr;
}

std::string Stripper::Aliased(const std::string& name) const {
  for (const StripScope* scope = scope_; scope != nullptr; scope = scope->outer) {
    const auto found = scope->aliases.find(name);
    if (found != scope->aliases.end()) return found->second;
    if (scope->index.Exists(name)) break;
  }
  return name;
}

const TensorProto* Stripper::Constant(std::string_view name) const {
  for (const StripScope* scope = scope_; scope != nullptr && !name.empty(); scope = scope->outer) {
    if (const TensorProto* tensor = scope->index.Initializer(name)) return tensor;
    if (const NodeProto* producer = scope->index.Producer(name)) {
      if (!graph::IsOp(*producer, "Constant")) return nullptr;
      const auto* value = graph::FindAttribute(*producer, "value");
      return value != nullptr && value->has_t() ? &value->t() : nullptr;
    }
    if (scope->index.Exists(name)) return nullptr;
  }
  return nullptr;
}

absl::StatusOr<std::vector<float>> Stripper::ConstantFloats(std::string_view name,
                                                            const NodeProto& node) const {
  const TensorProto* tensor = Constant(name);
  if (tensor == nullptr) {
    return Refuse(node, StrCat("its parameter '", name, "' is computed, a constant is needed"));
  }
  GQ_ASSIGN_OR_RETURN(const TensorView view, source_.Data(*tensor));
  return view.ToFloats();
}

absl::StatusOr<TensorView> Stripper::ConstantView(const NodeProto& node, int input) const {
  const TensorProto* tensor = Constant(graph::InputName(node, input));
  if (tensor == nullptr) {
    return Refuse(node, StrCat("its input ", input, " is computed, a constant is needed"));
  }
  return source_.Data(*tensor);
}

const NodeProto* Stripper::Made(std::string_view name) const {
  const std::string key(name);
  for (const StripScope* scope = scope_; scope != nullptr; scope = scope->outer) {
    const auto found = scope->producers.find(key);
    if (found != scope->producers.end()) return &scope->nodes[found->second];
  }
  return nullptr;
}

NodeProto* Stripper::MutableMade(std::string_view name) {
  const auto found = scope_->producers.find(std::string(name));
  return found == scope_->producers.end() ? nullptr : &scope_->nodes[found->second];
}

NodeProto* Stripper::Emit(NodeProto node) {
  for (const std::string& output : node.output()) {
    if (!output.empty()) scope_->producers[output] = scope_->nodes.size();
  }
  scope_->nodes.push_back(std::move(node));
  return &scope_->nodes.back();
}

std::string Stripper::Compute(std::string_view op_type, const std::vector<std::string>& inputs,
                              std::string_view wanted) {
  std::string output = names_.Unique(wanted);
  Emit(MakeNode(op_type, names_.UniqueNode(output), inputs, {output}));
  return output;
}

std::string Stripper::Cast(const std::string& input, int32_t type, std::string_view wanted) {
  std::string output = Compute("Cast", {input}, wanted);
  graph::SetAttribute("to", int64_t{type}, &scope_->nodes.back());
  return output;
}

std::string Stripper::AddConstant(std::string_view wanted, const TensorView& data) {
  std::string name = names_.Unique(wanted);
  target_->AddInitializer(name, data);
  if (data.dtype() == TensorProto::FLOAT) added_[name] = data;
  return name;
}

std::optional<TensorView> Stripper::NewConstant(const std::string& name) const {
  const auto found = added_.find(name);
  if (found == added_.end()) return std::nullopt;
  return found->second;
}

std::string Stripper::AddScalar(std::string_view wanted, float value) {
  const std::string key = StrCat("scalar|", wanted, "|", std::bit_cast<uint32_t>(value));
  std::string& name = constants_[key];
  if (name.empty()) {
    name = AddConstant(wanted, TensorView::Of<float>({}, std::vector<float>{value}));
  }
  return name;
}

void Stripper::Define(const std::string& output, Meaning meaning) {
  scope_->meanings[output] = std::move(meaning);
}

void Stripper::Alias(const std::string& output, const std::string& real) {
  if (output != real) scope_->aliases[output] = real;
}

std::string Stripper::RealName(const std::string& output) {
  for (const graph::TensorUse& use : scope_->index.Uses(output)) {
    if (use.input != 0) continue;
    const NodeProto& reader = scope_->index.node(use.node);
    if (!reader.op_type().ends_with("DequantizeLinear") || reader.output_size() != 1) continue;
    if (!scope_->producers.contains(reader.output(0))) return reader.output(0);
  }
  std::string_view name = output;
  if (name.ends_with("_quantized")) name.remove_suffix(std::string_view("_quantized").size());
  return names_.Unique(name);
}

void Stripper::EmitQuantized(NodeProto node, const std::string& output, const Grid& grid) {
  const std::string name = RealName(output);
  node.clear_output();
  node.add_output(name);
  Emit(std::move(node));
  if (grid.scale.empty()) return Alias(output, name);
  if (const Clamp clamp = ClampOf(name, grid, *this); clamp != Clamp::kNone) {
    // The clamp has the name that readers know.
    const std::string raw = names_.Unique(StrCat(name, "_unclamped"));
    scope_->nodes.back().set_output(0, raw);
    scope_->producers[raw] = scope_->nodes.size() - 1;
    EmitClamp(clamp, raw, name, *this);
  }
  Define(output, {.real = name, .grid = grid});
}

namespace {

std::string FullName(const NodeProto& node) {
  const bool standard = node.domain().empty() || node.domain() == "ai.onnx";
  return standard ? node.op_type() : StrCat(node.domain(), ".", node.op_type());
}

}  // namespace

void Stripper::Removed(const NodeProto& node) { ++report_->removed[FullName(node)]; }
void Stripper::Replaced(const NodeProto& node) { ++report_->replaced[FullName(node)]; }

absl::Status Stripper::Refuse(const NodeProto& node, std::string_view why) const {
  return MakeError(Reason::kModelUnsupported,
                   StrCat("no float form of ", graph::Describe(node), ": ", why),
                   "quantize the float model itself, or keep this operator out of the quantized "
                   "model");
}

bool IsQuantizedDomain(std::string_view domain) {
  return domain.empty() || domain == "ai.onnx" || domain == "com.microsoft" ||
         domain == "com.amd.quark" || domain == "com.vai.quantize";
}

StripRule FindRule(const NodeProto& node) {
  if (!IsQuantizedDomain(node.domain())) return nullptr;
  for (const auto find : {FindQdqRule, FindQLinearRule, FindIntegerRule, FindContribRule,
                          FindPackedRule, FindPassingRule}) {
    if (const StripRule rule = find(node)) return rule;
  }
  return nullptr;
}

}  // namespace gq::quantize
