#include "common/quantize/npu_alignment.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/quantize/bias_parameters.h"
#include "common/quantize/operator_rules.h"
#include "common/quantize/parameters.h"
#include "common/quantize/position_graph.h"

namespace gq::quantize {
namespace {

class Aligner;

struct AlignmentRule {
  std::string_view name;
  bool Alignment::*on;
  std::vector<std::string_view> types;
  void (Aligner::*apply)(const onnx::NodeProto&);
};

class Aligner {
 public:
  explicit Aligner(QuantizeContext& context)
      : context_(context), positions_(context.model, context.settings) {
    if (context.settings.quark) return;
    for (const QuantizedTensor& tensor : context.tensors) {
      if (tensor.data_name.empty() || tensor.values.dtype() != onnx::TensorProto::FLOAT) continue;
      const auto values = tensor.values.As<float>();
      if (std::all_of(values.begin(), values.end(), [](float value) { return value == 0; })) {
        zero_scales_.insert(tensor.scale_name);
      }
    }
  }

  int Run() {
    const Alignment& wanted = context_.settings.alignment;
    moved_ = true;
    for (int round = 1; moved_ && round <= wanted.max_rounds; ++round) {
      moved_ = false;
      for (const auto& rule : Rules()) {
        if (wanted.*rule.on) ApplyRule(rule);
      }
    }
    if (moved_) {
      context_.Warn(base::StrCat("Alignment for the NPU did not settle in ", wanted.max_rounds,
                                 " rounds; some positions may still break its limits"));
    }
    return static_cast<int>(context_.alignment.size());
  }

 private:
  static const std::vector<AlignmentRule>& Rules();

  void ApplyRule(const AlignmentRule& rule) {
    rule_ = rule.name;
    for (const auto& node : positions_.graph().node()) {
      if (std::find(rule.types.begin(), rule.types.end(), node.op_type()) != rule.types.end()) {
        (this->*rule.apply)(node);
      }
    }
  }

  void Move(const onnx::NodeProto& node, const PositionSlot& slot, int position) {
    context_.alignment.push_back({.rule = std::string(rule_),
                                  .node = node.name(),
                                  .scale = slot.node->input(1),
                                  .before = slot.position,
                                  .after = position});
    positions_.Set(slot, position);
    moved_ = true;
  }

  // Positions of all inputs; nothing when one is missing.
  std::vector<PositionSlot> AllInputs(const onnx::NodeProto& node) const {
    std::vector<PositionSlot> slots;
    for (int i = 0; i < node.input_size(); ++i) {
      slots.push_back(positions_.Input(node, i));
      if (!slots.back()) return {};
    }
    return slots;
  }

  void AlignConcat(const onnx::NodeProto& node) {
    const PositionSlot output = positions_.Output(node);
    if (!output) return;
    int lowest = output.position;
    for (int i = 0; i < node.input_size(); ++i) {
      const PositionSlot input = positions_.Input(node, i);
      if (input && !zero_scales_.contains(input.node->input(1))) {
        lowest = std::min(lowest, input.position);
      }
    }
    if (output.position != lowest) Move(node, output, lowest);
    for (int i = 0; i < node.input_size(); ++i) {
      // Read again: inputs may share a scale.
      const PositionSlot input = positions_.Input(node, i);
      if (input && input.position != lowest) Move(node, input, lowest);
    }
  }

  void AlignInputAndOutput(const onnx::NodeProto& node) {
    const PositionSlot input = positions_.PoolInput(node);
    const PositionSlot output = positions_.Output(node);
    if (!input || !output) return;
    if (output.position > input.position) Move(node, output, input.position);
    if (output.position < input.position) Move(node, input, output.position);
  }

  void ShiftRead(const onnx::NodeProto& node) {
    constexpr int kLimit = 7;
    const std::vector<PositionSlot> inputs = AllInputs(node);
    if (inputs.empty()) return;
    const auto [low, high] =
        std::minmax_element(inputs.begin(), inputs.end(),
                            [](const auto& a, const auto& b) { return a.position < b.position; });
    // minmax_element gives the last of several largest; the first one moves.
    const auto first_high = std::find_if(inputs.begin(), inputs.end(), [&](const auto& slot) {
      return slot.position == high->position;
    });
    if (high->position - low->position > kLimit) Move(node, *first_high, low->position + kLimit);
  }

  void ShiftWrite(const onnx::NodeProto& node) {
    const std::vector<PositionSlot> inputs = AllInputs(node);
    const PositionSlot output = positions_.Output(node);
    if (inputs.empty() || !output) return;
    const bool add = node.op_type() == "Add";
    int input = inputs[0].position;
    for (size_t i = 1; i < inputs.size(); ++i) {
      input = add ? std::min(input, inputs[i].position) : input + inputs[i].position;
    }
    const int shift = input - output.position;
    const int held = add ? std::clamp(shift, -7, 25) : std::clamp(shift, 0, 32);
    if (held == shift) return;
    const bool moved = moved_;
    Move(node, output, input - held);
    if (!add) moved_ = moved;
  }

  void ShiftCut(const onnx::NodeProto& node) {
    const PositionSlot input = positions_.PoolInput(node);
    const PositionSlot output = positions_.Output(node);
    const PositionSlot weight = positions_.Input(node, 1);
    if (!input || !output || !weight) return;
    const int shift = weight.position + input.position - output.position;
    const int held = std::clamp(shift, 0, 16);
    if (held != shift) Move(node, weight, held + output.position - input.position);
  }

  void ShiftBias(const onnx::NodeProto& node) {
    constexpr int kUpper = 15;
    const PositionSlot input = positions_.PoolInput(node);
    const PositionSlot output = positions_.Output(node);
    const PositionSlot weight = positions_.Input(node, 1);
    const PositionSlot bias = positions_.Input(node, 2);
    if (!input || !output || !weight || !bias) return;
    const int cut = weight.position + input.position - output.position;
    int lower = std::min(0, -(24 - (8 + cut)));
    for (const onnx::NodeProto* reader : positions_.FirstReaders(node.output(0))) {
      if (reader->op_type() == "LeakyRelu") lower = 0;
    }
    const int shift = weight.position + input.position - bias.position;
    // A bias that is large beside the products: finer steps would clip it, while coarser steps of
    // the weights are still far below those of the output.
    constexpr int kOutputSlack = 4;
    if (!context_.settings.quark && shift > kUpper &&
        output.position <= bias.position + kOutputSlack) {
      Move(node, weight, kUpper + bias.position - input.position);
      return;
    }
    int held = shift;
    if (shift < lower) {
      held = lower;
    } else if (shift > kUpper) {
      held = kUpper;
    }
    if (held != shift) Move(node, bias, weight.position + input.position - held);
  }

  void HardSigmoid(const onnx::NodeProto& node) {
    if (!IsNpuHardSigmoid(node)) return;
    const PositionSlot input = positions_.PoolInput(node);
    const PositionSlot output = positions_.Output(node);
    if (!input || !output) return;
    const int new_input = std::clamp(input.position, 0, 15);
    int new_output = std::max(output.position, 7);
    if (14 + new_input - new_output <= 0) new_output = 14 + new_input;
    if (new_input != input.position) Move(node, input, new_input);
    if (new_output != output.position) Move(node, output, new_output);
  }

  // x * hard_sigmoid(x): one input of the Mul is what a HardSigmoid reads.
  void ShiftSwish(const onnx::NodeProto& node) {
    if (node.input_size() != 2) return;
    const auto feeds_sigmoid = [this](const std::string& tensor) {
      const auto& readers = positions_.FirstReaders(tensor);
      return std::any_of(readers.begin(), readers.end(),
                         [](const auto* reader) { return IsNpuHardSigmoid(*reader); });
    };
    if (!feeds_sigmoid(node.input(0)) && !feeds_sigmoid(node.input(1))) return;
    const PositionSlot output = positions_.Output(node);
    const std::vector<PositionSlot> inputs = AllInputs(node);
    if (!output || inputs.empty()) return;
    const int input = inputs[0].position + inputs[1].position;
    const int shift = input - output.position;
    const int held = std::clamp(shift, 0, 15);
    if (held != shift) Move(node, output, input - held);
  }

  QuantizeContext& context_;
  PositionGraph positions_;
  // Of constants that are zero throughout: they fit any position and shall not impose theirs.
  absl::flat_hash_set<std::string> zero_scales_;
  std::string_view rule_;
  bool moved_ = false;
};

const std::vector<AlignmentRule>& Aligner::Rules() {
  static const auto* const kRules = new std::vector<AlignmentRule>{
      {"concat", &Alignment::concat, {"Concat"}, &Aligner::AlignConcat},
      {"pool",
       &Alignment::pool,
       {"MaxPool", "AveragePool", "GlobalAveragePool"},
       &Aligner::AlignInputAndOutput},
      {"pad", &Alignment::pad, {"Pad"}, &Aligner::AlignInputAndOutput},
      {"slice", &Alignment::slice, {"Slice"}, &Aligner::AlignInputAndOutput},
      {"shift read", &Alignment::shift_read, {"Add", "Sub"}, &Aligner::ShiftRead},
      {"shift write", &Alignment::shift_write, {"Add", "Mul"}, &Aligner::ShiftWrite},
      {"shift cut", &Alignment::shift_cut, {"Conv", "Gemm"}, &Aligner::ShiftCut},
      {"shift bias", &Alignment::shift_bias, {"Conv", "Gemm"}, &Aligner::ShiftBias},
      {"hard sigmoid", &Alignment::hard_sigmoid, {"HardSigmoid"}, &Aligner::HardSigmoid},
      {"shift swish", &Alignment::shift_swish, {"Mul"}, &Aligner::ShiftSwish},
  };
  return *kRules;
}

}  // namespace

absl::StatusOr<int> AlignForNpu::Run(QuantizeContext& context) const {
  return Aligner(context).Run();
}

namespace {

// Brings an int32 bias back to the product of its present input and weight scales. True when it
// changed.
bool RefreshBias(QuantizedTensor& bias, const InitializerMap& initializers) {
  onnx::TensorProto* data = initializers.Find(bias.data_name);
  onnx::TensorProto* scales = initializers.Find(bias.scale_name);
  const onnx::TensorProto* weight = initializers.Find(bias.weight_scale_name);
  if (data == nullptr || scales == nullptr || weight == nullptr) return false;
  const QuantParams input{.scale = initializers.Scale(bias.input_scale_name)};
  std::vector<QuantParams> weights;
  const auto weight_scales = initializers.model().Data(*weight);
  for (int64_t i = 0; weight_scales.ok() && i < weight_scales->size(); ++i) {
    weights.push_back({.scale = static_cast<float>(weight_scales->At(i))});
  }
  if (weights.empty()) return false;
  const Int32Bias fresh =
      QuantizeBias(bias.values.As<float>(), std::span(&input, 1), weights, bias.beta);
  bool changed = false;
  for (size_t i = 0; i < fresh.scales.size() && i < bias.params.size(); ++i) {
    changed = changed || bias.params[i].scale != fresh.scales[i];
    bias.params[i].scale = fresh.scales[i];
  }
  if (!changed) return false;
  const auto dims = bias.values.dims();
  const std::vector<int64_t> scale_dims(scales->dims().begin(), scales->dims().end());
  initializers.model().SetData(graph::TensorView::Of<int32_t>(dims, fresh.values), data);
  initializers.model().SetData(graph::TensorView::Of<float>(scale_dims, fresh.scales), scales);
  return true;
}

}  // namespace

absl::StatusOr<int> RequantizeMoved::Run(QuantizeContext& context) const {
  const InitializerMap initializers(context.model);
  int changed = 0;
  for (auto& tensor : context.tensors) {
    if (tensor.tensor_class == TensorClass::kBias) {
      changed += RefreshBias(tensor, initializers) ? 1 : 0;
      continue;
    }
    if (tensor.data_name.empty() || tensor.params.size() != 1 ||
        IsReducedFloat(tensor.params[0].type)) {
      continue;
    }
    const float scale = initializers.Scale(tensor.scale_name);
    onnx::TensorProto* data = initializers.Find(tensor.data_name);
    if (data == nullptr || scale == tensor.params[0].scale) continue;
    tensor.params[0].scale = scale;
    context.model.SetData(
        QuantizeTensor(tensor.values.As<float>(), tensor.values.dims(), tensor.axis, tensor.params),
        data);
    ++changed;
  }
  return changed;
}

}  // namespace gq::quantize
