#include "common/graph/edits.h"

#include "common/graph/graph_index.h"
#include "gmock/gmock.h"
#include "tests/common/graph/test_models.h"

namespace gq::graph {
namespace {

using testing::ElementsAre;

TEST(GraphIndexTest, ProducersReadersAndTypes) {
  const Model model = TestModel(R"(g (float[2, N] x) => (float[2, N] y) <float[2] w = {1.0, 2.0}> {
    [r] a = Relu(x)
    [m] y = Mul(a, a)
  })");
  const GraphIndex index(model.graph());
  EXPECT_EQ(index.Producer("a")->name(), "r");
  EXPECT_EQ(index.Producer("x"), nullptr);
  ASSERT_EQ(index.Uses("a").size(), 2u);
  EXPECT_EQ(index.Uses("a")[1].input, 1);
  EXPECT_EQ(index.OnlyConsumer("a"), nullptr);
  EXPECT_EQ(index.OnlyConsumer("x")->name(), "r");
  EXPECT_TRUE(index.IsInitializer("w"));
  EXPECT_EQ(index.ElemType("w"), onnx::TensorProto::FLOAT);
  EXPECT_THAT(*index.Shape("x"), ElementsAre(2, -1));
  EXPECT_FALSE(index.StaticShape("x").has_value());
}

TEST(GraphIndexTest, UsesInSubgraphsCountForTheirNode) {
  const Model model = TestModel(R"(g (float[2] x, bool c) => (float[2] y) {
    a = Neg(x)
    [if] y = If (c) <
      then_branch = t () => (float[2] u) { u = Relu(a) },
      else_branch = e () => (float[2] v) { v = Neg(a) }
    >
  })");
  const GraphIndex index(model.graph());
  ASSERT_EQ(index.Uses("a").size(), 1u);
  EXPECT_EQ(index.Uses("a")[0].input, TensorUse::kCaptured);
  EXPECT_EQ(index.OnlyConsumer("a"), nullptr);
}

TEST(NameScopeTest, TensorsAndNodesShareOneScope) {
  const Model model = TestModel("g (float[2] x) => (float[2] y) { [n] y = Relu(x) }");
  NameScope names(model.graph());
  EXPECT_EQ(names.Unique("x"), "x_1");
  EXPECT_EQ(names.Unique("x"), "x_2");
  EXPECT_EQ(names.Unique("n"), "n_1");
  EXPECT_EQ(names.Unique("new"), "new");
  EXPECT_EQ(names.UniqueNode("y"), "y");
  EXPECT_EQ(names.UniqueNode("n"), "n_2");
}

TEST(NameScopeTest, ANumberThatBecameFreeIsTakenAgain) {
  const Model model = TestModel("g (float[2] x) => (float[2] y) { [n] y = Relu(x) }");
  NameScope names(model.graph());
  EXPECT_EQ(names.UniqueNode("n"), "n_1");
  EXPECT_EQ(names.UniqueNode("n"), "n_2");
  names.ReleaseNode("n_1");
  EXPECT_EQ(names.UniqueNode("n"), "n_1");
  EXPECT_EQ(names.UniqueNode("n"), "n_3");
}

TEST(GraphIndexTest, UsesStandInGraphOrderWhereverTheyAre) {
  const Model model = TestModel(R"(g (float[2] x, bool c) => (float[2] y) {
    a = Neg(x)
    b = If (c) <then_branch = t () => (float[2] u) { u = Relu(a) },
                else_branch = e () => (float[2] v) { v = Neg(a) }>
    d = Add(a, b)
    f = If (c) <then_branch = t () => (float[2] u) { u = Relu(a) },
                else_branch = e () => (float[2] v) { v = Neg(d) }>
    y = Add(f, a)
  })");
  std::vector<int> nodes;
  const GraphIndex index(model.graph());
  for (const TensorUse& use : index.Uses("a")) nodes.push_back(use.node);
  EXPECT_THAT(nodes, ElementsAre(1, 2, 3, 4));
}

TEST(SortTest, IsStable) {
  Model model = TestModel(R"(g (float[2] x) => (float[2] y) {
    [one] a = Neg(x)
    [two] b = Relu(x)
    [three] y = Add(a, b)
  })");
  model.mutable_graph()->mutable_node()->SwapElements(1, 2);
  ASSERT_TRUE(SortTopologically(model.mutable_graph()).ok());
  EXPECT_THAT(NodeNames(model), ElementsAre("one", "two", "three"));
}

TEST(BypassTest, InnerNodeGoes) {
  Model model =
      TestModel("g (float[2] x) => (float[2] y) { a = Neg(x)\n b = Identity(a)\n y = Relu(b) }");
  EXPECT_TRUE(BypassNode(1, "a", model.mutable_graph()));
  EXPECT_THAT(OpTypes(model), ElementsAre("Neg", "Relu"));
  EXPECT_EQ(model.graph().node(1).input(0), "a");
}

TEST(BypassTest, OutputNameMovesToTheProducer) {
  Model model = TestModel(
      "g (float[2] x) => (float[2] y, float[2] z) { a = Neg(x)\n y = Identity(a)\n z = Relu(a) }");
  EXPECT_TRUE(BypassNode(1, "a", model.mutable_graph()));
  EXPECT_EQ(model.graph().node(0).output(0), "y");
  EXPECT_EQ(model.graph().node(1).input(0), "y");
  EXPECT_TRUE(CheckModel(model).ok());
}

TEST(BypassTest, InputThatIsAnOutputStays) {
  Model model = TestModel("g (float[2] x) => (float[2] y) { y = Identity(x) }");
  EXPECT_FALSE(BypassNode(0, "x", model.mutable_graph()));
  EXPECT_EQ(model.graph().node_size(), 1);
}

TEST(DeadNodesTest, ChainsAndInitializersGo) {
  Model model = TestModel(R"(g (float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> {
    a = Add(x, w)
    b = Neg(a)
    y = Relu(x)
  })");
  EXPECT_EQ(RemoveDeadNodes(model.mutable_graph()), 2);
  EXPECT_EQ(RemoveUnusedInitializers(model.mutable_graph()), 1);
  EXPECT_THAT(OpTypes(model), ElementsAre("Relu"));
}

TEST(ReplaceUsesTest, ReachesSubgraphsButNotShadowedNames) {
  Model model = TestModel(R"(g (float[2] x, bool c) => (float[2] y) {
    a = Neg(x)
    b = Relu(x)
    y = If (c) <
      then_branch = t () => (float[2] u) { u = Relu(a) },
      else_branch = e () => (float[2] v) { v = Neg(a) }
    >
  })");
  ReplaceUses("a", "b", model.mutable_graph());
  EXPECT_THAT(CapturedNames(model.graph().node(2)), ElementsAre("b"));
}

}  // namespace
}  // namespace gq::graph
