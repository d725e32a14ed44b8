#include "common/compile/vaip_patch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "onnx/defs/parser.h"

namespace gq::compile {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

graph::Model Parse(const char* text) {
  onnx::ModelProto proto;
  onnx::OnnxParser parser(text);
  const auto status = parser.Parse(proto);
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return graph::Model::FromProto(std::move(proto)).value();
}

const onnx::AttributeProto* Attribute(const onnx::NodeProto& node, const char* name) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

constexpr char kMixed[] = R"(
<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1, "com.amd.quark" : 1]>
g (float[1,4] x) => (float[1,4] y)
<float s = {0.5}, int8 z = {0}, float zb = {1.00390625}, int16 zw = {3}>
{
  q = com.microsoft.QuantizeLinear(x, s, z)
  d = com.microsoft.DequantizeLinear(q, s, z)
  e = com.amd.quark.ExtendedQuantizeLinear(d, s, zb)
  f = com.amd.quark.ExtendedDequantizeLinear(e, s, zb)
  i = com.amd.quark.ExtendedQuantizeLinear(f, s, zw)
  j = com.amd.quark.ExtendedDequantizeLinear(i, s, zw)
  y = Relu(j)
}
)";

TEST(VaipPatchTest, PatchesWhatTheLoaderCannotRead) {
  graph::Model model = Parse(kMixed);
  const auto patch = PatchForVaip(false, model);
  ASSERT_TRUE(patch.ok()) << patch.status();
  EXPECT_EQ(patch->retagged, 2);
  EXPECT_EQ(patch->zero_points, 1);
  EXPECT_EQ(patch->attributed, 4);
  EXPECT_THAT(patch->warnings, ElementsAre());
  const onnx::GraphProto& graph = model.graph();
  EXPECT_EQ(graph.node(0).domain(), "");
  for (const auto& entry : model.proto().opset_import()) EXPECT_NE(entry.domain(), "com.microsoft");
  // 1.00390625 is 0x3F808000 in float32; cut off, not rounded, to 0x3F80.
  const onnx::TensorProto& zero = *model.FindInitializer("zb");
  EXPECT_EQ(zero.data_type(), onnx::TensorProto::BFLOAT16);
  EXPECT_THAT(zero.int32_data(), ElementsAre(0x3F80));
  EXPECT_THAT(Attribute(graph.node(2), "shape")->ints(), ElementsAre(1, 4));
  EXPECT_EQ(Attribute(graph.node(2), "data_type")->s(), "bfloat16");
  EXPECT_EQ(Attribute(graph.node(3), "data_type")->s(), "float32");
  // Element type 5 is INT16, not FLOAT16.
  EXPECT_EQ(Attribute(graph.node(4), "data_type")->s(), "int16");
}

TEST(VaipPatchTest, HalfPrecisionZeroPointsAreExact) {
  graph::Model model = Parse(kMixed);
  ASSERT_TRUE(PatchForVaip(true, model).ok());
  // 1.00390625 = 1 + 2^-8: exponent 15, mantissa 2^(10-8) = 4.
  EXPECT_THAT(model.FindInitializer("zb")->int32_data(), ElementsAre(0x3C04));
}

TEST(VaipPatchTest, WhatTheDefaultDomainDoesNotKnowStays) {
  graph::Model model = Parse(R"(
<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
g (float[1,4] x) => (float[1,4] y) <float s = {0.5}, uint16 z = {0}>
{ q = com.microsoft.QuantizeLinear(x, s, z) y = com.microsoft.DequantizeLinear(q, s, z) }
)");
  const auto patch = PatchForVaip(false, model);
  ASSERT_TRUE(patch.ok());
  EXPECT_EQ(patch->retagged, 0);
  EXPECT_EQ(model.graph().node(0).domain(), "com.microsoft");
  EXPECT_THAT(patch->warnings, ElementsAre(HasSubstr("uint16 stay there")));
}

TEST(VaipPatchTest, AnOrdinaryModelIsLeftAlone) {
  graph::Model model = Parse(
      "<ir_version: 8, opset_import: [\"\" : 17]> g (float[1] x) => (float[1] y) { y = Relu(x) }");
  const std::string before = model.proto().SerializeAsString();
  EXPECT_FALSE(PatchForVaip(false, model)->changed());
  EXPECT_EQ(model.proto().SerializeAsString(), before);
}

}  // namespace
}  // namespace gq::compile
