#include "common/accuracy/evaluate.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/accuracy/evaluation_json.h"
#include "common/base/status.h"
#include "common/graph/model.h"
#include "common/runtime/data_set.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx/defs/parser.h"

namespace gq::accuracy {
namespace {

using base::Reason;
using runtime::Tensor;
using testing::HasSubstr;

graph::Model Parse(const std::string& body, int opset = 17) {
  onnx::ModelProto proto;
  const std::string text =
      "<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset) + "]>\n" + body;
  const auto status = onnx::OnnxParser::Parse(proto, text.c_str());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  auto model = graph::Model::FromProto(std::move(proto));
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

// y = x * k + b of four values.
graph::Model Affine(const std::string& k, const std::string& b) {
  return Parse("g (float[1,4] x) => (float[1,4] y) <float k = {" + k + "}, float b = {" + b +
               "}> { t = Mul(x, k) y = Add(t, b) }");
}

std::unique_ptr<runtime::DataSet> Data(const graph::Model& model,
                                       const std::vector<std::vector<float>>& samples) {
  const auto specs = runtime::InputSpecs(model);
  EXPECT_TRUE(specs.ok()) << specs.status();
  std::vector<std::vector<Tensor>> tensors;
  for (const auto& sample : samples) {
    tensors.push_back({Tensor::Of<float>((*specs)[0].shape, sample)});
  }
  auto data = runtime::DataSet::FromSamples(std::move(tensors), *specs);
  EXPECT_TRUE(data.ok()) << data.status();
  return *std::move(data);
}

absl::StatusOr<Evaluation> Compare(const graph::Model& reference, const graph::Model& candidate,
                                   const std::vector<std::vector<float>>& samples,
                                   const EvaluateOptions& options = {}) {
  auto data = Data(reference, samples);
  base::NullReporter reporter;
  return Evaluate(reference, candidate, *data, options, reporter);
}

TEST(EvaluateTest, ComparesTwoModelsSampleBySample) {
  const auto evaluation =
      Compare(Affine("1", "0"), Affine("1", "0.125"), {{1, 2, 3, 4}, {-4, -3, -2, -1}});
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  ASSERT_EQ(evaluation->outputs.size(), 1u);
  const OutputFigures& f = evaluation->outputs[0].figures;
  EXPECT_EQ(evaluation->samples, 2);
  EXPECT_EQ(f.elements, 8);
  EXPECT_NEAR(f.mse, 0.015625, 1e-12);
  EXPECT_NEAR(f.psnr_db, 10 * std::log10(16 / 0.015625), 1e-9);
  EXPECT_NEAR(f.snr_db, 10 * std::log10((60 / 8.0) / 0.015625), 1e-9);
  EXPECT_EQ(evaluation->verdict.result, VerdictResult::kGoalNotMet);
  EXPECT_TRUE(evaluation->verdict.default_goal);
}

TEST(EvaluateTest, FiguresDoNotDependOnHowManySamplesRunAtOnce) {
  std::vector<std::vector<float>> samples;
  for (int i = 0; i < 13; ++i) {
    samples.push_back({i * 0.37f, std::sin(i * 1.0f), 3.0f / (i + 1), -1.0f * i});
  }
  const graph::Model reference = Affine("1.7", "0.3"), candidate = Affine("1.69", "0.31");
  EvaluateOptions options;
  const auto one = Compare(reference, candidate, samples, options);
  options.parallel_samples = 4;
  const auto four = Compare(reference, candidate, samples, options);
  ASSERT_TRUE(one.ok() && four.ok());
  EXPECT_EQ(one->outputs[0].figures.mse, four->outputs[0].figures.mse);
  EXPECT_EQ(one->outputs[0].figures.kurtosis_ratio, four->outputs[0].figures.kurtosis_ratio);
  EXPECT_EQ(four->samples, 13);
}

TEST(EvaluateTest, ReadsTheStepOfAQuantizedOutput) {
  const graph::Model quantized = Parse(
      "g (float[1,4] x) => (float[1,4] y) <float s = {0.25}, int8 z = {0}> "
      "{ q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = Identity(d) }");
  const graph::Model reference = Parse("g (float[1,4] x) => (float[1,4] y) { y = Identity(x) }");
  const auto evaluation = Compare(reference, quantized, {{1, 2, 30, 0.1f}});
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_EQ(evaluation->outputs[0].quantization_step, 0.25);
  // Half a step is 0.125; only the element 30 has a tolerance of at least that.
  EXPECT_EQ(evaluation->outputs[0].figures.step_allows_pass_rate, 25);
  EXPECT_FALSE(evaluation->outputs[0].PassRateDecides());
}

// With its kernels fused, ONNX Runtime would compute MatMul in integers and round differently.
TEST(EvaluateTest, KeepsQdqInFloatArithmetic) {
  const graph::Model candidate = Parse(
      "g (float[1,2] x) => (float[1,1] y) "
      "<float s = {0.5}, int8 z = {0}, int8[2,1] w = {3, 1}, float ws = {0.1}, int8 wz = {0}> "
      "{ q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) "
      "  wd = DequantizeLinear(w, ws, wz) y = MatMul(d, wd) }");
  const graph::Model reference =
      Parse("g (float[1,2] x) => (float[1,1] y) <float[2,1] w = {0.3, 0.1}> { y = MatMul(x, w) }");
  const auto evaluation = Compare(reference, candidate, {{1, 2}});
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_LT(evaluation->outputs[0].figures.max_abs, 1e-6);
}

TEST(EvaluateTest, JudgesClassesByTheWinner) {
  EvaluateOptions options;
  options.task = graph::TaskType::kClassification;
  const auto evaluation =
      Compare(Affine("1", "0"), Affine("10", "5"), {{1, 2, 3, 4}, {4, 3, 2, 1}}, options);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  ASSERT_TRUE(evaluation->outputs[0].classes);
  EXPECT_EQ(evaluation->outputs[0].classes->agreement, 100);
  EXPECT_EQ(evaluation->verdict.result, VerdictResult::kGoalMet);
}

TEST(EvaluateTest, LabelsGiveTrueAccuracy) {
  EvaluateOptions options;
  options.task = graph::TaskType::kClassification;
  options.labels = std::vector<int64_t>{3, 1};
  const auto evaluation =
      Compare(Affine("1", "0"), Affine("-1", "0"), {{1, 2, 3, 4}, {4, 3, 2, 1}}, options);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_EQ(evaluation->outputs[0].classes->reference_top1, 50);
  EXPECT_EQ(evaluation->outputs[0].classes->top1, 0);
}

TEST(EvaluateTest, RefusesLabelsThatDoNotFit) {
  EvaluateOptions options;
  options.labels = std::vector<int64_t>{0, 1, 2};
  auto evaluation = Compare(Affine("1", "0"), Affine("1", "0"), {{1, 2, 3, 4}}, options);
  EXPECT_EQ(base::GetReason(evaluation.status()), Reason::kDataShapeMismatch);
  options.labels = std::vector<int64_t>{4};
  evaluation = Compare(Affine("1", "0"), Affine("1", "0"), {{1, 2, 3, 4}}, options);
  EXPECT_EQ(base::GetReason(evaluation.status()), Reason::kDataInvalid);
  EXPECT_THAT(std::string(evaluation.status().message()), HasSubstr("4 classes"));
}

TEST(EvaluateTest, RefusesATargetThatNoOutputCanHave) {
  const graph::Model one = Parse("g (float[1,1] x) => (float[1,1] y) { y = Identity(x) }");
  EvaluateOptions options;
  options.targets = *ParseTargets({"top1>=90%"});
  const auto evaluation = Compare(one, one, {{1}}, options);
  EXPECT_EQ(base::GetReason(evaluation.status()), Reason::kTargetInvalid);
}

TEST(EvaluateTest, RefusesACandidateWithOtherOutputsOrInputs) {
  const graph::Model reference = Affine("1", "0");
  const graph::Model other_output =
      Parse("g (float[1,4] x) => (float[1,4] y, float[1,4] z) { y = Identity(x) z = Neg(x) }");
  const auto evaluation = Compare(other_output, reference, {{1, 2, 3, 4}});
  EXPECT_EQ(base::GetReason(evaluation.status()), Reason::kModelInvalid);
  EXPECT_THAT(std::string(evaluation.status().message()), HasSubstr("'z'"));
  const graph::Model other_input = Parse("g (float[1,3] x) => (float[1,3] y) { y = Identity(x) }");
  EXPECT_EQ(base::GetReason(Compare(reference, other_input, {{1, 2, 3, 4}}).status()),
            Reason::kModelInvalid);
}

TEST(EvaluateTest, ReportsNanOfTheCandidate) {
  const graph::Model reference = Affine("1", "0");
  const graph::Model candidate =
      Parse("g (float[1,4] x) => (float[1,4] y) <float o = {0}> { t = Div(x, o) y = Mul(t, o) }");
  const auto evaluation = Compare(reference, candidate, {{1, 2, 3, 4}});
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_EQ(evaluation->verdict.result, VerdictResult::kGoalNotMet);
  EXPECT_FALSE(evaluation->warnings.empty());
}

TEST(EvaluateTest, JsonSpellsWhatItHasNoNumbersFor) {
  const auto evaluation = Compare(Affine("1", "0"), Affine("1", "0"), {{1, 2, 3, 4}});
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  const nlohmann::json j = EvaluationJson(*evaluation);
  EXPECT_EQ(j["outputs"][0]["psnr_db"], "inf");
  EXPECT_EQ(j["outputs"][0]["pass_rate"], 100);
  EXPECT_EQ(j["verdict"]["result"], "goal_met");
  EXPECT_EQ(j["task"], "regression");
}

// Of four pixels the first changes sides: 0.6 to 0.4 as a share, 0.1 to -0.1 as a logit.
TEST(EvaluateTest, AMaskHasTwoClassesAPixel) {
  EvaluateOptions options;
  options.task = graph::TaskType::kSegmentation;
  const auto mask = [](const std::string& shift) {
    return Parse("g (float[1,1,2,2] x) => (float[1,1,2,2] y) <float b = {" + shift +
                 "}> { y = Sub(x, b) }");
  };
  for (const auto& [shift, pixels] :
       {std::pair<std::string, std::vector<float>>{"0.2", {0.6F, 0.9F, 0.3F, 1.0F}},
        std::pair<std::string, std::vector<float>>{"0.2", {0.1F, 4.0F, -3.0F, 2.0F}}}) {
    auto result = Compare(mask("0"), mask(shift), {pixels}, options);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_TRUE(result->outputs[0].classes.has_value());
    EXPECT_EQ(result->outputs[0].classes->rows, 4);
    EXPECT_EQ(result->outputs[0].classes->agreement, 75);
    EXPECT_EQ(result->verdict.result, VerdictResult::kGoalNotMet);
    EXPECT_THAT(result->verdict.reason, HasSubstr("75.00 % of the pixels"));
  }
}

}  // namespace
}  // namespace gq::accuracy
