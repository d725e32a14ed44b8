#include "common/graph/analysis.h"

#include "common/graph/shape_inference.h"
#include "gmock/gmock.h"
#include "tests/common/graph/test_models.h"

namespace gq::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

Model Inferred(const std::string& graph, const std::string& imports = "") {
  Model model = TestModel(graph, 17, 8, imports);
  EXPECT_TRUE(InferShapes(InferenceMode::kStrict, &model).ok());
  return model;
}

TEST(StateTest, IsReadFromNodesNotFromImports) {
  const std::string relu = "g (float[2] x) => (float[2] y) { y = Relu(x) }";
  const std::string imports = ", \"com.amd.quark\" : 1, \"com.microsoft\" : 1";
  EXPECT_EQ(StateOf(TestModel(relu, 17, 8, imports).graph()), ModelState::kFloat);
  const Model specialized = TestModel(
      "g (float[2] x) => (float[2] y) <float s = {1.0}, int8 z = {0}> { q = "
      "com.amd.quark.ExtendedQuantizeLinear(x, s, "
      "z)\n y = com.amd.quark.ExtendedDequantizeLinear(q, s, z) }",
      17, 8, imports);
  EXPECT_EQ(StateOf(specialized.graph()), ModelState::kSpecialized);
  const Model microsoft = TestModel(
      "g (float[2] x) => (float[2] y) <float s = {1.0}, int8 z = {0}> { q = "
      "com.microsoft.QuantizeLinear(x, s, z)\n y = "
      "com.microsoft.DequantizeLinear(q, s, z) }",
      17, 8, imports);
  EXPECT_EQ(StateOf(microsoft.graph()), ModelState::kQdq);
  const Model integer = TestModel(
      "g (uint8[2,2] x) => (int32[2,2] y) <int8[2,2] w = {1, 2, 3, 4}> { y = MatMulInteger(x, w) "
      "}");
  EXPECT_EQ(StateOf(integer.graph()), ModelState::kQOperator);
}

TEST(StateTest, BodiesCount) {
  const Model model =
      TestModel(R"(g (float[2] x, bool c) => (float[2] y) <float s = {1.0}, int8 z = {0}> {
    y = If (c) <
      then_branch = t () => (float[2] u) { q = QuantizeLinear(x, s, z)  u = DequantizeLinear(q, s, z) },
      else_branch = e () => (float[2] v) { v = Neg(x) }
    >
  })");
  EXPECT_EQ(StateOf(model.graph()), ModelState::kQdq);
}

TEST(MacsTest, CountedByHand) {
  const Model model = Inferred(R"(
    g (float[1,4,6,6] x, float[3,8] a, float[6,2,3,3] w, float[6,2,2,2] t, float[5,8] f)
      => (float[1,2,12,12] y, float[3,5] z, float[3,3] s) {
    [conv] c = Conv <group = 2, pads = [1,1,1,1]> (x, w)
    [up] y = ConvTranspose <strides = [2,2]> (c, t)
    [gemm] z = Gemm <transB = 1> (a, f)
    [mm] s = MatMul(a, q)
    q = Transpose(a)
  })");
  const GraphIndex index(model.graph());
  const auto macs = [&](const char* name) { return Macs(*index.FindNode(name), index); };
  EXPECT_EQ(macs("conv"), 6 * 6 * 6 * 2 * 3 * 3);  // outputs times inputs of a group times window
  EXPECT_EQ(macs("up"), 6 * 6 * 6 * 2 * 2 * 2);    // inputs times outputs times window
  EXPECT_EQ(macs("gemm"), 3 * 5 * 8);
  EXPECT_EQ(macs("mm"), 3 * 3 * 8);
}

TEST(AnalyzeTest, OperatorsInputsAndParameters) {
  const Model model = TestModel(
      "g (float[N,3] x) => (float[N,2] y) <float[3,2] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}> { a = "
      "MatMul(x, w)\n b = "
      "Relu(a)\n y = lab.Relu(b) }",
      17, 8, ", \"lab\" : 1");
  const Analysis analysis = Analyze(model);
  EXPECT_EQ(analysis.operators.at("Relu"), 1);
  EXPECT_EQ(analysis.operators.at("lab.Relu"), 1);
  EXPECT_EQ(analysis.parameters, 6);
  EXPECT_EQ(analysis.parameter_bytes, 24);
  EXPECT_EQ(analysis.compute_layers, 1);
  EXPECT_EQ(analysis.inputs[0].dtype, "float32");
  EXPECT_THAT(analysis.inputs[0].shape, ElementsAre(-1, 3));
}

// One quantized MatMul, two that exchange float tensors, and a third float one behind a quantized
// border.
TEST(AnalyzeTest, FloatIslandsOfAQdqModel) {
  const Model model = TestModel(R"(g (float[2,2] x) => (float[2,2] y)
    <float s = {1.0}, int8 z = {0}, int8[2,2] wq = {1, 2, 3, 4}, float[2,2] w = {1.0, 2.0, 3.0, 4.0}> {
    q = QuantizeLinear(x, s, z)
    d = DequantizeLinear(q, s, z)
    dw = DequantizeLinear(wq, s, z)
    [quantized] a = MatMul(d, dw)
    qa = QuantizeLinear(a, s, z)
    da = DequantizeLinear(qa, s, z)
    [one] b = MatMul(da, w)
    c = Relu(b)
    [two] e = MatMul(c, w)
    qe = QuantizeLinear(e, s, z)
    de = DequantizeLinear(qe, s, z)
    [three] y = MatMul(de, w)
  })");
  const Analysis analysis = Analyze(model);
  EXPECT_EQ(analysis.state, ModelState::kQdq);
  EXPECT_EQ(analysis.compute_layers, 4);
  EXPECT_EQ(analysis.quantized_compute_layers, 1);
  EXPECT_THAT(analysis.float_islands, ElementsAre(ElementsAre("one", "two"), ElementsAre("three")));
}

struct TaskCase {
  const char* name;
  TaskType task;
  const char* graph;
};

class TaskTest : public testing::TestWithParam<TaskCase> {};

TEST_P(TaskTest, IsRecognized) {
  const Analysis analysis = Analyze(Inferred(GetParam().graph));
  EXPECT_EQ(analysis.task, GetParam().task) << analysis.task_reason;
  EXPECT_FALSE(analysis.task_reason.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Graphs, TaskTest,
    testing::Values(
        TaskCase{"Softmax", TaskType::kClassification,
                 "g (float[1,5] x) => (float[1,5] y) { y = Softmax(x) }"},
        TaskCase{
            "Pool", TaskType::kClassification,
            "g (float[1,8,4,4] x) => (float[1,8] y) { a = GlobalAveragePool(x)\n y = Flatten(a) }"},
        TaskCase{"OneValue", TaskType::kRegression,
                 "g (float[1,8] x, float[8,1] w) => (float[1,1] y) { y = MatMul(x, w) }"},
        TaskCase{"Image", TaskType::kRegression,
                 "g (float[1,3,8,8] x) => (float[1,3,8,8] y) { y = Relu(x) }"},
        TaskCase{
            "ArgMaxOverChannels", TaskType::kSegmentation,
            "g (float[1,3,8,8] x) => (int64[1,8,8] y) { y = ArgMax <axis = 1, keepdims = 0> (x) }"},
        TaskCase{"SoftmaxOverChannels", TaskType::kSegmentation,
                 "g (float[1,3,8,8] x) => (float[1,3,8,8] y) { y = Softmax <axis = 1> (x) }"},
        TaskCase{
            "TopK", TaskType::kDetection,
            "g (float[1,90] x, int64[1] k) => (float[1,K] y, int64[1,K] i) { y, i = TopK(x, k) }"},
        TaskCase{
            "TwoOutputs", TaskType::kRegression,
            "g (float[1,9] x) => (float[1,9] y, float[9,1] z) { y = Relu(x)\n z = Transpose(x) }"}),
    [](const auto& info) { return info.param.name; });

// A transformer block: projections, attention, a residual sum, and an MLP with a spelled-out Gelu.
constexpr char kBlock[] = R"(g (float[1,4,2] x) => (float[1,4,2] y)
  <float[2,2] w = {1.0, 2.0, 3.0, 4.0}, float[2] b = {0.1, 0.2}, float root = {1.41421356}, float one = {1.0},
   float half = {0.5}> {
  [q] q0 = MatMul(x, w)
  [qb] q1 = Add(q0, b)
  k1 = Transpose <perm = [0, 2, 1]> (q1)
  [score] s0 = MatMul(q1, k1)
  s1 = Mul(s0, half)
  [soft] s2 = Softmax(s1)
  [context] c0 = MatMul(s2, q1)
  [p] p0 = MatMul(c0, w)
  [pb] p1 = Add(p0, b)
  [residual] r = Add(x, p1)
  n = LayerNormalization(r, b, b)
  [fc1] f0 = MatMul(n, w)
  [fc1b] f1 = Add(f0, b)
  d = Div(f1, root)
  e = Erf(d)
  a = Add(e, one)
  m = Mul(f1, a)
  h = Mul(m, half)
  [fc2] g0 = MatMul(h, w)
  [fc2b] g1 = Add(g0, b)
  [last] y = Add(r, g1)
})";

TEST(DenseBlocksTest, AttentionAndMlp) {
  const auto blocks = FindDenseBlocks(Inferred(kBlock).graph());
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].kind, DenseBlock::Kind::kAttention);
  EXPECT_EQ(blocks[0].layers[0].name, "q");
  EXPECT_EQ(blocks[0].layers[0].add, "qb");
  EXPECT_EQ(blocks[1].kind, DenseBlock::Kind::kMlp);
  EXPECT_EQ(blocks[1].layers[0].activation, "Gelu");
  EXPECT_EQ(blocks[1].layers[1].name, "fc2");
}

TEST(DenseBlocksTest, GemmThroughQuantization) {
  const Model model = TestModel(R"(g (float[1,2] x) => (float[1,3] y)
    <float s = {1.0}, int8 z = {0}, int8[3,2] wq = {1, 2, 3, 4, 5, 6}, float[3] b = {0.1, 0.2, 0.3}> {
    w = DequantizeLinear(wq, s, z)
    [fc] a = Gemm <transB = 1> (x, w, b)
    q = QuantizeLinear(a, s, z)
    d = DequantizeLinear(q, s, z)
    y = Relu(d)
  })");
  const auto blocks = FindDenseBlocks(model.graph());
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0].kind, DenseBlock::Kind::kStandalone);
  EXPECT_EQ(blocks[0].layers[0].in, 2);
  EXPECT_EQ(blocks[0].layers[0].out, 3);
  EXPECT_EQ(blocks[0].layers[0].activation, "Relu");
}

TEST(StructureTest, AttentionAndResidualStream) {
  const Model model = Inferred(kBlock);
  EXPECT_THAT(AttentionNodes(model.graph()), ElementsAre("score", "soft", "context"));
  EXPECT_THAT(ResidualAdds(model.graph()), ElementsAre("residual", "last"));
}

TEST(StructureTest, PostProcessingBehindTheLastConvolution) {
  const Model model =
      Inferred(R"(g (float[1,1,4,4] x, int64[1] k) => (float[1,K] y, float[1,1,4,4] z)
    <float[1,1,1,1] w = {2.0}, int64[2] flat = {1, -1}> {
    [c1] a = Conv(x, w)
    [r1] b = Relu(a)
    [c2] c = Conv(b, w)
    [sig] d = Sigmoid(c)
    [flat] e = Reshape(d, flat)
    [top] y, i = TopK(e, k)
    [other] z = Relu(c)
  })");
  EXPECT_THAT(PostProcessingNodes(model.graph()), ElementsAre("sig", "flat", "top"));
  EXPECT_THAT(PostProcessingNodes(Inferred(kBlock).graph()), IsEmpty());
}

}  // namespace
}  // namespace gq::graph
