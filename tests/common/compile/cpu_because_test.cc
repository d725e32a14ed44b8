#include "common/compile/cpu_because.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gq::compile {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(CpuBecauseTest, ReadsAttributesWithBracesAndQuotesInTheMessage) {
  const std::string text = R"(module {
    %0 = xten_nn.subgraph (%a: tensor<1x3xf32>) attributes {
        LayerName = "/head/conv }", Message = "[FE] type {dtype = \"float32\"} at } \\ end",
        Op = "onnx.Conv", Reason = "CpuBecause", Extra = [{a = "}"}, 3 : i32]} {
      %1 = xten_nn.kernel attributes {Reason = "Kernel", Op = "inner"} {}
    }
    %2 = xten_nn.subgraph () attributes {Reason = "InCoreChain", LayerName = "npu"} {
      xten_nn.subgraph () attributes {Op = "tosa.cast", Reason = "CpuBecause", LayerName = "n\0Aq",
        Message = "Unwrapping layer with 3"} {}
    }
  })";
  const std::vector<CpuBecause> found = ScanCpuBecause(text);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].op, "onnx.Conv");
  EXPECT_EQ(found[0].layer, "/head/conv }");
  EXPECT_EQ(found[0].message, "[FE] type {dtype = \"float32\"} at } \\ end");
  EXPECT_EQ(found[1].op, "tosa.cast");
  EXPECT_EQ(found[1].layer, "n\nq");
  EXPECT_EQ(found[1].message, "Unwrapping layer with 3");
}

TEST(CpuBecauseTest, NothingIsMadeUpFromUnfinishedText) {
  const std::string text =
      "x attributes {Reason = \"CpuBecause\", Message = \"m\", LayerName = \"l\"} {}";
  EXPECT_EQ(ScanCpuBecause(text).size(), 1U);
  const size_t end = text.find('}');
  for (size_t length = 0; length < end; ++length) {
    EXPECT_TRUE(ScanCpuBecause(text.substr(0, length)).empty()) << length;
  }
}

TEST(CpuBecauseTest, SortsByWhoCanActOnIt) {
  EXPECT_EQ(ClassifyCpuBecause("User requested this layer to be partitioned out"),
            CpuBecauseClass::kUser);
  EXPECT_EQ(ClassifyCpuBecause("Unwrapping layer with depth"), CpuBecauseClass::kTiling);
  EXPECT_EQ(ClassifyCpuBecause("[FE] x"), CpuBecauseClass::kFrontEnd);
  EXPECT_EQ(ClassifyCpuBecause("[BE] x"), CpuBecauseClass::kBackEnd);
  EXPECT_EQ(ClassifyCpuBecause("[MLLIB] x"), CpuBecauseClass::kKernelLibrary);
  EXPECT_EQ(ClassifyCpuBecause("something new"), CpuBecauseClass::kUnclassified);
}

TEST(CpuBecauseTest, KnownMessagesHaveTheirRemedy) {
  EXPECT_THAT(RemedyFor("[FE] standalone tosa.cast"), HasSubstr("conversion"));
  EXPECT_THAT(RemedyFor("[FE] onnx.DequantizeLinear standalone"), HasSubstr("power-of-two"));
  EXPECT_THAT(RemedyFor("YAML constraint config.dtype float32"), HasSubstr("conversion"));
  EXPECT_THAT(RemedyFor("onnx.Transpose at edge"), HasSubstr("transpose"));
  EXPECT_THAT(RemedyFor("standalone at the edge of the graph"), HasSubstr("--edge-quant"));
  EXPECT_FALSE(RemedyFor("something new").empty());
}

TEST(CpuBecauseTest, ReadsBreakLines) {
  EXPECT_THAT(
      ParseBreakReasons("Partition 0 breaks at: CpuBecause(\"a \\\" b\") / CpuBecause(\"c)\")"),
      ElementsAre("a \" b", "c)"));
  EXPECT_THAT(ParseBreakReasons("CpuBecause(\"unfinished"), ElementsAre());
}

}  // namespace
}  // namespace gq::compile
