// What decides whether a pass is kept, and what a rewritten model says of itself.
#include <cmath>

#include "common/quantize/recover/held_out.h"
#include "common/quantize/recover/recovery_samples.h"
#include "common/quantize/recover/rescaled.h"
#include "gmock/gmock.h"
#include "tests/common/quantize/quantize_fixture.h"

namespace gq::quantize {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

TEST(GainTest, HalfTheNoiseOnEverySampleIsThreeDecibelsForSure) {
  const OutputErrors before = {{.signal = {1, 1}, .noise = {0.1, 0.1}}};
  const OutputErrors after = {{.signal = {1, 1}, .noise = {0.05, 0.05}}};
  const Gain gain = GainOf(before, after);
  EXPECT_NEAR(gain.decibels, 10 * std::log10(2), 1e-9);
  EXPECT_NEAR(gain.standard_error, 0, 1e-6);
}

// Without the first sample 10 log10(1 / 0.09) - 10 = 0.458 dB, without the second 20 - 10 = 10 dB:
// they stand sqrt(((10 - 5.229)^2 + (5.229 - 0.458)^2) / 2) = 4.771 around their mean.
TEST(GainTest, AGainThatOneSampleMakesIsUncertain) {
  const OutputErrors before = {{.signal = {1, 1}, .noise = {0.1, 0.1}}};
  const OutputErrors after = {{.signal = {1, 1}, .noise = {0.01, 0.09}}};
  const Gain gain = GainOf(before, after);
  EXPECT_NEAR(gain.decibels, 10 * std::log10(2), 1e-9);
  const double first = 10 * std::log10(1 / 0.09) - 10, second = 10;
  EXPECT_NEAR(gain.standard_error, (second - first) / 2, 1e-6);
}

TEST(GainTest, DecibelsAreHeldAndPooled) {
  const OutputError error = {.signal = {9, 1}, .noise = {0, 0.1}};
  EXPECT_DOUBLE_EQ(error.Decibels(), 20);
  EXPECT_DOUBLE_EQ(error.Decibels(1), 60);  // no noise at all
  EXPECT_DOUBLE_EQ(error.Decibels(0), 10);
}

TEST(SamplesTest, ThreeOfEightAreHeldOut) {
  const graph::Model model = ParseModel(R"(
<ir_version: 8, opset_import: ["" : 17]>
net (float[1] x) => (float[1] y) { y = Relu (x) }
)");
  std::vector<Sample> samples;
  for (int i = 0; i < 8; ++i) {
    samples.push_back({runtime::Tensor::Of<float>({1}, std::vector<float>{static_cast<float>(i)})});
  }
  const auto specs = runtime::InputSpecs(model);
  ASSERT_TRUE(specs.ok());
  const auto data = runtime::DataSet::FromSamples(samples, *specs);
  ASSERT_TRUE(data.ok());
  const auto split = ReadSamples(**data, 100);
  ASSERT_TRUE(split.ok());
  const auto numbers = [](const std::vector<Sample>& part) {
    std::vector<float> values;
    for (const Sample& sample : part) values.push_back(sample[0].As<float>()[0]);
    return values;
  };
  EXPECT_THAT(numbers(split->held_out), ElementsAre(1, 4, 6));
  EXPECT_THAT(numbers(split->fit), ElementsAre(0, 2, 3, 5, 7));
}

TEST(RescaledTest, WhatHoldsOtherValuesIsNamedInTheModel) {
  constexpr char kNet[] = R"(
<ir_version: 8, opset_import: ["" : 17]>
net (float[1,2] x) => (float[1,2] y)
{
  a = Gemm (x, w1)
  b = Relu (a)
  y = Gemm (b, w2)
}
)";
  const graph::Model before =
      ParseModel(kNet, {{"w1", {{2, 2}, {1, 0, 0, 1}}}, {"w2", {{2, 2}, {1, 2, 3, 4}}}});
  graph::Model after =
      ParseModel(kNet, {{"w1", {{2, 2}, {2, 0, 0, 2}}}, {"w2", {{2, 2}, {0.5f, 1, 1.5f, 2}}}});
  const auto names = RescaledTensors(
      before, after, {runtime::Tensor::Of<float>({1, 2}, std::vector<float>{1, 2})});
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_THAT(*names, UnorderedElementsAre("w1", "w2", "a", "b"));
  EXPECT_TRUE(ReadRescaled(after).empty());
  WriteRescaled(*names, &after);
  EXPECT_EQ(ReadRescaled(after), *names);
}

}  // namespace
}  // namespace gq::quantize
