// What models hold that the operators' names do not promise.
#include <cmath>
#include <limits>

#include "common/base/status.h"
#include "common/quantize/graph_changes.h"
#include "common/quantize/node_patterns.h"
#include "common/quantize/presets.h"
#include "gmock/gmock.h"
#include "tests/common/quantize/quantize_fixture.h"

namespace gq::quantize {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

graph::Model TestModel(const std::string& graph,
                       const std::map<std::string, Constant>& constants = {}) {
  return ParseModel("<ir_version: 8, opset_import: [\"\" : 17]>\n" + graph, constants);
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(HardInputsTest, WeightsThatAreNotFiniteAreNamed) {
  for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
    const auto model = TestModel("g (float[1, 2] x) => (float[1, 2] y) { [fc] y = MatMul(x, w) }",
                                 {{"w", {{2, 2}, {1, 2, bad, 4}}}});
    const auto result = QuantizeWith(model, Vint8Npu());
    EXPECT_EQ(base::GetReason(result.status()), base::Reason::kModelInvalid);
    EXPECT_THAT(std::string(result.status().message()),
                testing::AllOf(HasSubstr("'w'"), HasSubstr("'fc'"), HasSubstr("element 2")));
  }
}

TEST(HardInputsTest, ResultsOfUnknownShapeStayFloat) {
  const auto model = TestModel(
      "g (float[1, 4] x) => (float[1, 4] y, int64[2, K] z) { y = Relu(x)\n [nz] z = NonZero(y) }");
  const auto result = QuantizeWith(model, Vint8Npu());
  ASSERT_TRUE(result.ok()) << result.status();
  for (const auto& layer : result->report["layers"]) {
    if (layer["node"] != "nz") continue;
    EXPECT_EQ(layer["precision"], "float32");
  }
}

TEST(HardInputsTest, PassesTellWhatTheyChanged) {
  const auto model = TestModel(
      "g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y) { [conv] c = Conv(x, w)\n [relu] y = "
      "Relu(c) }",
      {{"w", {{2, 2, 1, 1}, {1, 2, 3, 4}}}});
  const auto result = QuantizeWith(model, Vint8Npu());
  ASSERT_TRUE(result.ok()) << result.status();
  bool found = false;
  for (const auto& pass : result->report["passes"]) {
    EXPECT_FALSE(pass["summary"].get<std::string>().empty()) << pass["name"];
    if (pass["name"] != "fused pairs") continue;
    found = true;
    EXPECT_EQ(pass["changed"], 1);
    EXPECT_THAT(pass["details"].dump(), HasSubstr("nodes removed: 2 (QuantizeLinear 'c_"));
  }
  EXPECT_TRUE(found);
}

TEST(GraphChangesTest, NodesAndConstantsAreTold) {
  graph::Model model = TestModel(
      "g (float[2] x) => (float[2] y) { [a] t = Relu(x)\n [b] u = Neg(t)\n [c] y = Add(u, k) }",
      {{"k", {{2}, {1, 2}}}});
  const GraphSnapshot before(model);
  EXPECT_THAT(before.ChangesTo(model), ElementsAre());
  auto* graph = model.mutable_graph();
  graph->mutable_node(0)->set_op_type("Abs");
  graph->mutable_node(1)->set_name("d");
  graph->mutable_initializer(0)->set_raw_data(std::string(8, '\0'));
  graph->mutable_initializer(0)->clear_float_data();
  EXPECT_THAT(
      before.ChangesTo(model),
      ElementsAre("nodes removed: 1 (Neg 'b')", "nodes added: 1 (Neg 'd')",
                  "nodes of another type: 1 (Relu 'a' is now Abs)", "constants changed: 1 ('k')"));
}

TEST(NodePatternsTest, WickedPatternsAndLongNamesAreHarmless) {
  onnx::GraphProto graph;
  graph.add_node()->set_name(std::string(100000, 'a') + "!");
  std::vector<std::string> warnings;
  const auto match = [&](const std::string& pattern) {
    const std::vector<std::string> targets = {pattern};
    return MatchNodes(graph, targets, {.allow_unmatched = true}, &warnings);
  };
  EXPECT_EQ(match("^a.*!")->size(), 1u);
  // Exponential where alternatives are tried one after the other.
  EXPECT_TRUE(match("^(a+)+.*$").ok());
  EXPECT_EQ(base::GetReason(match("^" + std::string(2000, '(') + ".*").status()),
            base::Reason::kPatternInvalid);
}

}  // namespace
}  // namespace gq::quantize
