#include "common/graph/passes.h"

#include <set>

#include "common/graph/shape_inference.h"
#include "gmock/gmock.h"
#include "tests/common/graph/test_models.h"

namespace gq::graph {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

struct Applied {
  Model model;
  PassReport report;
  std::map<std::string, std::string> renamed;
};

// Runs one pass on the model of `graph` and checks that the outputs stay.
Applied Apply(const Pass& pass, const std::string& graph, int opset = 17, float tolerance = 1e-5f) {
  const Model before = TestModel(graph, opset, opset >= 20 ? 9 : 8);
  Applied applied{before, {}, {}};
  EXPECT_TRUE(InferShapes(InferenceMode::kStrict, &applied.model).ok());
  const auto status = pass.Run(&applied.model, &applied.report, &applied.renamed);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(CheckModel(applied.model).ok()) << CheckModel(applied.model);
  ExpectNear(RunModel(applied.model), RunModel(before), tolerance);
  return applied;
}

constexpr char kBatchNorm[] =
    "float[2] s = {1.5, 0.5}, float[2] o = {0.1, 0.2}, float[2] m = {0.3, -0.3}, float[2] v = "
    "{1.0, 4.0}";

TEST(PassTableTest, NamesAndSummaries) {
  std::set<const Pass*> seen;
  std::set<std::string_view> names;
  for (const auto& entry : OptimizationPasses()) {
    EXPECT_FALSE(entry.pass->summary().empty());
    if (seen.insert(entry.pass).second) {
      EXPECT_TRUE(names.insert(entry.pass->name()).second) << entry.pass->name();
    }
  }
}

TEST(BatchNormFusionTest, ConvTakesTheNameOfTheTensorBetween) {
  const Applied applied = Apply(
      BatchNormFusion(),
      std::string("g (float[1,1,3,3] x) => (float[1,2,3,3] y) <float[2,1,1,1] w = {2.0, 3.0}, "
                  "float[2] b = {1.0, -1.0}, ") +
          kBatchNorm +
          "> { [conv] c = Conv(x, w, b)\n [bn] y = BatchNormalization(c, s, o, m, v) }");
  EXPECT_THAT(NodeNames(applied.model), ElementsAre("c"));
  EXPECT_EQ(applied.model.graph().node(0).input(1), "y_weight");
  EXPECT_THAT(applied.renamed, UnorderedElementsAre(Pair("conv", "c"), Pair("bn", "c")));
}

TEST(BatchNormFusionTest, GroupedConvTransposeAndGemm) {
  Apply(BatchNormFusion(),
        std::string("g (float[1,2,2,2] x) => (float[1,2,3,3] y) <float[2,1,2,2] w = {1.0, 2.0, "
                    "3.0, 4.0, 5.0, 6.0, "
                    "7.0, 8.0}, ") +
            kBatchNorm +
            "> { c = ConvTranspose <group = 2> (x, w)\n y = BatchNormalization(c, s, o, m, v) }");
  const Applied gemm = Apply(
      BatchNormFusion(),
      std::string("g (float[3,2] x) => (float[3,2] y) <float[2,2] w = {1.0, 2.0, 3.0, 4.0}, ") +
          kBatchNorm + "> { c = Gemm(x, w)\n y = BatchNormalization(c, s, o, m, v) }");
  EXPECT_THAT(OpTypes(gemm.model), ElementsAre("Gemm"));
}

TEST(BatchNormFusionTest, TensorReadElsewhereStays) {
  const Applied applied =
      Apply(BatchNormFusion(),
            std::string("g (float[1,1,3,3] x) => (float[1,2,3,3] y, float[1,2,3,3] z) "
                        "<float[2,1,1,1] w = {2.0, 3.0}, ") +
                kBatchNorm +
                "> { c = Conv(x, w)\n y = BatchNormalization(c, s, o, m, v)\n z = Relu(c) }");
  EXPECT_EQ(applied.report.changed, 0);
}

TEST(BatchNormToConvTest, DepthwiseConvOfTheSameName) {
  const Applied applied =
      Apply(BatchNormToConv(), std::string("g (float[1,2,3,3] x) => (float[1,2,3,3] y) <") +
                                   kBatchNorm + "> { [bn] y = BatchNormalization(x, s, o, m, v) }");
  EXPECT_THAT(OpTypes(applied.model), ElementsAre("Conv"));
  EXPECT_THAT(NodeNames(applied.model), ElementsAre("bn"));
}

TEST(PadTest, IntoConvAddsToItsPads) {
  const Applied applied = Apply(PadIntoConv(),
                                "g (float[1,1,3,3] x) => (float[1,1,7,7] y) <int64[8] p = "
                                "{0,0,1,1,0,0,1,1}, float[1,1,1,1] w = {2.0}> { [pad] "
                                "a = Pad(x, p)\n [conv] y = Conv <pads = [1,1,1,1]> (a, w) }");
  EXPECT_THAT(AttributeInts(applied.model.graph().node(0), "pads"), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(NodeNames(applied.model), ElementsAre("y"));
}

TEST(PadTest, OtherValuesAxesAndModesStay) {
  for (const char* pad :
       {"a = Pad(x, p, one)", "a = Pad <mode = \"reflect\"> (x, p)", "a = Pad(x, channels)"}) {
    const Applied applied =
        Apply(PadIntoConv(),
              std::string("g (float[1,1,3,3] x) => (float[N,M,H,W] y) <int64[8] p = "
                          "{0,0,1,1,0,0,1,1}, int64[8] channels = "
                          "{0,0,0,0,1,0,0,0}, float one = {1.0}, float[1,1,1,1] w = {2.0}> { ") +
                  pad + "\n y = Conv(a, w) }");
    EXPECT_EQ(applied.report.changed, 0) << pad;
  }
}

TEST(PadTest, IntoAveragePoolIsCounted) {
  const Applied applied = Apply(PadIntoAveragePool(),
                                "g (float[1,1,4,4] x) => (float[1,1,4,4] y) <int64[8] p = "
                                "{0,0,1,1,0,0,1,1}> { a = Pad(x, p)\n [pool] y = "
                                "AveragePool <kernel_shape = [3,3]> (a) }");
  EXPECT_THAT(OpTypes(applied.model), ElementsAre("AveragePool"));
  EXPECT_EQ(AttributeInt(applied.model.graph().node(0), "count_include_pad", 0), 1);
}

TEST(ConvAffineTest, MulAndAddPerChannelFold) {
  const Applied mul =
      Apply(ConvMulFusion(),
            "g (float[1,1,2,2] x) => (float[1,2,2,2] y) <float[2,1,1,1] w = {2.0, 3.0}, float[2] b "
            "= {1.0, -1.0}, "
            "float[2,1,1] k = {0.5, -2.0}> { [conv] c = Conv(x, w, b)\n [mul] y = Mul(k, c) }");
  EXPECT_THAT(NodeNames(mul.model), ElementsAre("conv"));
  EXPECT_THAT(mul.renamed, ElementsAre(Pair("mul", "conv")));
  const Applied add = Apply(ConvAddFusion(),
                            "g (float[1,1,2,2] x) => (float[1,2,2,2] y) <float[2,1,1,1] w = {2.0, "
                            "3.0}, float[1,2,1,1] k = {0.5, -2.0}> { "
                            "[conv] c = Conv(x, w)\n y = Add(c, k) }");
  EXPECT_EQ(add.model.graph().node(0).input_size(), 3);
}

TEST(ConvAffineTest, ConstantsAlongOtherAxesStay) {
  const Applied applied = Apply(ConvMulFusion(),
                                "g (float[1,1,2,2] x) => (float[1,2,2,2] y) <float[2,1,1,1] w = "
                                "{2.0, 3.0}, float[2] k = {0.5, -2.0}> { c = "
                                "Conv(x, w)\n y = Mul(c, k) }");
  EXPECT_EQ(applied.report.changed, 0);
}

TEST(DenseToGemmTest, ReshapesAroundThreeDimensions) {
  const Applied applied = Apply(DenseToGemm(),
                                "g (float[1,2,2] x) => (float[1,2,3] y) <float[2,3] w = {1.0, 2.0, "
                                "3.0, 4.0, 5.0, 6.0}, float[3] b = {0.1, 0.2, "
                                "0.3}> { [mm] a = MatMul(x, w)\n [add] y = Add(b, a) }");
  EXPECT_THAT(OpTypes(applied.model), ElementsAre("Reshape", "Gemm", "Reshape"));
  EXPECT_THAT(NodeNames(applied.model), ElementsAre("a_pre_reshape", "a", "a_post_reshape"));
  EXPECT_THAT(applied.renamed, UnorderedElementsAre(Pair("mm", "a"), Pair("add", "a")));
}

TEST(DenseToGemmTest, TwoDimensionsNeedNoReshape) {
  const Applied applied = Apply(DenseToGemm(),
                                "g (float[2,2] x) => (float[2,1] y) <float[2,1] w = {1.0, 2.0}, "
                                "float[1] b = {0.1}> { a = MatMul(x, w)\n y = "
                                "Add(a, b) }");
  EXPECT_THAT(OpTypes(applied.model), ElementsAre("Gemm"));
}

TEST(IdentityRemovalTest, PassThroughNodesGo) {
  const Applied applied = Apply(IdentityRemoval(), R"(g (float[2,3] x) => (float[2,3] y)
    <float zero = {0.0}, float one = {1.0}, int64[2] same = {2, 3}> {
    a = Identity(x)
    b = Dropout(a)
    c = Cast <to = 1> (b)
    d = Transpose <perm = [0, 1]> (c)
    e = Reshape(d, same)
    f = Add(zero, e)
    g1 = Div(f, one)
    h = Neg(g1)
    y = Identity(h)
  })");
  EXPECT_THAT(OpTypes(applied.model), ElementsAre("Neg"));
  EXPECT_EQ(applied.model.graph().node(0).output(0), "y");
}

TEST(IdentityRemovalTest, WhatChangesSomethingStays) {
  const Applied applied =
      Apply(IdentityRemoval(), R"(g (float[3] x) => (float[2,3] y, float[3] z, float[3] w)
    <float[2,1] zeros = {0.0, 0.0}, float zero = {0.0}, int64[1] start = {-1}, int64[1] end = {-9}, int64[1] axis =
    {0}, int64[1] back = {-1}> {
    y = Add(x, zeros)
    z = Sub(zero, x)
    w = Slice(x, start, end, axis, back)
  })");
  EXPECT_EQ(applied.report.changed, 0);
}

TEST(IdentityRemovalTest, InputThatIsAnOutputKeepsItsNode) {
  const Applied applied =
      Apply(IdentityRemoval(), "g (float[3] x) => (float[3] y) { y = Identity(x) }");
  EXPECT_THAT(OpTypes(applied.model), ElementsAre("Identity"));
}

TEST(IdentityRemovalTest, TwoOutputsOfOneTensor) {
  const Applied applied = Apply(IdentityRemoval(),
                                "g (float[3] x) => (float[3] y, float[3] z) { a = Neg(x)\n y = "
                                "Identity(a)\n z = Identity(a) }");
  EXPECT_EQ(applied.model.graph().output(0).name(), "y");
  EXPECT_EQ(applied.model.graph().output(1).name(), "z");
}

TEST(DuplicateRemovalTest, EqualNodesBecomeOne) {
  const Applied applied = Apply(DuplicateRemoval(), R"(g (float[3] x) => (float[3] y) {
    [one] a = Sigmoid(x)
    [two] b = Sigmoid(x)
    [three] c = Neg(a)
    [four] d = Neg(b)
    y = Add(c, d)
  })");
  EXPECT_THAT(OpTypes(applied.model), ElementsAre("Sigmoid", "Neg", "Add"));
  EXPECT_THAT(applied.renamed, UnorderedElementsAre(Pair("two", "one"), Pair("four", "three")));
}

TEST(ConstantMergingTest, FirstReadNameStays) {
  const Applied applied = Apply(ConstantMerging(),
                                "g (float[4] x) => (float[4] y) <int64[2] p = {2, 2}, int64[2] q = "
                                "{2, 2}, int64[1] r = {4}> { a = Reshape(x, "
                                "q)\n b = Neg(a)\n c = Reshape(b, p)\n y = Reshape(c, r) }");
  EXPECT_EQ(applied.model.graph().node(2).input(1), "q");
  EXPECT_EQ(applied.model.FindInitializer("p"), nullptr);
}

TEST(ReshapeFusionTest, JoinedIsNamedAfterTheTensorBetween) {
  const Applied applied = Apply(ReshapeFusion(),
                                "g (float[4] x) => (float[1,4] y) <int64[2] p = {2, 2}, int64[2] q "
                                "= {1, -1}> { a = Reshape(x, p)\n y = "
                                "Reshape(a, q) }");
  EXPECT_THAT(NodeNames(applied.model), ElementsAre("a"));
}

TEST(ReshapeChainTest, SqueezeJoins) {
  const Applied applied = Apply(ReshapeChainFusion(),
                                "g (float[4] x) => (float[4] y) <int64[2] p = {1, 4}, int64[1] q = "
                                "{0}> { [r] a = Reshape(x, p)\n y = "
                                "Squeeze(a, q) }");
  EXPECT_THAT(NodeNames(applied.model), ElementsAre("r_new_reshape"));
}

constexpr char kLayerNorm[] = R"(g (float[2,4] x) => (float[2,4] y)
  <float two = {2.0}, float e = {0.001}, float[4] k = {1.0, 2.0, 3.0, 4.0}, float[4] o = {0.1, 0.2, 0.3, 0.4}> {
  m = ReduceMean <axes = [-1]> (x)
  d = Sub(x, m)
  q = Pow(d, two)
  v = ReduceMean <axes = [-1]> (q)
  s = Add(v, e)
  r = Sqrt(s)
  n = Div(d, r)
  t = Mul(n, k)
  [last] y = Add(t, o)
})";

TEST(LayerNormFusionTest, SpelledOutFormBecomesOneNode) {
  const Applied applied = Apply(LayerNormFusion(), kLayerNorm);
  EXPECT_THAT(OpTypes(applied.model), ElementsAre("LayerNormalization"));
  EXPECT_THAT(NodeNames(applied.model), ElementsAre("last"));
  EXPECT_THAT(applied.renamed, Contains(Pair("n", "last")));
}

TEST(LayerNormFusionTest, OlderOpsetsStay) {
  EXPECT_EQ(Apply(LayerNormFusion(), kLayerNorm, 16).report.changed, 0);
}

TEST(InstanceNormFusionTest, OverHeightAndWidth) {
  const Applied applied = Apply(InstanceNormFusion(), R"(g (float[1,2,3,3] x) => (float[1,2,3,3] y)
    <float two = {2.0}, float e = {0.001}, float[2,1,1] k = {1.0, 2.0}, float[1,2,1,1] o = {0.1, 0.2}> {
    m = ReduceMean <axes = [2, 3]> (x)
    d = Sub(x, m)
    q = Mul(d, d)
    v = ReduceMean <axes = [2, 3]> (q)
    s = Add(v, e)
    r = Sqrt(s)
    n = Div(d, r)
    t = Mul(n, k)
    y = Add(t, o)
  })");
  EXPECT_THAT(OpTypes(applied.model), ElementsAre("InstanceNormalization"));
}

TEST(L2NormFusionTest, DivisionByTheNorm) {
  const Applied applied = Apply(L2NormFusion(),
                                "g (float[2,4] x) => (float[2,4] y) { n = ReduceL2 <axes = [1], "
                                "keepdims = 1> (x)\n y = Div(x, n) }");
  EXPECT_THAT(OpTypes(applied.model), ElementsAre("LpNormalization"));
}

TEST(GeluFusionTest, BothOrdersOfTheFactors) {
  for (const char* rest :
       {"m = Mul(x, a)\n y = Mul(m, half)", "m = Mul(x, half)\n y = Mul(m, a)"}) {
    const std::string graph = std::string(
                                  "g (float[8] x) => (float[8] y) <float root = {1.41421356}, "
                                  "float one = {1.0}, float half = "
                                  "{0.5}> { d = Div(x, root)\n e = Erf(d)\n a = Add(e, one)\n ") +
                              rest + " }";
    EXPECT_THAT(OpTypes(Apply(GeluFusion(), graph, 20).model), ElementsAre("Gelu"));
    EXPECT_EQ(Apply(GeluFusion(), graph, 17).report.changed, 0);
  }
}

TEST(HardSwishTest, Expansion) {
  const Applied applied =
      Apply(HardSwishExpansion(), "g (float[8] x) => (float[8] y) { [hs] y = HardSwish(x) }");
  EXPECT_THAT(OpTypes(applied.model), ElementsAre("HardSigmoid", "Mul"));
}

TEST(NpuConversionTest, MeanOverTheImageBecomesAPool) {
  const Applied applied = Apply(ReduceMeanToPool(),
                                "g (float[1,2,3,3] x) => (float[1,2,1,1] y, float[1,1,3,3] z) { "
                                "[m] y = ReduceMean <axes = [-1, -2]> (x)\n z = "
                                "ReduceMean <axes = [1]> (x) }");
  EXPECT_THAT(OpTypes(applied.model), ElementsAre("GlobalAveragePool", "ReduceMean"));
  EXPECT_THAT(NodeNames(applied.model), Contains("m"));
}

TEST(NpuConversionTest, SplitBecomesSlices) {
  const Applied applied = Apply(SplitToSlice(),
                                "g (float[1,5] x) => (float[1,2] y, float[1,3] z) <int64[2] n = "
                                "{2, 3}> { [s] y, z = Split <axis = -1> (x, n) }");
  EXPECT_THAT(NodeNames(applied.model), ElementsAre("y_0", "z_1"));
}

TEST(BiasCopiesTest, EveryLayerHasItsOwn) {
  const Applied applied = Apply(
      BiasCopies(),
      "g (float[1,1,3,3] x) => (float[1,1,3,3] y) <float[1,1,1,1] w = {2.0}, float[1] b = {1.0}> "
      "{ c = Conv(x, w, b)\n d = Conv(c, w, b)\n y = Conv(d, w, b) }");
  EXPECT_EQ(applied.report.changed, 2);
  EXPECT_EQ(applied.model.graph().node(0).input(2), "b");
  EXPECT_EQ(applied.model.graph().node(1).input(2), "duplicatedb2");
  EXPECT_EQ(applied.model.graph().node(2).input(2), "duplicatedb3");
}

TEST(ClipSixToReluTest, OnlyFromZeroToSix) {
  const Applied applied = Apply(
      ClipSixToRelu(),
      "g (float[1,4] x) => (float[1,4] y) <float low = {0.0}, float six = {6.0}, float five = "
      "{5.0}> { [a] c = Clip(x, low, six)\n [b] y = Clip(c, low, five) }");
  EXPECT_EQ(applied.model.graph().node(0).op_type(), "Relu");
  EXPECT_EQ(applied.model.graph().node(0).name(), "a");
  EXPECT_EQ(applied.model.graph().node(1).op_type(), "Clip");
}

// Channel 0: weights 4 and 1 before and behind, so sqrt(4 * 1) = 2 on both sides; the pair comes
// twice in Quark's order and the second time finds it done. Channel 1: 0.2 and 0.2 sum up to less
// than 0.5, it stays.
TEST(CrossLayerEqualizationTest, WeightsAroundAReluBecomeAlike) {
  const Applied applied = Apply(
      CrossLayerEqualization(),
      "g (float[1,1] x) => (float[1,1] y) <float[2,1] w = {4.0, 0.2}, float[2] b = {0.5, 0.1}, "
      "float[1,2] v = {1.0, 0.2}> { a = Gemm <transB = 1> (x, w, b)\n r = Relu(a)\n y = Gemm "
      "<transB = 1> (r, v) }");
  const auto values = [&](const char* name) {
    const auto view = applied.model.Data(*applied.model.FindInitializer(name));
    return *view->ToFloats();
  };
  EXPECT_THAT(values("w"), ElementsAre(2.0f, 0.2f));
  EXPECT_THAT(values("b"), ElementsAre(0.25f, 0.1f));
  EXPECT_THAT(values("v"), ElementsAre(2.0f, 0.2f));
}

TEST(CrossLayerEqualizationTest, WithADepthwiseConvolutionBetween) {
  // 8, 1 and 1 have the geometric mean 2.
  const Applied applied = Apply(
      CrossLayerEqualization(),
      "g (float[1,1,2,2] x) => (float[1,1,2,2] y) <float[2,1,1,1] w = {8.0, 1.0}, float[2,1,1,1] d "
      "= {1.0, 1.0}, float[1,2,1,1] v = {1.0, 1.0}> { a = Conv <group = 1> (x, w)\n b = Conv "
      "<group = 2> (a, d)\n c = Relu(b)\n y = Conv <group = 1> (c, v) }");
  EXPECT_GT(applied.report.changed, 0);
}

TEST(CrossLayerEqualizationTest, WhatIsSeenOutsideStays) {
  const Applied applied = Apply(
      CrossLayerEqualization(),
      "g (float[1,1] x) => (float[1,1] y, float[1,1] r) <float[1,1] w = {4.0}, float[1,1] v = "
      "{1.0}> { a = Gemm <transB = 1> (x, w)\n r = Relu(a)\n y = Gemm <transB = 1> (r, v) }");
  EXPECT_EQ(applied.report.changed, 0);
}

}  // namespace
}  // namespace gq::graph
