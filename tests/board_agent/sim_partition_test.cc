#include "board_agent/backends/sim/sim_partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/text.h"
#include "common/graph/analysis.h"
#include "common/graph/shape_inference.h"
#include "onnx/defs/parser.h"

namespace gq::agent {
namespace {

using compile::CompilerOptions;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

graph::Model Parse(const std::string& body) {
  onnx::ModelProto proto;
  const std::string text = "<ir_version: 8, opset_import: [\"\" : 17]>\n" + body;
  onnx::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(proto);
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  int number = 0;
  for (onnx::NodeProto& node : *proto.mutable_graph()->mutable_node()) {
    node.set_name(base::StrCat(node.op_type(), "_", number++));
  }
  graph::Model model = graph::Model::FromProto(std::move(proto)).value();
  EXPECT_TRUE(graph::InferShapes(graph::InferenceMode::kLenient, &model).ok());
  return model;
}

struct Result {
  compile::Classification classification;
  SimPartitioning partitioning;
  std::vector<std::string> messages;
};

Result Partition(const graph::Model& model, std::vector<std::string> fe_args = {}) {
  Result result;
  result.classification = compile::Classify(graph::Analyze(model));
  CompilerOptions options = compile::DefaultOptions(result.classification, "ve2-sim");
  options.fe_args.insert(options.fe_args.end(), fe_args.begin(), fe_args.end());
  result.partitioning = PartitionForSim(model, result.classification, options);
  for (const SimFallback& fallback : result.partitioning.fallbacks) {
    result.messages.push_back(model.graph().node(fallback.node).name() + ": " + fallback.message);
  }
  return result;
}

// One quantized convolution, as VINT8 writes it; `scale` for all tensors.
std::string QuantizedConv(const std::string& scale, const std::string& zero_point = "0") {
  return "g (float[1,1,4,4] x) => (float[1,1,4,4] y)\n"
         "<float s = {" +
         scale + "}, int8 z = {" + zero_point +
         "}, int8[1,1,1,1] w = {3}, int8 wz = {0}, float ws = {0.5}> {\n"
         "  xq = QuantizeLinear(x, s, z)\n"
         "  xd = DequantizeLinear(xq, s, z)\n"
         "  wd = DequantizeLinear(w, ws, wz)\n"
         "  c = Conv(xd, wd)\n"
         "  r = Relu(c)\n"
         "  rq = QuantizeLinear(r, s, z)\n"
         "  y = DequantizeLinear(rq, s, z)\n"
         "}";
}

TEST(SimPartitionTest, AFloatModelRunsAsAWholeInBf16) {
  const Result result = Partition(Parse(
      "g (float[1,3,8,8] x) => (float[1,4,8,8] y) <float[4,3,1,1] w = {1,1,1,1,1,1,1,1,1,1,1,1}>"
      " { c = Conv(x, w)  y = Relu(c) }"));
  const SimPartitioning& p = result.partitioning;
  EXPECT_EQ(result.classification.model_class, compile::ModelClass::kPureFloat);
  EXPECT_EQ(p.nodes, 2);
  // Convolution: 2 operations for each of 1*3*1*1 multiplications at 4*8*8 places; Relu: 4*8*8.
  EXPECT_EQ(p.ops, 2 * 3 * 256 + 256);
  EXPECT_EQ(p.offloaded_ops(), p.ops);
  EXPECT_EQ(p.offloaded_subgraphs(), 1);
  EXPECT_EQ(p.cpu_partitions, 0);
  EXPECT_THAT(result.messages, IsEmpty());
}

TEST(SimPartitionTest, OfAVint8ModelOnlyTheEdgesStayOnTheCpu) {
  const Result result = Partition(Parse(QuantizedConv("0.25")));
  EXPECT_EQ(result.classification.model_class, compile::ModelClass::kPureVint8);
  EXPECT_THAT(result.messages, ElementsAre(HasSubstr("QuantizeLinear_0: [FE] onnx.QuantizeLinear "
                                                     "standalone at the edge"),
                                           HasSubstr("DequantizeLinear_6: [FE]")));
  EXPECT_EQ(result.partitioning.offloaded_nodes(), 5);
  EXPECT_EQ(result.partitioning.offloaded_subgraphs(), 1);
  EXPECT_EQ(result.partitioning.cpu_partitions, 2);
}

TEST(SimPartitionTest, EdgeQuantizationTakesTheEdgesAlong) {
  const Result result = Partition(Parse(QuantizedConv("0.25")), {"edge-quantization-in-rt=1"});
  EXPECT_THAT(result.messages, IsEmpty());
  EXPECT_EQ(result.partitioning.offloaded_nodes(), 7);
  EXPECT_EQ(result.partitioning.cpu_partitions, 0);
}

TEST(SimPartitionTest, ScalesMustBePowersOfTwoWithZeroPointZero) {
  for (const Result& result :
       {Partition(Parse(QuantizedConv("0.3"))), Partition(Parse(QuantizedConv("0.25", "5")))}) {
    EXPECT_THAT(result.messages, testing::Contains(HasSubstr("no power of two")));
  }
}

TEST(SimPartitionTest, AnOperatorInTheMiddleCutsTheModel) {
  const Result result =
      Partition(Parse("g (float[1,2] x) => (float[1,2] y) <float[2,2] w = {1, 2, 3, 4}> "
                      "{ a = MatMul(x, w)  t = Hardmax(a)  b = MatMul(t, w)  y = Relu(b) }"));
  EXPECT_EQ(result.partitioning.subgraphs.size(), 2U);
  EXPECT_EQ(result.partitioning.offloaded_subgraphs(), 2);
  EXPECT_EQ(result.partitioning.cpu_partitions, 1);
  EXPECT_THAT(result.messages, ElementsAre(HasSubstr("onnx.Hardmax has no lowering")));
}

TEST(SimPartitionTest, SmallSubgraphsFallBackBelowTheThreshold) {
  // 2 * 4 + 2 operations before the cut, 2 in it, 2 after it: under 20 %.
  const Result result =
      Partition(Parse("g (float[1,2] x) => (float[1,2] y) <float[2,2] w = {1, 2, 3, 4}> "
                      "{ a = MatMul(x, w)  b = Relu(a)  t = Hardmax(b)  y = Relu(t) }"));
  EXPECT_EQ(result.partitioning.subgraphs.size(), 2U);
  EXPECT_EQ(result.partitioning.offloaded_subgraphs(), 1);
  EXPECT_TRUE(result.partitioning.subgraphs[1].below_threshold);
  EXPECT_EQ(result.partitioning.cpu_partitions, 1);
  EXPECT_EQ(result.partitioning.offloaded_nodes(), 2);
  EXPECT_EQ(result.partitioning.supported_nodes, 3);
}

TEST(SimPartitionTest, PartsAlwaysRunOneAfterTheOther) {
  // Two branches, each cut at another depth: no part may wait for one that comes later.
  const graph::Model model = Parse(
      "g (float[1,8] x) => (float[1,8] y) "
      "{ a = Relu(x)  b = Hardmax(a)  c = Relu(b)  d = Hardmax(c)  e = Relu(a)  f = Hardmax(e) "
      "  y = Add(d, f) }");
  const Result result = Partition(model);
  for (const SimSubgraph& subgraph : result.partitioning.subgraphs) {
    for (const int node : subgraph.nodes) EXPECT_LT(node, model.graph().node_size());
  }
  // {Relu a, Relu e}, {Relu c}, {Add}
  ASSERT_EQ(result.partitioning.subgraphs.size(), 3U);
  EXPECT_THAT(result.partitioning.subgraphs[0].nodes, ElementsAre(0, 4));
  EXPECT_THAT(result.partitioning.subgraphs[1].nodes, ElementsAre(2));
  EXPECT_THAT(result.partitioning.subgraphs[2].nodes, ElementsAre(6));
}

}  // namespace
}  // namespace gq::agent
