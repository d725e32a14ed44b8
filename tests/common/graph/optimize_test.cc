#include "common/graph/optimize.h"

#include <cstdlib>

#include "common/runtime/constant_evaluator.h"
#include "gmock/gmock.h"
#include "tests/common/graph/test_models.h"

namespace gq::graph {
namespace {

using base::Reason;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

absl::StatusOr<OptimizeReport> Optimize(Model* model, const OptimizeOptions& options = {}) {
  runtime::OrtConstantEvaluator evaluator;
  base::NullReporter reporter;
  return OptimizeGraph(*model, options, evaluator, reporter);
}

// Conv, BatchNormalization and Pad of opset 9 with a batch dimension.
constexpr char kOldNet[] = R"(g (float[N,1,4,4] x) => (float[N,2] y)
  <float[2,1,3,3] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0},
   float[2] s = {1.5, 0.5}, float[2] o = {0.1, 0.2}, float[2] m = {0.3, -0.3}, float[2] v = {1.0, 4.0},
   float[2,2] f = {1.0, 2.0, 3.0, 4.0}, float[2] b = {0.5, -0.5}> {
  [pad] p = Pad <pads = [0,0,1,1,0,0,1,1]> (x)
  [conv] c = Conv(p, w)
  [bn] n = BatchNormalization(c, s, o, m, v)
  [relu] r = Clip <min = 0.0, max = 6.0> (n)
  [mean] g1 = ReduceMean <axes = [2, 3], keepdims = 1> (r)
  [flat] h = Flatten(g1)
  [mm] k = MatMul(h, f)
  [add] l = Add(k, b)
  [soft] y = Softmax(l)
})";

TEST(OptimizeTest, OldNetBecomesStaticAndSimple) {
  const Model before = TestModel(kOldNet, 9, 4);
  Model after = before;
  const auto report = Optimize(&after);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(OpTypes(after),
              ElementsAre("Conv", "Clip", "GlobalAveragePool", "Flatten", "Gemm", "Softmax"));
  EXPECT_EQ(after.Opset(), 17);
  ExpectNear(RunModel(after), RunModel(before));
}

TEST(OptimizeTest, ExclusionsFollowFusedNodes) {
  Model model = TestModel(kOldNet, 9, 4);
  const auto report = Optimize(&model);
  ASSERT_TRUE(report.ok()) << report.status();
  const std::string conv = model.graph().node(0).name();
  EXPECT_EQ(report->CurrentName("pad"), conv);
  EXPECT_EQ(report->CurrentName("conv"), conv);
  EXPECT_EQ(report->CurrentName("bn"), conv);
  EXPECT_EQ(report->CurrentName("add"), report->CurrentName("mm"));
  EXPECT_EQ(report->CurrentName("soft"), "soft");
}

TEST(OptimizeTest, EveryPassCanBeSwitchedOff) {
  Model model = TestModel(kOldNet, 9, 4);
  OptimizeOptions options;
  options.disabled = {"batch-norm-fusion", "batch-norm-to-conv"};
  ASSERT_TRUE(Optimize(&model, options).ok());
  EXPECT_THAT(OpTypes(model), Contains("BatchNormalization"));
  options.disabled = {"batch-norm-fussion"};
  const auto status = Optimize(&model, options).status();
  EXPECT_EQ(ReasonOf(status), Reason::kInvalidFlag);
  EXPECT_THAT(base::GetHint(status), HasSubstr("batch-norm-fusion"));
}

TEST(OptimizeTest, WithoutSwitchesOnlyShapesChange) {
  Model model = TestModel(kOldNet, 9, 4);
  OptimizeOptions options;
  options.fuse = options.simplify = options.optimize = options.npu = false;
  options.min_opset = 0;
  ASSERT_TRUE(Optimize(&model, options).ok());
  EXPECT_EQ(model.Opset(), 9);
  EXPECT_EQ(model.graph().node_size(), 9);
  EXPECT_THAT(*GraphIndex(model.graph()).StaticShape("y"), ElementsAre(1, 2));
}

TEST(OptimizeTest, DynamicShapesAreAnErrorUnlessAllowed) {
  const std::string graph = "g (float[1,3,H] x) => (float[1,3,H] y) { y = Relu(x) }";
  Model model = TestModel(graph);
  EXPECT_EQ(ReasonOf(Optimize(&model).status()), Reason::kDynamicShape);
  model = TestModel(graph);
  OptimizeOptions options;
  options.input_shapes["x"] = {1, 3, 5};
  EXPECT_TRUE(Optimize(&model, options).ok());
  model = TestModel(graph);
  options = {};
  options.require_static = false;
  EXPECT_TRUE(Optimize(&model, options).ok());
}

TEST(OptimizeTest, ShapeThatTheModelCannotTakeNamesTheNode) {
  Model model = TestModel(
      "g (float[1, K] x) => (float[1, 2] y) <float[3,2] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}> { [mm] "
      "y = MatMul(x, w) }");
  OptimizeOptions options;
  options.input_shapes["x"] = {1, 5};
  const auto status = Optimize(&model, options).status();
  EXPECT_EQ(ReasonOf(status), Reason::kModelInvalid);
  EXPECT_THAT(std::string(status.message()), HasSubstr("mm"));
}

TEST(OptimizeTest, HalfPrecisionComputesInFloatBehindItsTypes) {
  onnx::ModelProto proto = ParseText(
      "<ir_version: 8, opset_import: [\"\" : 17]> g (float16[1,2] x) => (float16[1,2] y) { a = "
      "Mul(x, k)\n y = Add(a, "
      "k) }");
  auto* constant = proto.mutable_graph()->add_initializer();
  constant->set_name("k");
  constant->set_data_type(onnx::TensorProto::FLOAT16);
  constant->add_dims(2);
  constant->add_int32_data(0x3C00);
  constant->add_int32_data(0xC000);
  auto before = LoadModelFromBytes(proto.SerializeAsString(), "m.onnx");
  ASSERT_TRUE(before.ok()) << before.status();
  Model after = *before;
  const auto report = Optimize(&after);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->warnings, ElementsAre(HasSubstr("float32")));
  EXPECT_THAT(OpTypes(after), ElementsAre("Cast", "Mul", "Add", "Cast"));
  EXPECT_EQ(after.graph().input(0).type().tensor_type().elem_type(), onnx::TensorProto::FLOAT16);
  EXPECT_EQ(after.graph().output(0).type().tensor_type().elem_type(), onnx::TensorProto::FLOAT16);
  ExpectNear(RunModel(after), RunModel(*before), 2e-3f);
}

TEST(OptimizeTest, OutputsKeepNamesAndOrder) {
  Model model = TestModel(
      "g (float[N,2] x) => (float[N,2] a, float[N,2] b) { a = Identity(x)\n c = Relu(x)\n b = "
      "Identity(c) }");
  ASSERT_TRUE(Optimize(&model).ok());
  EXPECT_EQ(model.graph().output(0).name(), "a");
  EXPECT_EQ(model.graph().output(1).name(), "b");
  EXPECT_EQ(model.graph().input(0).name(), "x");
}

class Cancelling : public base::NullReporter {
 public:
  bool Cancelled() const override { return true; }
};

TEST(OptimizeTest, StopsWhenCancelled) {
  Model model = TestModel(kOldNet, 9, 4);
  runtime::OrtConstantEvaluator evaluator;
  Cancelling reporter;
  EXPECT_EQ(ReasonOf(OptimizeGraph(model, {}, evaluator, reporter).status()), Reason::kCancelled);
}

// Preprocessed models of the vectors: same nodes under the same names, same initializers.
class QuarkPreprocessingTest : public testing::TestWithParam<const char*> {};

std::map<std::string, std::string> NodesByName(const Model& model) {
  std::map<std::string, std::string> nodes;
  for (const auto& node : model.graph().node()) {
    std::string text = node.op_type();
    for (const auto& input : node.input()) text += "|" + input;
    for (const auto& output : node.output()) text += ">" + output;
    nodes[node.name()] = text;
  }
  return nodes;
}

TEST_P(QuarkPreprocessingTest, GivesTheSameGraph) {
  const std::filesystem::path folder =
      std::filesystem::path("../shared/vectors/quark") / GetParam();
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not here";
  auto model = LoadModel(folder / "model.onnx");
  const auto expected = LoadModel(folder / "pre_0.onnx");
  ASSERT_TRUE(model.ok() && expected.ok());
  OptimizeOptions options;
  options.fuse = options.optimize = options.npu = false;
  options.gemm = options.split_to_slice = true;
  ASSERT_TRUE(Optimize(&*model, options).ok());
  EXPECT_EQ(NodesByName(*model), NodesByName(*expected));
  for (const auto& tensor : expected->graph().initializer()) {
    const auto* own = model->FindInitializer(tensor.name());
    ASSERT_NE(own, nullptr) << tensor.name();
    const auto a = *model->Data(*own);
    const auto b = *expected->Data(tensor);
    EXPECT_EQ(a.dims(), b.dims());
    EXPECT_TRUE(std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end()))
        << tensor.name();
  }
}

INSTANTIATE_TEST_SUITE_P(Vectors, QuarkPreprocessingTest,
                         testing::Values("conv_bn_relu", "matmul_add", "transformer",
                                         "pad_slice_split", "if_subgraph", "external_data",
                                         "shared_weight", "reduce_mean"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace gq::graph
