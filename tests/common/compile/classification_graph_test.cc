// Classes of whole models, from their graphs.
#include <gtest/gtest.h>

#include <string>

#include "common/base/text.h"
#include "common/compile/classification.h"
#include "common/compile/edge_quantization.h"
#include "common/graph/analysis.h"
#include "onnx/defs/parser.h"

namespace gq::compile {
namespace {

// A chain of 1x1 convolutions; `q` is a quantized one, `f` a float one.
graph::Model Chain(const std::string& layers) {
  using base::StrAppend;
  using base::StrCat;
  std::string nodes;
  std::string at = "x";
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string out = i + 1 == layers.size() ? "y" : StrCat("t", i);
    if (layers[i] == 'f') {
      StrAppend(&nodes, "  ", out, " = Conv(", at, ", wf)\n");
    } else {
      StrAppend(&nodes, "  a", i, " = QuantizeLinear(", at, ", s, z)\n  b", i,
                " = DequantizeLinear(a", i, ", s, z)\n  w", i, " = DequantizeLinear(wq, s, z)\n  c",
                i, " = Conv(b", i, ", w", i, ")\n  d", i, " = QuantizeLinear(c", i, ", s, z)\n  ",
                out, " = DequantizeLinear(d", i, ", s, z)\n");
    }
    at = out;
  }
  const std::string text = StrCat(
      "<ir_version: 8, opset_import: [\"\" : 17]>\n"
      "g (float[1,1,4,4] x) => (float[1,1,4,4] y) <float s = {0.25}, int8 z = {0}, "
      "int8[1,1,1,1] wq = {3}, float[1,1,1,1] wf = {0.5}> {\n",
      nodes, "}");
  onnx::ModelProto proto;
  onnx::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(proto);
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage() << text;
  int number = 0;
  for (onnx::NodeProto& node : *proto.mutable_graph()->mutable_node()) {
    node.set_name(StrCat("n", number++));
  }
  return graph::Model::FromProto(std::move(proto)).value();
}

ModelClass ClassOf(const std::string& layers) {
  return Classify(graph::Analyze(Chain(layers))).model_class;
}

TEST(ClassificationGraphTest, CountsIslandsInTheGraph) {
  EXPECT_EQ(ClassOf("ff"), ModelClass::kPureFloat);
  EXPECT_EQ(ClassOf("qqq"), ModelClass::kPureVint8);
  EXPECT_EQ(ClassOf("qf"), ModelClass::kTwoIsland);
  EXPECT_EQ(ClassOf("fqffqf"), ModelClass::kTwoIsland);
  EXPECT_EQ(ClassOf("fqfqfqf"), ModelClass::kMultiIsland);
}

TEST(ClassificationGraphTest, FindsTheQuantizationAtTheEdges) {
  const BoundaryQuantization both = FindBoundaryQuantization(Chain("qq").graph());
  EXPECT_EQ(both.inputs, (std::vector<std::string>{"n0"}));
  EXPECT_EQ(both.outputs.size(), 1U);
  EXPECT_TRUE(FindBoundaryQuantization(Chain("fqf").graph()).empty());
  EXPECT_TRUE(FindBoundaryQuantization(Chain("qf").graph()).outputs.empty());
}

}  // namespace
}  // namespace gq::compile
