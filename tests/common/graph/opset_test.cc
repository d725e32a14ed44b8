#include "common/graph/opset.h"

#include "common/graph/shape_inference.h"
#include "gmock/gmock.h"
#include "tests/common/graph/test_models.h"

namespace gq::graph {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// A model of an older opset means the same after the conversion, as ONNX Runtime sees it.
struct OldModel {
  const char* name;
  int opset;
  const char* graph;
};

class OpsetConversionTest : public testing::TestWithParam<OldModel> {};

TEST_P(OpsetConversionTest, KeepsTheOutputs) {
  const Model before = TestModel(GetParam().graph, GetParam().opset, 4);
  for (const int target : {17, 21}) {
    Model after = before;
    const auto change = ConvertOpset(target, &after);
    ASSERT_TRUE(change.ok()) << change.status();
    EXPECT_EQ(after.Opset(), target);
    EXPECT_EQ(change->before, GetParam().opset);
    EXPECT_TRUE(CheckModel(after).ok()) << CheckModel(after);
    ExpectNear(RunModel(after), RunModel(before), 1e-6f);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Operators, OpsetConversionTest,
    testing::Values(
        OldModel{"Upsample7Nearest", 7,
                 "g (float[1,2,3,3] x) => (float[1,2,6,9] y) { y = Upsample <mode = \"nearest\", "
                 "scales = [1.0, 1.0, "
                 "2.0, 3.0]> (x) }"},
        OldModel{"Upsample9Linear", 9,
                 "g (float[1,2,3,3] x) => (float[1,2,6,6] y) <float[4] s = {1.0, 1.0, 2.0, 2.0}> { "
                 "y = Upsample <mode "
                 "= \"linear\"> (x, s) }"},
        OldModel{"Resize10Nearest", 10,
                 "g (float[1,2,4,4] x) => (float[1,2,6,6] y) <float[4] s = {1.0, 1.0, 1.5, 1.5}> { "
                 "y = Resize <mode = "
                 "\"nearest\"> (x, s) }"},
        OldModel{"Resize10Smaller", 10,
                 "g (float[1,2,6,6] x) => (float[1,2,4,4] y) <float[4] s = {1.0, 1.0, 0.7, 0.7}> { "
                 "y = Resize <mode = "
                 "\"nearest\"> (x, s) }"},
        OldModel{"Resize10Linear", 10,
                 "g (float[1,2,4,4] x) => (float[1,2,8,8] y) <float[4] s = {1.0, 1.0, 2.0, 2.0}> { "
                 "y = Resize <mode = "
                 "\"linear\"> (x, s) }"},
        OldModel{"Softmax11Middle", 11,
                 "g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax <axis = 1> (x) }"},
        OldModel{"Softmax9Default", 9,
                 "g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax (x) }"},
        OldModel{"Softmax11Last", 11,
                 "g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax <axis = 2> (x) }"},
        OldModel{"LogSoftmax11Ones", 11,
                 "g (float[2,3,1,1] x) => (float[2,3,1,1] y) { y = LogSoftmax <axis = 1> (x) }"},
        OldModel{"Clip6", 9,
                 "g (float[2,3] x) => (float[2,3] y, float[2,3] z, float[2,3] w) { y = Clip <min = "
                 "-0.5, max = 0.5> "
                 "(x)\n z = Clip <max = 0.25> (x)\n w = Clip <min = 0.25> (x) }"},
        OldModel{"Pad2", 9,
                 "g (float[1,1,3,3] x) => (float[1,1,5,6] y) { y = Pad <pads = [0,0,1,1,0,0,1,2], "
                 "value = 2.0> (x) }"},
        OldModel{"Pad2Reflect", 9,
                 "g (float[1,1,3,3] x) => (float[1,1,5,5] y) { y = Pad <mode = \"reflect\", pads = "
                 "[0,0,1,1,0,0,1,1]> "
                 "(x) }"},
        OldModel{
            "Slice1", 9,
            "g (float[4,5] x) => (float[2,3] y) { y = Slice <starts = [1,2], ends = [3,99]> (x) }"},
        OldModel{"TopK1", 9,
                 "g (float[2,5] x) => (float[2,2] y, int64[2,2] i) { y, i = TopK <k = 2, axis = 1> "
                 "(x) }"},
        OldModel{"Dropout7", 9,
                 "g (float[2,5] x) => (float[2,5] y) { y = Dropout <ratio = 0.9> (x) }"},
        OldModel{"Shapes11", 11,
                 "g (float[1,4,1,3] x) => (float[1,3] y) { a = Squeeze <axes = [0,2]> (x)\n b = "
                 "Unsqueeze <axes = [0]> "
                 "(a)\n c, d = Split <axis = 1, split = [1,3]> (b)\n y = ReduceSum <axes = [1], "
                 "keepdims = 0> (d) }"},
        OldModel{"Reductions11", 11,
                 "g (float[2,3,4] x) => (float[2,1,4] y, float[2,4] z) { y = ReduceMean <axes = "
                 "[1]> (x)\n z = ReduceMax "
                 "<axes = [1], keepdims = 0> (x) }"},
        OldModel{"BatchNorm7", 7,
                 "g (float[1,2,2,2] x) => (float[1,2,2,2] y) <float[2] s = {1.5, 0.5}, float[2] b "
                 "= {0.1, 0.2}, "
                 "float[2] m = {0.3, -0.3}, float[2] v = {1.0, 4.0}> { y = BatchNormalization "
                 "<epsilon = 0.001> (x, s, "
                 "b, m, v) }"},
        OldModel{
            "Split11Equal", 11,
            "g (float[2,4] x) => (float[2,2] y, float[2,2] z) { y, z = Split <axis = 1> (x) }"}),
    [](const auto& info) { return info.param.name; });

TEST(OpsetTest, NewerModelsAreKept) {
  Model model = TestModel("g (float[2] x) => (float[2] y) { y = Relu(x) }", 19, 9);
  ASSERT_TRUE(ConvertOpset(17, &model).ok());
  EXPECT_EQ(model.Opset(), 19);
}

TEST(OpsetTest, BodiesAreConverted) {
  const Model before = TestModel(R"(g (float[2,3] x, bool c) => (float[2,3] y) {
    y = If (c) <
      then_branch = t () => (float[2,3] u) { u = Clip <min = -0.5, max = 0.5> (x) },
      else_branch = e () => (float[2,3] v) { v = Neg(x) }
    >
  })",
                                 10, 5);
  Model after = before;
  ASSERT_TRUE(ConvertOpset(17, &after).ok());
  EXPECT_TRUE(CheckModel(after).ok()) << CheckModel(after);
  const auto& branch = FindAttribute(after.graph().node(0), "then_branch")->g();
  EXPECT_EQ(branch.node(0).input_size(), 3);
}

TEST(OpsetTest, RoiAlignKeepsItsOldPixels) {
  Model model = TestModel(
      "g (float[1,1,8,8] x, float[1,4] r, int64[1] i) => (float[1,1,2,2] y) { y = RoiAlign "
      "<output_height = 2, "
      "output_width = 2> (x, r, i) }",
      10, 5);
  ASSERT_TRUE(ConvertOpset(17, &model).ok());
  EXPECT_EQ(AttributeString(model.graph().node(0), "coordinate_transformation_mode", ""),
            "output_half_pixel");
}

TEST(OpsetTest, WhatHasNoEquivalentIsNamed) {
  Model model = TestModel(
      "g (float[1,2,2,2] x) => (float[1,2,2,2] y) <float[2] s = {1.5, 0.5}> { [norm] y = "
      "BatchNormalization <spatial "
      "= 0> (x, s, s, s, s) }",
      7, 4);
  const auto change = ConvertOpset(17, &model);
  EXPECT_EQ(ReasonOf(change.status()), base::Reason::kModelUnsupported);
  EXPECT_THAT(std::string(change.status().message()), HasSubstr("'norm'"));
}

TEST(OpsetTest, NodeNamesAndStoredWeightsStay) {
  onnx::ModelProto proto = ParseText(
      "<ir_version: 4, opset_import: [\"\" : 9]> g (float[1,16] x) => (float[1,32] y) { [mm] a = "
      "MatMul(x, "
      "w)\n [clip] y = Clip <min = 0.0> (a) }");
  auto* weight = proto.mutable_graph()->add_initializer();
  weight->set_name("w");
  weight->set_data_type(onnx::TensorProto::FLOAT);
  weight->add_dims(16);
  weight->add_dims(32);
  weight->set_raw_data(std::string(2048, '\1'));
  auto model = LoadModelFromBytes(proto.SerializeAsString(), "m.onnx");
  ASSERT_TRUE(model.ok()) << model.status();
  const void* bytes = model->Data(*model->FindInitializer("w"))->bytes().data();
  const auto change = ConvertOpset(17, &*model);
  ASSERT_TRUE(change.ok());
  EXPECT_THAT(change->details, Contains(HasSubstr("Clip")));
  EXPECT_THAT(NodeNames(*model), ElementsAre("mm", "clip"));
  EXPECT_EQ(model->Data(*model->FindInitializer("w"))->bytes().data(), bytes);
  EXPECT_GE(model->proto().ir_version(), MinIrVersion(17));
}

}  // namespace
}  // namespace gq::graph
