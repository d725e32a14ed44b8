#include "common/compile/classification.h"

#include <gtest/gtest.h>

#include "common/compile/compiler_options.h"

namespace gq::compile {
namespace {

graph::Analysis Quantized(int islands) {
  graph::Analysis analysis;
  analysis.state = graph::ModelState::kQdq;
  analysis.compute_layers = 10;
  analysis.quantized_compute_layers = 10 - islands;
  for (int i = 0; i < islands; ++i) analysis.float_islands.push_back({"conv"});
  return analysis;
}

TEST(ClassificationTest, FollowsTheNumberOfFloatIslands) {
  EXPECT_EQ(Classify(Quantized(0)).model_class, ModelClass::kPureVint8);
  EXPECT_EQ(Classify(Quantized(2)).model_class, ModelClass::kTwoIsland);
  EXPECT_EQ(Classify(Quantized(3)).model_class, ModelClass::kTwoIsland);
  EXPECT_EQ(Classify(Quantized(4)).model_class, ModelClass::kMultiIsland);
  EXPECT_EQ(Classify(graph::Analysis()).model_class, ModelClass::kPureFloat);
}

TEST(ClassificationTest, SpecializedWhateverElseHolds) {
  graph::Analysis analysis = Quantized(4);
  analysis.state = graph::ModelState::kSpecialized;
  analysis.operators = {{"Conv", 3}, {"com.amd.quark.ExtendedQuantizeLinear", 2}};
  EXPECT_EQ(Classify(analysis).model_class, ModelClass::kSpecialized);
  EXPECT_FALSE(Classify(analysis).has_mx);
  analysis.operators["com.amd.quark.MXQuantizeDequantize"] = 1;
  EXPECT_TRUE(Classify(analysis).has_mx);
}

TEST(ClassificationTest, SaysWhy) {
  const Classification c = Classify(Quantized(2));
  ASSERT_EQ(c.reasons.size(), 2U);
  EXPECT_EQ(c.reasons[0], "8 of 10 compute layers are quantized");
  EXPECT_EQ(c.reasons[1], "2 float islands");
}

}  // namespace
}  // namespace gq::compile
