#include "common/quantize/mask_ranges.h"

#include <algorithm>
#include <optional>

#include "common/base/text.h"

namespace gq::quantize {
namespace {

constexpr float kMaskLike = -1e4f;  // far below any score
constexpr float kVanishes = 16;     // exp(-16) is 1.1e-7

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
  bool LeadsToSoftmax(const std::string& tensor, int depth) const {
    constexpr int kDepth = 3;
    if (depth > kDepth) return false;
    for (const auto& use : index_.Uses(tensor)) {
      const auto& reader = index_.node(use.node);
      if (reader.op_type() == "Softmax") return true;
      const bool moves = reader.op_type() == "Reshape" || reader.op_type() == "Transpose" ||
                         reader.op_type() == "Squeeze" || reader.op_type() == "Unsqueeze" ||
                         reader.op_type() == "Cast";
      if (moves && LeadsToSoftmax(reader.output(0), depth + 1)) return true;
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

  bool Limit(const onnx::NodeProto& node) {
    const int first = node.op_type() == "Where" ? 1 : 0;
    const std::string& a = node.input(first);
    const std::string& b = node.input(first + 1);
    const auto range_a = Extremes(a);
    const auto range_b = Extremes(b);
    if (!range_a || !range_b) return false;
    const bool a_is_mask = range_a->min < kMaskLike && range_b->min > kMaskLike;
    const bool b_is_mask = range_b->min < kMaskLike && range_a->min > kMaskLike;
    if (a_is_mask == b_is_mask) return false;
    const ValueRange scores = a_is_mask ? *range_b : *range_a;
    const float width = scores.max - scores.min;
    context_.observed[node.output(0)] = {scores.min - kVanishes, scores.max};
    LimitMask(a_is_mask ? a : b, {-(width + kVanishes), 0}, 0);
    return true;
  }

  // The mask and what only moves its data on the way here.
  void LimitMask(const std::string& mask, ValueRange range, int depth) {
    constexpr int kDepth = 4;
    if (depth > kDepth || index_.IsInitializer(mask)) return;
    context_.observed[mask] = range;
    const onnx::NodeProto* producer = index_.Producer(mask);
    if (producer == nullptr || producer->input_size() == 0) return;
    const std::string& type = producer->op_type();
    if (type == "Reshape" || type == "Transpose" || type == "Unsqueeze" || type == "Squeeze" ||
        type == "Expand" || type == "Slice" || type == "Identity") {
      LimitMask(producer->input(0), range, depth + 1);
    }
  }

  QuantizeContext& context_;
  const graph::GraphIndex& index_;
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
