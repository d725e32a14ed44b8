#include "common/quantize/mask_ranges.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "common/base/text.h"

namespace gq::quantize {
namespace {

constexpr float kMaskLike = -1e3f;  // far below any score
constexpr float kVanishes = 16;     // exp(-16) is 1.1e-7

bool MovesData(std::string_view type) {
  return type == "Reshape" || type == "Transpose" || type == "Squeeze" || type == "Unsqueeze" ||
         type == "Cast" || type == "Identity" || type == "Expand" || type == "Slice";
}

class MaskLimiter {
 public:
  explicit MaskLimiter(QuantizeContext& context) : context_(context), index_(context.index) {}

  int Run() {
    int limited = 0;
    for (const auto& node : index_.graph().node()) {
      const bool joins = node.op_type() == "Add" || node.op_type() == "Where";
      if (joins && LeadsToSoftmax(node.output(0), 0) && Limit(node)) ++limited;
    }
    return limited;
  }

 private:
  static bool Masks(std::string_view type) {
    return type == "Add" || type == "Where" || type == "Mul";
  }

  bool LeadsToSoftmax(const std::string& tensor, int depth, bool for_constant = false) const {
    if (depth > (for_constant ? 5 : 3)) return false;
    for (const auto& use : index_.Uses(tensor)) {
      const auto& reader = index_.node(use.node);
      if (reader.op_type() == "Softmax") return true;
      const bool passes = MovesData(reader.op_type()) || (for_constant && Masks(reader.op_type()));
      if (passes && LeadsToSoftmax(reader.output(0), depth + 1, for_constant)) return true;
    }
    return false;
  }

  // Extremes of an observed tensor or a constant.
  std::optional<ValueRange> Extremes(const std::string& tensor) const {
    if (const onnx::TensorProto* constant = index_.Initializer(tensor)) {
      const auto data = context_.float_model.Data(*constant);
      if (!data.ok() || data->dtype() != onnx::TensorProto::FLOAT || data->size() == 0) {
        return std::nullopt;
      }
      const auto values = data->As<float>();
      const auto [low, high] = std::minmax_element(values.begin(), values.end());
      return ValueRange{*low, *high};
    }
    const auto seen = context_.extremes.find(tensor);
    if (seen == context_.extremes.end()) return std::nullopt;
    return seen->second;
  }

  static bool HidesScores(const ValueRange& mask, const ValueRange& scores) {
    return mask.min <= kMaskLike && scores.min > kMaskLike && mask.min < 10 * scores.min;
  }

  bool Limit(const onnx::NodeProto& node) {
    const int first = node.op_type() == "Where" ? 1 : 0;
    const std::string& a = node.input(first);
    const std::string& b = node.input(first + 1);
    const auto range_a = Extremes(a);
    const auto range_b = Extremes(b);
    if (!range_a || !range_b) return false;
    const bool a_is_mask = HidesScores(*range_a, *range_b);
    const bool b_is_mask = HidesScores(*range_b, *range_a);
    if (a_is_mask == b_is_mask) return false;
    const ValueRange scores = a_is_mask ? *range_b : *range_a;
    const float width = scores.max - scores.min;
    context_.observed[node.output(0)] = {scores.min - kVanishes, scores.max};
    LimitMask(a_is_mask ? a : b, {-(width + kVanishes), 0}, 0);
    return true;
  }

  // The mask, what only moves its data on the way here, and the constant that it is made from. A
  // mask of several sums has the range that suits all.
  void LimitMask(const std::string& mask, ValueRange range, int depth) {
    constexpr int kDepth = 4;
    if (depth > kDepth) return;
    if (index_.IsInitializer(mask)) return FloorConstant(mask, range.min);
    const auto [it, first] = limited_.try_emplace(mask, range.min);
    if (!first) it->second = std::min(it->second, range.min);
    range.min = it->second;
    context_.observed[mask] = range;
    const onnx::NodeProto* producer = index_.Producer(mask);
    if (producer == nullptr || producer->input_size() == 0) return;
    const std::string& type = producer->op_type();
    if (MovesData(type)) return LimitMask(producer->input(0), range, depth + 1);
    if (type == "Mul") return FloorFactor(*producer, range.min);
    if (type != "Where") return;
    for (int i = 1; i < 3; ++i) {
      if (index_.IsInitializer(producer->input(i))) FloorConstant(producer->input(i), range.min);
    }
  }

  // The constant that turns 1 into the mask's value.
  void FloorFactor(const onnx::NodeProto& product, float floor) {
    for (int i = 0; i < 2; ++i) {
      const std::string& constant = product.input(i);
      const auto other = Extremes(product.input(1 - i));
      if (!index_.IsInitializer(constant) || !other || other->min < 0 || other->max <= 0) continue;
      FloorConstant(constant, floor / other->max);
    }
  }

  // Only where nothing but masks reads it.
  void FloorConstant(const std::string& constant, float floor) {
    for (const auto& use : index_.Uses(constant)) {
      const auto& reader = index_.node(use.node);
      const bool masks = Masks(reader.op_type()) || MovesData(reader.op_type());
      if (!masks || !LeadsToSoftmax(reader.output(0), 0, true)) return;
    }
    ValueRange& range = context_.observed.try_emplace(constant, ValueRange{floor, 0}).first->second;
    range.min = std::min(range.min, floor);
  }

  QuantizeContext& context_;
  const graph::GraphIndex& index_;
  absl::flat_hash_map<std::string, float> limited_;  // masks with their smallest value
};

}  // namespace

int LimitMaskRanges(QuantizeContext& context) {
  if (context.settings.quark || IsReducedFloat(context.settings.activation_type)) return 0;
  const int limited = MaskLimiter(context).Run();
  if (limited > 0) {
    context.passes.push_back(
        {.name = "mask ranges",
         .summary = "constants that mask scores get the range that a Softmax needs",
         .changed = limited});
    context.reporter.Info(
        "Quantize",
        base::StrCat("Ranges of ", limited, " attention masks limited to what the Softmax needs"));
  }
  return limited;
}

}  // namespace gq::quantize
