#include "common/quantize/ranges.h"

#include "common/base/text.h"
#include "common/quantize/placement.h"
#include "onnx/onnx_pb.h"

namespace gq::quantize {
namespace {

bool IsObservable(const graph::GraphIndex& index, std::string_view tensor) {
  return !tensor.empty() && !index.IsInitializer(tensor) &&
         index.ElemType(tensor) == onnx::TensorProto::FLOAT;
}

// Readers as Quark counts them: node inputs, neither graph outputs nor subgraphs.
bool HasOneReader(const graph::GraphIndex& index, std::string_view tensor, bool quark) {
  if (!quark) return index.OnlyConsumer(tensor) != nullptr && index.Uses(tensor).size() == 1;
  int readers = 0;
  for (const auto& use : index.Uses(tensor)) {
    if (use.input != graph::TensorUse::kCaptured) ++readers;
  }
  return readers == 1;
}

}  // namespace

RangeSources::RangeSources(const graph::GraphIndex& index, const Settings& settings,
                           const Targets& targets) {
  for (const auto& node : index.graph().node()) {
    const bool clips = node.op_type() == "Clip" || node.op_type() == "Relu";
    if (!clips && node.op_type() != "Softmax") continue;
    if (!IsSelected(node, settings, targets)) continue;
    if (!clips) {
      sources_[node.output(0)] = {.tensor = node.output(0), .fixed = ValueRange{0, 1}};
      continue;
    }
    const std::string& input = node.input(0);
    const std::string& output = node.output(0);
    if (IsObservable(index, input) && IsObservable(index, output) &&
        HasOneReader(index, input, settings.quark)) {
      sources_[input] = Of(output);
    }
  }
}

RangeSource RangeSources::Of(std::string_view tensor) const {
  const auto it = sources_.find(base::ToAbsl(tensor));
  return it == sources_.end() ? RangeSource{.tensor = std::string(tensor)} : it->second;
}

}  // namespace gq::quantize
