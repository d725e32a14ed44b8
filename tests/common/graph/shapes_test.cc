#include "common/graph/constant_folding.h"
#include "common/graph/edits.h"
#include "common/graph/pinning.h"
#include "common/graph/shape_inference.h"
#include "common/runtime/constant_evaluator.h"
#include "gmock/gmock.h"
#include "tests/common/graph/test_models.h"

namespace gq::graph {
namespace {

using base::Reason;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Shapes = std::map<std::string, std::vector<int64_t>>;

std::vector<int64_t> InputShape(const Model& model, int input) {
  return *GraphIndex(model.graph()).Shape(model.graph().input(input).name());
}

FoldingReport Fold(Model* model) {
  runtime::OrtConstantEvaluator evaluator;
  base::NullReporter reporter;
  const auto report = FoldConstants(evaluator, reporter, model);
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *report : FoldingReport();
}

TEST(PinningTest, BatchBecomesOne) {
  Model model = TestModel("g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }");
  const auto changes = PinInputs({}, &model);
  ASSERT_TRUE(changes.ok());
  EXPECT_THAT(*changes,
              ElementsAre(AllOf(HasSubstr("'x'"), HasSubstr("[N, 3]"), HasSubstr("[1, 3]"))));
  EXPECT_THAT(InputShape(model, 0), ElementsAre(1, 3));
}

TEST(PinningTest, SymbolsHoldInAllInputs) {
  Model model = TestModel("g (float[N, L] a, float[N, L] b) => (float[N, L] y) { y = Add(a, b) }");
  ASSERT_TRUE(PinInputs(Shapes{{"b", {2, 7}}}, &model).ok());
  EXPECT_THAT(InputShape(model, 0), ElementsAre(2, 7));
}

TEST(PinningTest, StaticModelsStay) {
  Model model = TestModel("g (float[4, 3] x) => (float[4, 3] y) { y = Relu(x) }");
  EXPECT_THAT(*PinInputs({}, &model), IsEmpty());
  EXPECT_THAT(InputShape(model, 0), ElementsAre(4, 3));
}

TEST(PinningTest, ShapesThatDoNotFitAreRefused) {
  const Model model = TestModel(
      "g (float[N, 3, H] x, float[N, 1] z) => (float[N, 3, H] y) { a = Relu(x)\n b = Relu(z)\n y = "
      "Identity(a) }");
  for (const Shapes& shapes :
       {Shapes{{"other", {1}}}, Shapes{{"x", {1, 3}}}, Shapes{{"x", {1, 4, 5}}},
        Shapes{{"x", {0, 3, 5}}}, Shapes{{"x", {2, 3, 5}}, {"z", {4, 1}}}}) {
    Model copy = model;
    EXPECT_EQ(ReasonOf(PinInputs(shapes, &copy).status()), Reason::kInvalidFlag);
  }
}

TEST(StaticShapesTest, OpenInputNamesTheFlag) {
  Model model = TestModel("g (float[1, 3, H] x) => (float[1, 3, H] y) { y = Relu(x) }");
  ASSERT_TRUE(PinInputs({}, &model).ok());
  ASSERT_TRUE(InferShapes(InferenceMode::kStrict, &model).ok());
  const auto status = RequireStaticInputs(model);
  EXPECT_EQ(ReasonOf(status), Reason::kDynamicShape);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("'x'"), HasSubstr("[1, 3, H]")));
  EXPECT_THAT(base::GetHint(status), HasSubstr("--input-shape x="));
}

TEST(StaticShapesTest, DataDependentTensorIsNamed) {
  Model model = TestModel("g (float[4] x) => (int64[1, K] y) { [nz] y = NonZero(x) }");
  ASSERT_TRUE(InferShapes(InferenceMode::kStrict, &model).ok());
  EXPECT_TRUE(RequireStaticInputs(model).ok());
  EXPECT_THAT(OpenTensors(model), ElementsAre(AllOf(HasSubstr("'y'"), HasSubstr("'nz'"))));
}

TEST(ShapeInferenceTest, StaleShapesAreForgotten) {
  Model model = TestModel("g (float[N, 4] x) => (float[N, M] y) { a = Relu(x)\n y = Neg(a) }");
  SetValueInfo("a", onnx::TensorProto::FLOAT, {9, 9}, model.mutable_graph());
  ASSERT_TRUE(PinInputs({}, &model).ok());
  ASSERT_TRUE(InferShapes(InferenceMode::kStrict, &model).ok());
  EXPECT_THAT(*GraphIndex(model.graph()).Shape("a"), ElementsAre(1, 4));
}

// The onnx library would hold a message for each element of the longer tensor.
TEST(ShapeInferenceTest, LongTensorsAreNotTakenForShapes) {
  Model model = TestModel(R"(g (float[1] x) => (float y)
    <float[1] one = {1.0}, int64[1] times = {68719476736}> {
      a = Tile(one, times)
      b = Add(x, a)
      y = ReduceMean<keepdims = 0>(b)
    })");
  ASSERT_TRUE(InferShapes(InferenceMode::kStrict, &model).ok());
  EXPECT_THAT(*GraphIndex(model.graph()).StaticShape("b"), ElementsAre(int64_t{1} << 36));
}

TEST(ShapeInferenceTest, ShapesOfCustomOperatorsAreKept) {
  Model model = TestModel("g (float[2, 4] x) => (float[2, 4] y) { a = lab.Magic(x)\n y = Neg(a) }",
                          17, 8, ", \"lab\" : 1");
  SetValueInfo("a", onnx::TensorProto::FLOAT, {2, 4}, model.mutable_graph());
  ASSERT_TRUE(InferShapes(InferenceMode::kStrict, &model).ok());
  EXPECT_THAT(*GraphIndex(model.graph()).Shape("a"), ElementsAre(2, 4));
}

TEST(ShapeInferenceTest, OperatorsOfOnnxRuntimeAreUnderstood) {
  Model model = TestModel(
      "g (float[1, 2, 5, 5] x) => (float[1, 3, 3, 3] y) { a = com.microsoft.Gelu(x)\n [conv] b = "
      "com.microsoft.FusedConv <activation = \"Relu\", kernel_shape = [3, 3]> (a, k)\n y = "
      "Neg(b)\n k = "
      "RandomNormal <shape = [3, 2, 3, 3]> () }",
      17, 8, ", \"com.microsoft\" : 1");
  ASSERT_TRUE(InferShapes(InferenceMode::kStrict, &model).ok());
  EXPECT_THAT(*GraphIndex(model.graph()).Shape("a"), ElementsAre(1, 2, 5, 5));
  EXPECT_THAT(*GraphIndex(model.graph()).Shape("b"), ElementsAre(1, 3, 3, 3));
  EXPECT_EQ(GraphIndex(model.graph()).FindNode("conv")->op_type(), "FusedConv");
}

TEST(FoldingTest, ShapeChainsBecomeStatic) {
  Model model = TestModel(R"(g (float[N, 3, 4] x) => (float[A, B] y) {
    s = Shape(x)
    zero = Constant <value = int64 {0}> ()
    axes = Constant <value = int64[1] {0}> ()
    b = Gather(s, zero)
    u = Unsqueeze(b, axes)
    rest = Constant <value = int64[1] {-1}> ()
    shape = Concat <axis = 0> (u, rest)
    y = Reshape(x, shape)
  })");
  ASSERT_TRUE(PinInputs({}, &model).ok());
  const FoldingReport report = Fold(&model);
  EXPECT_EQ(report.shapes, 1);
  EXPECT_THAT(OpTypes(model), ElementsAre("Reshape"));
  EXPECT_THAT(OpenTensors(model), IsEmpty());
  EXPECT_THAT(*GraphIndex(model.graph()).Shape("y"), ElementsAre(1, 12));
}

TEST(FoldingTest, BranchOfAConstantConditionTakesThePlaceOfIf) {
  const std::string text = R"(g (float[2] x) => (float[2] y) {
    a = Neg(x)
    one = Constant <value = int64 {1}> ()
    two = Constant <value = int64 {2}> ()
    c = Less(one, two)
    [if] b = If (c) <
      then_branch = t () => (float[2] u) { k = Constant <value = float[2] {1.0, 2.0}> ()  u = Add(a, k) },
      else_branch = e () => (float[2] v) { v = Neg(a) }
    >
    y = Relu(b)
  })";
  const Model before = TestModel(text);
  Model after = before;
  const FoldingReport report = Fold(&after);
  EXPECT_EQ(report.branches, 1);
  for (const auto& type : OpTypes(after)) EXPECT_NE(type, "If");
  EXPECT_TRUE(CheckModel(after).ok()) << CheckModel(after);
  ExpectNear(RunModel(after), RunModel(before));
}

TEST(FoldingTest, QuantizationAndLargeResultsAreKept) {
  Model model = TestModel(R"(g (float[8] x) => (float[8] y, float[8192, 8192] z)
    <int8[8] w = {1, 2, 3, 4, 5, 6, 7, 8}, float s = {0.5}, int8 zp = {0}, int64[2] big = {8192, 8192}> {
    d = DequantizeLinear(w, s, zp)
    y = Add(x, d)
    c = ConstantOfShape <value = float[1] {1.0}> (big)
    e = Relu(c)
    z = Neg(e)
  })");
  EXPECT_EQ(Fold(&model).folded_nodes, 0);
  EXPECT_THAT(model.graph().node(), SizeIs(5));
}

TEST(FoldingTest, ConstantOutputsStayOutputsOfNodes) {
  const Model before = TestModel(
      "g (float[2] x) => (float[2] y, float[2] z) <float[2] k = {1.0, -2.0}> { y = Relu(x)\n a = "
      "Neg(k)\n z = Relu(a) }");
  Model after = before;
  EXPECT_EQ(Fold(&after).folded_nodes, 1);
  EXPECT_TRUE(CheckModel(after).ok()) << CheckModel(after);
  ExpectNear(RunModel(after), RunModel(before));
}

// An evaluator that refuses one operator type.
class Refusing : public ConstantEvaluator {
 public:
  absl::StatusOr<std::vector<TensorView>> Evaluate(const Model& model) override {
    for (const auto& type : OpTypes(model)) {
      if (type == "Sin") return base::MakeError(Reason::kRuntimeFailed, "no Sin here");
    }
    return inner_.Evaluate(model);
  }

 private:
  runtime::OrtConstantEvaluator inner_;
};

TEST(FoldingTest, OneNodeThatCannotBeComputedDoesNotStopTheOthers) {
  Model model = TestModel(R"(g (float[2] x) => (float[2] y) <float[2] k = {1.0, -2.0}> {
    a = Sin(k)
    b = Neg(k)
    c = Add(a, b)
    y = Add(x, c)
  })");
  Refusing evaluator;
  base::NullReporter reporter;
  const auto report = FoldConstants(evaluator, reporter, &model);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->folded_nodes, 1);
  EXPECT_THAT(report->warnings, ElementsAre(HasSubstr("Sin")));
  EXPECT_THAT(OpTypes(model), ElementsAre("Sin", "Add", "Add"));
}

}  // namespace
}  // namespace gq::graph
