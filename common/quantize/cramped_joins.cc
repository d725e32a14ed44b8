#include "common/quantize/cramped_joins.h"

#include <cmath>
#include <optional>

#include "common/base/text.h"
#include "common/graph/analysis.h"
#include "common/quantize/parameters.h"

namespace gq::quantize {
namespace {

constexpr double kLeastBits = 4;

// Bits of the steps that fall into the tensor's own range; nothing for a tensor of zeros or one
// that was not observed.
std::optional<double> BitsLeft(const QuantizeContext& context, const std::string& tensor,
                               const QuantParams& output) {
  const RangeSource source = context.sources.Of(tensor);
  const auto seen = context.extremes.find(source.tensor);
  ValueRange range;
  if (source.fixed) {
    range = *source.fixed;
  } else if (seen != context.extremes.end()) {
    range = seen->second;
  } else {
    return std::nullopt;
  }
  const double largest = std::max(std::fabs(range.min), std::fabs(range.max));
  if (largest == 0) return std::nullopt;
  const double width =
      context.settings.activation_symmetric
          ? 2 * largest
          : static_cast<double>(std::max(range.max, 0.0f)) - std::min(range.min, 0.0f);
  return std::log2(width / output.scale);
}

struct Behind {
  std::vector<std::string> nodes;
  bool computes = false;
};

Behind NodesBehind(const graph::GraphIndex& index, const onnx::NodeProto& join) {
  Behind behind;
  std::vector<const onnx::NodeProto*> open{&join};
  absl::flat_hash_set<const onnx::NodeProto*> seen{&join};
  while (!open.empty()) {
    const onnx::NodeProto* node = open.back();
    open.pop_back();
    behind.nodes.push_back(node->name());
    behind.computes = behind.computes || (node != &join && graph::IsComputeNode(*node));
    for (const auto& output : node->output()) {
      for (const auto& use : index.Uses(output)) {
        const onnx::NodeProto* reader = &index.node(use.node);
        if (seen.insert(reader).second) open.push_back(reader);
      }
    }
  }
  return behind;
}

}  // namespace

std::vector<CrampedJoin> FindCrampedJoins(QuantizeContext& context) {
  std::vector<CrampedJoin> joins;
  for (const auto& node : context.index.graph().node()) {
    if (node.op_type() != "Concat" || !context.placement.Contains(node.output(0))) continue;
    const auto output = ActivationParams(context, node.output(0));
    if (!output.ok() || IsReducedFloat(output->type)) continue;
    for (const auto& input : node.input()) {
      const auto bits = BitsLeft(context, input, *output);
      if (!bits || *bits >= kLeastBits) continue;
      const Behind behind = NodesBehind(context.index, node);
      if (behind.computes) {
        context.Warn(base::StrCat("'", node.name(), "' joins tensors of very different ranges; '",
                                  input, "' keeps ", std::lround(std::max(*bits, 0.0)),
                                  " bits of its own range"));
      } else {
        joins.push_back({node.name(), input, *bits, behind.nodes});
      }
      break;
    }
  }
  return joins;
}

}  // namespace gq::quantize
