// The CPU's stand-in for bfloat16 and float16 arithmetic: exact values from a calculation here, and
// all forms of a file give the same figures.
#include "common/quantize/reduced_precision.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "common/graph/tensor_view.h"
#include "common/quantize/mixed_precision.h"
#include "common/quantize/presets.h"
#include "common/quantize/scheme.h"
#include "common/runtime/session.h"
#include "gmock/gmock.h"
#include "tests/common/quantize/quantize_fixture.h"

namespace gq::quantize {
namespace {

using onnx::TensorProto;
using testing::ElementsAreArray;
using testing::HasSubstr;

// Rounding half to even of the upper 16 bits, as the definition of bfloat16 says.
float ToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t lower = bits & 0xFFFF;
  bits >>= 16;
  if (lower > 0x8000 || (lower == 0x8000 && (bits & 1) != 0)) ++bits;
  bits <<= 16;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

// 11 significant bits, for values within the normal range of float16.
float ToFp16(float value) {
  int exponent = 0;
  const float mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 11)), exponent - 11);
}

std::vector<float> Values(int64_t count, float scale, uint32_t seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values.push_back(scale * (static_cast<float>(seed >> 8) / 8388608.0f - 1));
  }
  return values;
}

std::vector<float> RunOn(const graph::Model& model, const std::vector<float>& x) {
  runtime::SessionOptions options;
  options.optimization = runtime::OptimizationLevel::kBasic;
  const auto session = runtime::Session::Create(model, options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  std::vector<runtime::Tensor> outputs;
  const std::vector<runtime::Tensor> inputs = {
      runtime::Tensor::Of<float>({1, static_cast<int64_t>(x.size())}, x)};
  EXPECT_TRUE(session->Run(inputs, &outputs).ok());
  const auto values = outputs[0].As<float>();
  return {values.begin(), values.end()};
}

graph::Model Product(const std::vector<float>& factor) {
  return ParseModel(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,64] x) => (float[1,64] y) {
      [mul] m = Mul(x, factor)
      [exp] y = Exp(m)
    })",
                    {{"factor", {{64}, factor}}});
}

TEST(ReducedPrecisionTest, EveryTensorIsRoundedOnItsWay) {
  const std::vector<float> x = Values(64, 3, 1);
  const std::vector<float> factor = Values(64, 1, 2);
  for (const auto type : {TensorProto::BFLOAT16, TensorProto::FLOAT16}) {
    const auto round = type == TensorProto::BFLOAT16 ? ToBf16 : ToFp16;
    const auto reduced = ReducedPrecisionReference(Product(factor), type);
    ASSERT_TRUE(reduced.ok()) << reduced.status();
    EXPECT_EQ(reduced->tensors, 3);  // x, m, y
    EXPECT_EQ(reduced->constants, 1);
    const std::vector<float> y = RunOn(reduced->model, x);
    ASSERT_EQ(y.size(), x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const float m = round(round(x[i]) * round(factor[i]));
      EXPECT_NEAR(y[i], round(std::exp(m)),
                  std::fabs(y[i]) / (type == TensorProto::BFLOAT16 ? 128 : 1024));
      EXPECT_EQ(y[i], round(y[i])) << "the output is not a value of the type";
    }
  }
}

TEST(ReducedPrecisionTest, RoundingSurvivesTheOptimizer) {
  const graph::Model model = ParseModel(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,64] x) => (float[1,64] y) {
      [double] m = Add(x, x)
      [minus] y = Sub(m, x)
    })");
  const std::vector<float> x = Values(64, 3, 3);
  for (const auto type : {TensorProto::BFLOAT16, TensorProto::FLOAT16}) {
    const auto round = type == TensorProto::BFLOAT16 ? ToBf16 : ToFp16;
    const auto reduced = ReducedPrecisionReference(model, type);
    ASSERT_TRUE(reduced.ok());
    std::vector<float> expected;
    for (const float value : x) expected.push_back(round(round(2 * round(value)) - round(value)));
    EXPECT_THAT(RunOn(reduced->model, x), ElementsAreArray(expected));
  }
}

TEST(ReducedPrecisionTest, LargeConstantsStayFinite) {
  std::vector<float> factor(64, 1);
  factor[0] = std::numeric_limits<float>::max();
  factor[1] = -1e5f;
  const auto bf16 = ReducedPrecisionReference(Product(factor), TensorProto::BFLOAT16);
  const auto fp16 = ReducedPrecisionReference(Product(factor), TensorProto::FLOAT16);
  ASSERT_TRUE(bf16.ok() && fp16.ok());
  const auto at = [](const graph::Model& model, int64_t i) {
    return model.Data(*model.FindInitializer("factor"))->At(i);
  };
  EXPECT_FLOAT_EQ(at(bf16->model, 0), 3.38953139e38f);
  EXPECT_FLOAT_EQ(at(fp16->model, 0), 65504);
  EXPECT_FLOAT_EQ(at(fp16->model, 1), -65504);
}

// Two Conv layers and a sum, weights from a fixed sequence.
graph::Model Network() {
  return ParseModel(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,8,8] x) => (float[1,8,8,8] y) {
      [c1] a = Conv <kernel_shape = [3,3], pads = [1,1,1,1]> (x, w1, b1)
      [r1] b = Relu(a)
      [c2] c = Conv <kernel_shape = [3,3], pads = [1,1,1,1]> (b, w2, b2)
      [r2] d = Relu(c)
      [c3] e = Conv <kernel_shape = [1,1]> (d, w3, b3)
      [sum] y = Add(e, d)
    })",
                    {{"w1", {{8, 4, 3, 3}, Values(8 * 36, 0.3f, 5)}},
                     {"b1", {{8}, Values(8, 0.3f, 6)}},
                     {"w2", {{8, 8, 3, 3}, Values(8 * 72, 0.2f, 7)}},
                     {"b2", {{8}, Values(8, 0.3f, 8)}},
                     {"w3", {{8, 8, 1, 1}, Values(64, 0.4f, 9)}},
                     {"b3", {{8}, Values(8, 0.3f, 10)}}});
}

TEST(ReducedPrecisionTest, AllFormsOfBf16GiveTheSameFigures) {
  const graph::Model model = Network();
  QuantizeConfig extended = QuarkBf16();
  QuantizeConfig rounded = QuarkBf16();
  rounded.options.enable_vaiml_bf16 = true;
  const auto cast_form = QuantizeWith(model, *ConfigOfScheme("bf16"));
  const auto extended_form = QuantizeWith(model, extended);
  const auto rounded_form = QuantizeWith(model, rounded);
  ASSERT_TRUE(cast_form.ok() && extended_form.ok() && rounded_form.ok());
  EXPECT_FALSE(FindHiddenPrecision(cast_form->model).any());
  const HiddenPrecision pairs = FindHiddenPrecision(extended_form->model);
  EXPECT_TRUE(pairs.extended_pairs);
  EXPECT_THAT(pairs.reason, HasSubstr("com.amd.quark"));
  const HiddenPrecision weights = FindHiddenPrecision(rounded_form->model);
  EXPECT_EQ(weights.float_tensors, TensorProto::BFLOAT16);

  const Outputs expected = *RunModel(cast_form->model);
  const double cast_snr = SignalToNoise(*RunModel(model), expected);
  EXPECT_GT(cast_snr, 40);
  const auto standard = ReducedPrecisionReference(extended_form->model, pairs.float_tensors);
  ASSERT_TRUE(standard.ok());
  EXPECT_GT(standard->pairs, 0);
  EXPECT_EQ(*RunModel(standard->model), expected);
  const auto shown = ReducedPrecisionReference(rounded_form->model, weights.float_tensors);
  ASSERT_TRUE(shown.ok());
  EXPECT_EQ(*RunModel(shown->model), expected);
  // From the float model itself: what a dry run reports.
  EXPECT_EQ(*RunModel(ReducedPrecisionReference(model, TensorProto::BFLOAT16)->model), expected);
}

TEST(ReducedPrecisionTest, FloatIslandsSayWhatTheyBecome) {
  const graph::Model model = Network();
  QuantizeConfig config = *ConfigOfScheme("vint8+fp16");
  const std::vector<std::string> layers = {"c3", "sum"};
  PromoteNodes(layers, TensorProto::FLOAT16, MixedForm::kFloat, &config);
  const auto result = QuantizeWith(model, config);
  ASSERT_TRUE(result.ok()) << result.status();
  const HiddenPrecision hidden = FindHiddenPrecision(result->model);
  EXPECT_EQ(hidden.float_tensors, TensorProto::FLOAT16);
  EXPECT_THAT(hidden.reason, HasSubstr("FP16"));
  const auto reduced = ReducedPrecisionReference(result->model, hidden.float_tensors);
  ASSERT_TRUE(reduced.ok());
  // e and y; nothing inside the two int8 layers (a, b, c, d) and no result of a DQ.
  EXPECT_EQ(reduced->tensors, 2);
  EXPECT_EQ(reduced->constants, 2);  // w3 and b3
  const Outputs plain = *RunModel(result->model);
  const Outputs shown = *RunModel(reduced->model);
  EXPECT_NE(plain, shown);
  EXPECT_GT(SignalToNoise(plain, shown), 55);
}

TEST(ReducedPrecisionTest, CastFormAndFloatFormAgree) {
  const graph::Model model = Network();
  const std::vector<std::string> layers = {"c3", "sum"};
  QuantizeConfig floats = *ConfigOfScheme("vint8+bf16");
  QuantizeConfig casts = *ConfigOfScheme("vint8+bf16", MixedForm::kCast);
  PromoteNodes(layers, TensorProto::BFLOAT16, MixedForm::kFloat, &floats);
  PromoteNodes(layers, TensorProto::BFLOAT16, MixedForm::kCast, &casts);
  const auto float_form = QuantizeWith(model, floats);
  const auto cast_form = QuantizeWith(model, casts);
  ASSERT_TRUE(float_form.ok() && cast_form.ok()) << cast_form.status();
  EXPECT_FALSE(FindHiddenPrecision(cast_form->model).any());
  const auto reduced = ReducedPrecisionReference(float_form->model, TensorProto::BFLOAT16);
  const Outputs reference = *RunModel(model);
  // The int8 layers differ: only the float form is aligned to the NPU.
  EXPECT_NEAR(SignalToNoise(reference, *RunModel(reduced->model)),
              SignalToNoise(reference, *RunModel(cast_form->model)), 4);
}

TEST(ReducedPrecisionTest, OutputsThatAreInputsAndBodiesAreLeft) {
  const graph::Model model = ParseModel(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4] x, bool c) => (float[1,4] y) {
      [if] m = If (c) <
        then_branch = t () => (float[1,4] a) { a = Relu(x) },
        else_branch = e () => (float[1,4] b) { b = Neg(x) }>
      [exp] y = Exp(m)
    })");
  const auto reduced = ReducedPrecisionReference(model, TensorProto::BFLOAT16);
  ASSERT_TRUE(reduced.ok()) << reduced.status();
  ASSERT_EQ(reduced->notes.size(), 1u);
  EXPECT_THAT(reduced->notes[0], HasSubstr("If and Loop"));
  EXPECT_TRUE(RunModel(reduced->model).ok());
}

}  // namespace
}  // namespace gq::quantize
