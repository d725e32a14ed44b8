// What decides whether a pass is kept, and what a rewritten model says of itself.
#include <cmath>

#include "common/base/status.h"
#include "common/quantize/recover/held_out.h"
#include "common/quantize/recover/proving_ground.h"
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

// `count` samples of one value, their number.
absl::StatusOr<std::vector<SampleFold>> FoldsOf(int count) {
  const graph::Model model = ParseModel(R"(
<ir_version: 8, opset_import: ["" : 17]>
net (float[1] x) => (float[1] y) { y = Relu (x) }
)");
  std::vector<Sample> samples;
  for (int i = 0; i < count; ++i) {
    samples.push_back({runtime::Tensor::Of<float>({1}, std::vector<float>{static_cast<float>(i)})});
  }
  GQ_ASSIGN_OR_RETURN(const auto specs, runtime::InputSpecs(model));
  GQ_ASSIGN_OR_RETURN(const auto data, runtime::DataSet::FromSamples(samples, specs));
  return ReadSamples(*data, 100);
}

std::vector<float> Numbers(const std::vector<Sample>& part) {
  std::vector<float> values;
  for (const Sample& sample : part) values.push_back(sample[0].As<float>()[0]);
  return values;
}

TEST(SamplesTest, ThreeOfEightAreHeldOutAndOfFewThreeOthersToo) {
  const auto folds = FoldsOf(8);
  ASSERT_TRUE(folds.ok());
  ASSERT_EQ(folds->size(), 2u);
  EXPECT_THAT(Numbers((*folds)[0].held_out), ElementsAre(1, 4, 6));
  EXPECT_THAT(Numbers((*folds)[0].fit), ElementsAre(0, 2, 3, 5, 7));
  EXPECT_THAT(Numbers((*folds)[1].held_out), ElementsAre(0, 3, 5));
  EXPECT_THAT(Numbers((*folds)[1].fit), ElementsAre(1, 2, 4, 6, 7));
}

TEST(SamplesTest, OneFoldWhereThereAreManyOrHardlyAny) {
  EXPECT_EQ(FoldsOf(19)->size(), 2u);
  EXPECT_EQ(FoldsOf(20)->size(), 1u);
  EXPECT_EQ((*FoldsOf(24))[0].held_out.size(), 9u);
  EXPECT_EQ(FoldsOf(5)->size(), 1u);
  const auto one = FoldsOf(1);
  EXPECT_THAT(Numbers((*one)[0].fit), ElementsAre(0));
  EXPECT_THAT(Numbers((*one)[0].held_out), ElementsAre(0));
}

// Each fold is measured with the model of its own fit: here one that is off by as much as the fit
// has samples.
TEST(ProvingGroundTest, PutsTheFoldsTogether) {
  const auto net = [](float offset) {
    return ParseModel(R"(
<ir_version: 8, opset_import: ["" : 17]>
net (float[1] x) => (float[1] y) { y = Add (x, c) }
)",
                      {{"c", {{1}, {offset}}}});
  };
  const auto sample = [](float value) {
    return Sample{runtime::Tensor::Of<float>({1}, std::vector<float>{value})};
  };
  std::vector<SampleFold> folds(2);
  folds[0] = {.fit = {sample(1), sample(2)}, .held_out = {sample(5)}};
  folds[1] = {.fit = {sample(5), sample(1), sample(4)}, .held_out = {sample(2), sample(3)}};
  const auto ground = ProvingGround::Create(net(0), folds, 2);
  ASSERT_TRUE(ground.ok()) << ground.status();
  const auto errors = ground->MeasureFitted([&](const std::vector<Sample>& fit) {
    return absl::StatusOr<graph::Model>(net(static_cast<float>(fit.size())));
  });
  ASSERT_TRUE(errors.ok()) << errors.status();
  ASSERT_EQ(errors->size(), 1u);
  const OutputError& error = (*errors)[0];
  ASSERT_EQ(error.noise.size(), ground->samples());
  EXPECT_FLOAT_EQ(static_cast<float>(error.noise[0]), 4);
  EXPECT_FLOAT_EQ(static_cast<float>(error.signal[0]), 25);
  for (size_t i = 1; i < error.noise.size(); ++i) {
    EXPECT_NEAR(error.noise[i], 9, 1e-4) << i;
  }
  const graph::Model first = net(7);
  const auto given = ground->MeasureFitted(
      [&](const std::vector<Sample>&) { return absl::StatusOr<graph::Model>(net(0)); }, &first);
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_FLOAT_EQ(static_cast<float>((*given)[0].noise[0]), 49);
  EXPECT_FLOAT_EQ(static_cast<float>((*given)[0].noise[1]), 0);
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
