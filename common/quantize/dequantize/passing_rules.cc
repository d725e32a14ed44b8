// Operators that move integers or compare them: they do the same to the numbers these stand for.
#include <algorithm>
#include <map>

#include "common/base/text.h"
#include "common/graph/tensor_data.h"
#include "common/quantize/dequantize/stripper.h"

namespace gq::quantize {
namespace {

using onnx::NodeProto;

constexpr int kEvery = -1;  // all inputs

struct Passing {
  std::vector<int> values;  // inputs that hold values
  bool moves = true;        // the results are values too; false: indices, shapes
};

const std::map<std::string, Passing, std::less<>>& Table() {
  static const auto& table = *new std::map<std::string, Passing, std::less<>>{
      {"Reshape", {{0}}},       {"Flatten", {{0}}},       {"Transpose", {{0}}},
      {"Squeeze", {{0}}},       {"Unsqueeze", {{0}}},     {"Identity", {{0}}},
      {"Slice", {{0}}},         {"Split", {{0}}},         {"Expand", {{0}}},
      {"Tile", {{0}}},          {"Gather", {{0}}},        {"GatherElements", {{0}}},
      {"GatherND", {{0}}},      {"DepthToSpace", {{0}}},  {"SpaceToDepth", {{0}}},
      {"MaxPool", {{0}}},       {"GlobalMaxPool", {{0}}}, {"ReduceMax", {{0}}},
      {"ReduceMin", {{0}}},     {"Resize", {{0}}},        {"Upsample", {{0}}},
      {"Compress", {{0}}},      {"TopK", {{0}}},          {"ReverseSequence", {{0}}},
      {"Concat", {{kEvery}}},   {"Max", {{kEvery}}},      {"Min", {{kEvery}}},
      {"Where", {{1, 2}}},      {"Clip", {{0, 1, 2}}},    {"ScatterElements", {{0, 2}}},
      {"ScatterND", {{0, 2}}},  {"Pad", {{0}}},           {"ArgMax", {{0}, false}},
      {"ArgMin", {{0}, false}}, {"Shape", {{0}, false}},  {"Size", {{0}, false}},
  };
  return table;
}

std::vector<int> Inputs(const NodeProto& node, const Passing& passing) {
  if (passing.values[0] != kEvery) return passing.values;
  std::vector<int> all(node.input_size());
  for (int i = 0; i < node.input_size(); ++i) all[i] = i;
  return all;
}

// The value that Pad fills with.
absl::Status PadValue(const NodeProto& node, const Grid& grid, NodeProto* copy,
                      Stripper& stripper) {
  const std::string mode = graph::AttributeString(node, "mode", "constant");
  if (mode != "constant") return absl::OkStatus();
  const std::string given(graph::InputName(node, 2));
  if (!given.empty()) {
    GQ_ASSIGN_OR_RETURN(const std::string real, stripper.Real(given, grid, node));
    copy->set_input(2, real);
    return absl::OkStatus();
  }
  GQ_ASSIGN_OR_RETURN(const GridValues values, stripper.Values(grid, node));
  const double zero = values.zero_point.empty() ? 0 : values.zero_point[0];
  const auto fill = static_cast<float>((0 - zero) * values.scale[0]);
  if (fill == 0) return absl::OkStatus();
  while (copy->input_size() < 3) copy->add_input();
  copy->set_input(2, stripper.AddScalar(base::StrCat(OutputOf(node, 0), "_fill"), fill));
  return absl::OkStatus();
}

absl::StatusOr<bool> Pass(const NodeProto& node, Stripper& stripper) {
  const Passing& passing = Table().find(node.op_type())->second;
  const std::vector<int> inputs = Inputs(node, passing);
  // All values have the parameters of the first that has any.
  Grid grid;
  for (const int input : inputs) {
    const Meaning* meaning = stripper.Find(graph::InputName(node, input));
    if (meaning == nullptr) continue;
    if (meaning->kind != Meaning::Kind::kQuantized) return false;
    if (grid.scale.empty()) grid = meaning->grid;
    if (!stripper.SameGrid(grid, meaning->grid)) return false;
  }
  if (grid.scale.empty()) return false;
  const auto scale = stripper.ConstantFloats(grid.scale, node);
  if (scale.ok() ? scale->size() != 1 : grid.block_size > 0) return false;
  NodeProto copy = node;
  for (int i = 0; i < node.input_size(); ++i) {
    if (InputOf(node, i).empty()) continue;
    if (std::find(inputs.begin(), inputs.end(), i) == inputs.end()) {
      GQ_ASSIGN_OR_RETURN(*copy.mutable_input(i), stripper.Plain(InputOf(node, i), node));
      continue;
    }
    if (stripper.Find(InputOf(node, i)) == nullptr &&
        stripper.Constant(InputOf(node, i)) == nullptr) {
      return false;  // integers of unknown origin beside quantized ones
    }
    GQ_ASSIGN_OR_RETURN(*copy.mutable_input(i), stripper.Real(InputOf(node, i), grid, node));
  }
  if (graph::IsOp(node, "Pad")) GQ_RETURN_IF_ERROR(PadValue(node, grid, &copy, stripper));
  if (passing.moves) {
    const int results = node.op_type() == "Split" ? node.output_size() : 1;
    for (int i = 0; i < results; ++i) {
      if (OutputOf(node, i).empty()) continue;
      const std::string name = stripper.RealName(OutputOf(node, i));
      copy.set_output(i, name);
      stripper.Define(OutputOf(node, i), {.real = name, .grid = grid});
    }
  }
  stripper.Emit(std::move(copy));
  return true;
}

}  // namespace

std::vector<int> PassingInputs(const NodeProto& node) {
  const auto found = Table().find(node.op_type());
  if (found == Table().end() || !found->second.moves) return {};
  if (!node.domain().empty() && node.domain() != "ai.onnx") return {};
  return Inputs(node, found->second);
}

StripRule FindPassingRule(const NodeProto& node) {
  if (!node.domain().empty() && node.domain() != "ai.onnx") return nullptr;
  return Table().contains(node.op_type()) ? Pass : nullptr;
}

}  // namespace gq::quantize
