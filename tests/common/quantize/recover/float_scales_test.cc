// Recovery of schemes with float scales: one scale an output, ranges by what comes out.
#include <cmath>

#include "common/base/status.h"
#include "common/quantize/recover/recover.h"
#include "common/quantize/scheme.h"
#include "tests/common/quantize/quantize_fixture.h"

namespace gq::quantize {
namespace {

std::vector<float> Wave(size_t count, double step, float scale) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(scale *
                     static_cast<float>(std::sin(step * static_cast<double>(i * i + 7 * i + 1))));
  }
  return values;
}

graph::Model Net() {
  return ParseModel(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,3,12,12] x) => (float[1,5,6,6] y) {
      [c1] a = Conv <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]> (x, w1, b1)
      [r1] b = Relu (a)
      [c2] c = Conv <kernel_shape = [3,3], pads = [1,1,1,1], group = 8> (b, w2, b2)
      [c3] y = Conv <kernel_shape = [1,1]> (c, w3, b3)
    })",
                    {{"w1", {{8, 3, 3, 3}, Wave(216, 0.37, 0.4f)}},
                     {"b1", {{8}, Wave(8, 0.11, 0.5f)}},
                     {"w2", {{8, 1, 3, 3}, Wave(72, 0.53, 0.7f)}},
                     {"b2", {{8}, Wave(8, 0.29, 0.5f)}},
                     {"w3", {{5, 8, 1, 1}, Wave(40, 0.71, 0.9f)}},
                     {"b3", {{5}, Wave(5, 0.17, 0.5f)}}});
}

using Samples = std::vector<std::vector<runtime::Tensor>>;

// With `spike` every sample holds one value far beyond the others.
Samples MakeSamples(int count, float spike = 0) {
  Samples samples;
  for (int i = 0; i < count; ++i) {
    std::vector<float> values = Wave(3 * 12 * 12, 0.013 + 0.0007 * i, 1);
    if (spike != 0) values[static_cast<size_t>(i * 7 % 400)] = spike;
    samples.push_back({runtime::Tensor::Of<float>({1, 3, 12, 12}, values)});
  }
  return samples;
}

absl::StatusOr<QuantizeResult> Recover(const graph::Model& model, const Samples& samples,
                                       const std::string& scheme, const std::string& passes) {
  GQ_ASSIGN_OR_RETURN(const auto specs, runtime::InputSpecs(model));
  GQ_ASSIGN_OR_RETURN(const auto data, runtime::DataSet::FromSamples(samples, specs));
  GQ_ASSIGN_OR_RETURN(const QuantizeConfig config, ConfigOfScheme(scheme));
  GQ_ASSIGN_OR_RETURN(const RecoverOptions options, ParseRecover(passes));
  base::NullReporter reporter;
  return QuantizeWithRecovery(model, config, options, *data, reporter);
}

std::vector<double> Values(const graph::Model& model, const std::string& name) {
  const onnx::TensorProto* tensor = model.FindInitializer(name);
  EXPECT_NE(tensor, nullptr) << name;
  return tensor == nullptr ? std::vector<double>() : *model.Data(*tensor)->ToDoubles();
}

TEST(FloatScalesTest, RoundingFitsLayersOfOneScaleAnOutput) {
  const graph::Model model = Net();
  for (const char* scheme : {"W8-A8", "W8-A16"}) {
    const auto plain = Recover(model, MakeSamples(16), scheme, "none");
    const auto recovered = Recover(model, MakeSamples(16), scheme, "rounding");
    ASSERT_TRUE(plain.ok()) << plain.status();
    ASSERT_TRUE(recovered.ok()) << recovered.status();
    const auto& pass = recovered->report["recovery"]["passes"][0];
    EXPECT_EQ(pass["name"], "rounding");
    EXPECT_EQ(pass["changed"], 3) << scheme;
    EXPECT_GT(pass["gain_db"].get<double>(), 0) << scheme;
    for (const char* scale : {"w1_scale", "w2_scale", "w3_scale", "b1_quantized_scale"}) {
      EXPECT_EQ(Values(plain->model, scale), Values(recovered->model, scale)) << scale;
    }
    EXPECT_EQ(Values(recovered->model, "w3_scale").size(), 5u);
  }
}

TEST(FloatScalesTest, FittedBiasesAreInUnitsOfInputTimesWeight) {
  const graph::Model model = Net();
  const auto recovered = Recover(model, MakeSamples(16), "W8-A8", "rounding");
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  ASSERT_EQ(recovered->report["recovery"]["passes"][0]["kept"], true);
  const auto integers = Values(recovered->model, "b3_quantized");
  const auto scales = Values(recovered->model, "b3_quantized_scale");
  const auto floats = Values(model, "b3");
  ASSERT_EQ(integers.size(), 5u);
  ASSERT_EQ(scales.size(), 5u);
  for (size_t i = 0; i < floats.size(); ++i) {
    EXPECT_NEAR(integers[i] * scales[i], floats[i], 0.1);
  }
}

TEST(FloatScalesTest, RangesAreCutWhereThatHelps) {
  const graph::Model model = Net();
  const auto cut = Recover(model, MakeSamples(16, 60), "W8-A8", "ranges");
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(cut->report["recovery"]["passes"][0]["name"], "ranges");
  // Power-of-two scales have no percentiles to choose from.
  const auto other = Recover(model, MakeSamples(16), "vint8", "ranges");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->report["recovery"]["passes"][0]["changed"], 0);
}

}  // namespace
}  // namespace gq::quantize
