#include "common/quantize/npu_alignment.h"

#include "common/base/text.h"
#include "common/quantize/dpu_simulation.h"
#include "common/quantize/presets.h"
#include "common/quantize/scale_initializers.h"
#include "tests/common/quantize/quantize_fixture.h"

namespace gq::quantize {
namespace {

using base::StrCat;

// One node whose inputs and output carry the given positions; constants stand behind the inputs.
class AlignmentGraph {
 public:
  AlignmentGraph(const std::string& op, const std::vector<int>& inputs,
                 const std::vector<int>& constants, int output) {
    auto* graph = model_.mutable_graph();
    graph->set_name("g");
    std::vector<std::string> names;
    for (size_t i = 0; i < inputs.size() + constants.size(); ++i) {
      const bool constant = i >= inputs.size();
      const std::string name = StrCat("t", i);
      AddScale(name, constant ? constants[i - inputs.size()] : inputs[i]);
      std::string source = name;
      if (!constant) {
        Add("QuantizeLinear", StrCat(name, "_q"), {name, StrCat(name, "_scale")}, name + "_q");
        source = name + "_q";
      }
      Add("DequantizeLinear", StrCat(name, "_dq"), {source, StrCat(name, "_scale")}, name + "_dq");
      names.push_back(name + "_dq");
    }
    AddScale("y", output);
    Add(op, "node", names, "y");
    Add("QuantizeLinear", "y_q", {"y", "y_scale"}, "y_q");
  }

  onnx::NodeProto* Add(const std::string& op, const std::string& name,
                       const std::vector<std::string>& inputs, const std::string& output) {
    auto* node = model_.mutable_graph()->add_node();
    *node = graph::MakeNode(op, name, inputs, {output});
    return node;
  }
  onnx::NodeProto* node() {
    for (auto& node : *model_.mutable_graph()->mutable_node()) {
      if (node.name() == "node") return &node;
    }
    return nullptr;
  }

  // Positions of t0, t1, ... and of the output after alignment.
  std::vector<int> Aligned(int tensors) {
    QuantizeConfig config = Vint8Npu();
    auto settings = Resolve(config, false, {}, 17);
    base::NullReporter reporter;
    QuantizeContext context(model_, config, *settings, {}, reporter);
    const auto changed = AlignForNpu().Run(context);
    EXPECT_TRUE(changed.ok()) << changed.status();
    const InitializerMap initializers(context.model);
    std::vector<int> positions;
    for (int i = 0; i < tensors; ++i) {
      positions.push_back(PositionOfScale(initializers.Scale(StrCat("t", i, "_scale"))));
    }
    positions.push_back(PositionOfScale(initializers.Scale("y_scale")));
    return positions;
  }

 private:
  void AddScale(const std::string& tensor, int position) {
    model_.AddInitializer(
        StrCat(tensor, "_scale"),
        graph::TensorView::Of<float>({}, std::vector<float>{ScaleOfPosition(position)}));
  }
  graph::Model model_;
};

std::vector<int> Align(const std::string& op, const std::vector<int>& inputs,
                       const std::vector<int>& constants, int output) {
  return AlignmentGraph(op, inputs, constants, output)
      .Aligned(static_cast<int>(inputs.size() + constants.size()));
}

using Positions = std::vector<int>;

// Rows of the reference table "Alignment / refinement", computed by hand from the limits.
TEST(NpuAlignmentTest, ConcatTakesTheSmallest) {
  EXPECT_EQ(Align("Concat", {7, 5, 6}, {}, 6), (Positions{5, 5, 5, 5}));
}
TEST(NpuAlignmentTest, PoolTakesTheSmallerOfBothSides) {
  EXPECT_EQ(Align("MaxPool", {6}, {}, 7), (Positions{6, 6}));
}
TEST(NpuAlignmentTest, ShiftReadOfAddIsAtMostSeven) {
  EXPECT_EQ(Align("Add", {12, 3}, {}, 3), (Positions{10, 3, 3}));
  EXPECT_EQ(Align("Add", {10, 3}, {}, 3), (Positions{10, 3, 3}));
}
TEST(NpuAlignmentTest, ShiftWriteOfAddMovesTheOutput) {
  EXPECT_EQ(Align("Add", {6, 8}, {}, 14), (Positions{6, 8, 13}));
  EXPECT_EQ(Align("Add", {6, 8}, {}, 13), (Positions{6, 8, 13}));
}
TEST(NpuAlignmentTest, ShiftWriteOfMulMovesTheOutput) {
  EXPECT_EQ(Align("Mul", {4, 5}, {}, 11), (Positions{4, 5, 9}));
}
TEST(NpuAlignmentTest, ShiftCutMovesTheWeight) {
  EXPECT_EQ(Align("Conv", {7}, {6}, 14), (Positions{7, 7, 14}));
  EXPECT_EQ(Align("Conv", {10}, {12}, 4), (Positions{10, 10, 4}));
}
TEST(NpuAlignmentTest, ShiftBiasMovesTheBias) {
  EXPECT_EQ(Align("Conv", {7}, {8, 23}, 6), (Positions{7, 8, 22, 6}));
  EXPECT_EQ(Align("Conv", {7}, {8, 22}, 6), (Positions{7, 8, 22, 6}));
}
// 7 + 13 - 2 = 18 is 3 too many: with bp = 5 the bias, which needs bp = 2, would be clipped to an
// eighth, so the weight loses 3 bits. Where the output has far finer steps than the bias, the bias
// moves.
TEST(NpuAlignmentTest, ShiftBiasMovesTheWeightBelowALargeBias) {
  EXPECT_EQ(Align("Conv", {7}, {13, 2}, 5), (Positions{7, 10, 2, 5}));
  EXPECT_EQ(Align("Conv", {7}, {13, 2}, 8), (Positions{7, 13, 5, 8}));
}
TEST(NpuAlignmentTest, ShiftBiasIsNotNegativeBeforeLeakyRelu) {
  AlignmentGraph graph("Conv", {7}, {8, 17}, 6);
  graph.Add("LeakyRelu", "leaky", {"y"}, "z");
  EXPECT_EQ(graph.Aligned(3), (Positions{7, 8, 15, 6}));
}
TEST(NpuAlignmentTest, HardSigmoidIsHeldInTheTable) {
  const auto align = [](int input, int output) {
    AlignmentGraph graph("HardSigmoid", {input}, {}, output);
    graph::SetAttribute("alpha", 1.0f / 6.0f, graph.node());
    return graph.Aligned(1);
  };
  EXPECT_EQ(align(17, 5), (Positions{15, 7}));
  EXPECT_EQ(align(-1, 20), (Positions{0, 14}));
}

TEST(DpuSimulationTest, AveragePoolFactors) {
  const std::pair<int, double> kRows[] = {{2, 1.0},       {3, 0.984375},      {4, 1.0},
                                          {5, 0.9765625}, {6, 0.984375},      {7, 1.0048828125},
                                          {8, 1.0},       {10, 1.0009765625}, {14, 1.0048828125}};
  for (const auto& [side, factor] : kRows) {
    EXPECT_EQ(AveragePoolFactor(side, side), factor) << side;
  }
  EXPECT_EQ(AveragePoolFactor(300, 300), 1.0);
}

TEST(DpuSimulationTest, MeanFactors) {
  const std::pair<int, double> kRows[] = {
      {9, 1.001953125},   {15, 0.99609375},    {25, 1.0009765625}, {36, 1.001953125},
      {49, 1.0048828125}, {196, 1.0048828125}, {8, 1.0},           {144, 1.001953125}};
  for (const auto& [elements, factor] : kRows) EXPECT_EQ(MeanFactor(elements), factor) << elements;
}

TEST(DpuSimulationTest, LeakyReluSlopes) {
  EXPECT_EQ(LeakyReluSlope(0.01f), 0.01171875f);
  EXPECT_EQ(LeakyReluSlope(0.1f), 0.1015625f);
  EXPECT_EQ(LeakyReluSlope(0.2f), 0.19921875f);
  EXPECT_EQ(LeakyReluSlope(0.3f), 0.30078125f);
  EXPECT_EQ(static_cast<float>(kHardSigmoidFactor), 1.0001220703125f);
}

}  // namespace
}  // namespace gq::quantize
