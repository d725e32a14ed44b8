#include "common/accuracy/verdict.h"

#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gq::accuracy {
namespace {

using graph::TaskType;
using testing::HasSubstr;

OutputReport Regression(double psnr, double pass_rate, double step_allows = 100) {
  OutputReport output;
  output.name = "y";
  output.figures.psnr_db = psnr;
  output.figures.pass_rate = pass_rate;
  output.figures.step_allows_pass_rate = step_allows;
  return output;
}

OutputReport Classes(double agreement, int64_t rows) {
  OutputReport output;
  output.name = "scores";
  output.figures.psnr_db = 5;
  output.classes = ClassFigures{.rows = rows, .agreement = agreement};
  return output;
}

VerdictResult Default(TaskType task, std::vector<OutputReport> outputs) {
  return JudgeByTask(task, outputs, std::nullopt).result;
}

TEST(VerdictTest, RegressionNeedsPsnrAndPassRate) {
  EXPECT_EQ(Default(TaskType::kRegression, {Regression(30, 99.9)}), VerdictResult::kGoalMet);
  EXPECT_EQ(Default(TaskType::kRegression, {Regression(29.99, 100)}), VerdictResult::kGoalNotMet);
  EXPECT_EQ(Default(TaskType::kRegression, {Regression(50, 99.89)}), VerdictResult::kGoalNotMet);
}

TEST(VerdictTest, EveryOutputHasToHold) {
  EXPECT_EQ(Default(TaskType::kRegression, {Regression(40, 100), Regression(20, 100)}),
            VerdictResult::kGoalNotMet);
}

// Of several outputs each is judged by its kind: class scores of a sample by the winner, whatever
// their PSNR; those of places by their values.
TEST(VerdictTest, SeveralOutputsAreJudgedEachByItsKind) {
  OutputReport scores = Classes(100, 50);
  scores.figures.samples = 50;
  EXPECT_EQ(Default(TaskType::kRegression, {scores, Regression(40, 100)}), VerdictResult::kGoalMet);
  EXPECT_EQ(Default(TaskType::kRegression, {scores, Regression(29, 100)}),
            VerdictResult::kGoalNotMet);
  scores.classes->agreement = 98;
  const std::vector<OutputReport> outputs = {scores, Regression(40, 100)};
  const Judgement judgement = JudgeByTask(TaskType::kRegression, outputs, std::nullopt);
  EXPECT_EQ(judgement.result, VerdictResult::kGoalNotMet);
  EXPECT_THAT(judgement.reason, HasSubstr("'scores' has the same top-1 class as FP32 on 98.00 %"));
  OutputReport steps = Classes(100, 400);  // eight rows a sample
  steps.figures.samples = 50;
  EXPECT_EQ(Default(TaskType::kRegression, {steps, Regression(40, 100)}),
            VerdictResult::kGoalNotMet);
  // A single output of a model whose task is not classification counts by its values.
  EXPECT_EQ(Default(TaskType::kRegression, {scores}), VerdictResult::kGoalNotMet);
}

TEST(VerdictTest, ThePassRateDecidesOnlyWhereTheStepAllowsIt) {
  const std::vector<OutputReport> outputs = {Regression(40, 12, 50)};
  const Judgement judgement = JudgeByTask(TaskType::kRegression, outputs, std::nullopt);
  EXPECT_EQ(judgement.result, VerdictResult::kGoalMet);
  EXPECT_THAT(judgement.reason, HasSubstr("PSNR alone decides"));
  EXPECT_EQ(Default(TaskType::kRegression, {Regression(29, 12, 50)}), VerdictResult::kGoalNotMet);
}

TEST(VerdictTest, ClassificationLooksAtTheWinnerAlone) {
  EXPECT_EQ(Default(TaskType::kClassification, {Classes(99, 200)}), VerdictResult::kGoalMet);
  EXPECT_EQ(Default(TaskType::kClassification, {Classes(98.9, 200)}), VerdictResult::kGoalNotMet);
}

TEST(VerdictTest, WithFewSamplesEveryWinnerHasToAgree) {
  EXPECT_EQ(Default(TaskType::kClassification, {Classes(100, 99)}), VerdictResult::kGoalMet);
  EXPECT_EQ(Default(TaskType::kClassification, {Classes(98.99, 99)}), VerdictResult::kGoalNotMet);
}

TEST(VerdictTest, SegmentationCountsPixels) {
  EXPECT_EQ(Default(TaskType::kSegmentation, {Classes(99, 50)}), VerdictResult::kGoalMet);
  EXPECT_EQ(Default(TaskType::kSegmentation, {Classes(98, 5000)}), VerdictResult::kGoalNotMet);
  OutputReport labels = Regression(5, 99.5);
  labels.is_float = false;
  EXPECT_EQ(Default(TaskType::kSegmentation, {labels}), VerdictResult::kGoalMet);
}

TEST(VerdictTest, DetectionWithoutDecodedBoxesNeedsExternalValidation) {
  const std::vector<OutputReport> outputs = {Regression(5, 5)};
  const Judgement judgement = JudgeByTask(TaskType::kDetection, outputs, std::nullopt);
  EXPECT_EQ(judgement.result, VerdictResult::kNotJudged);
  EXPECT_THAT(judgement.reason, HasSubstr("needs external validation"));
}

TEST(VerdictTest, DetectionCountsMatchedBoxes) {
  const std::vector<OutputReport> outputs = {Regression(5, 5)};
  DetectionFigures boxes{.reference_boxes = 100, .candidate_boxes = 100, .matched = 99};
  boxes.recall = boxes.precision = 99;
  EXPECT_EQ(JudgeByTask(TaskType::kDetection, outputs, boxes).result, VerdictResult::kGoalMet);
  boxes.precision = 90;  // invented boxes count too
  EXPECT_EQ(JudgeByTask(TaskType::kDetection, outputs, boxes).result, VerdictResult::kGoalNotMet);
}

TEST(VerdictTest, NanInTheCandidateMissesEveryGoal) {
  OutputReport broken = Classes(100, 200);
  broken.figures.mse = std::numeric_limits<double>::infinity();
  const std::vector<OutputReport> outputs = {broken};
  EXPECT_EQ(JudgeByTask(TaskType::kClassification, outputs, std::nullopt).result,
            VerdictResult::kGoalNotMet);
  EXPECT_EQ(JudgeByTask(TaskType::kDetection, outputs, std::nullopt).result,
            VerdictResult::kGoalNotMet);
}

TEST(VerdictTest, ATargetReplacesTheDefaultGoal) {
  const std::vector<OutputReport> outputs = {Regression(35, 50)};
  const auto targets = ParseTargets({"psnr>=34"});
  const Verdict verdict = Judge(TaskType::kRegression, *targets, outputs, std::nullopt, false);
  EXPECT_EQ(verdict.result, VerdictResult::kGoalMet);
  EXPECT_FALSE(verdict.default_goal);
  EXPECT_EQ(verdict.default_judgement.result, VerdictResult::kGoalNotMet);
}

TEST(VerdictTest, AllTargetsHaveToHoldAndTheWorstComesFirst) {
  std::vector<OutputReport> outputs = {Regression(35, 50), Regression(33, 99)};
  outputs[1].name = "z";
  const auto targets = ParseTargets({"psnr>=33", "passrate>=90%"});
  const Verdict verdict = Judge(TaskType::kRegression, *targets, outputs, std::nullopt, false);
  EXPECT_EQ(verdict.result, VerdictResult::kGoalNotMet);
  ASSERT_EQ(verdict.goals.size(), 2u);
  EXPECT_EQ(verdict.goals[0].expression, "passrate>=90%");
  EXPECT_EQ(verdict.goals[0].output, "y");
  EXPECT_EQ(verdict.goals[0].value, 50);
  EXPECT_EQ(verdict.goals[1].output, "z");
  EXPECT_TRUE(verdict.goals[1].met);
}

TEST(VerdictTest, Top1MeansAccuracyWithLabelsAndAgreementWithout) {
  std::vector<OutputReport> outputs = {Classes(97, 200)};
  const auto targets = ParseTargets({"top1>=fp32-1%"});
  EXPECT_EQ(Judge(TaskType::kClassification, *targets, outputs, std::nullopt, false).result,
            VerdictResult::kGoalNotMet);
  outputs[0].classes->labelled = 200;
  outputs[0].classes->top1 = 74.5;
  outputs[0].classes->reference_top1 = 75;
  EXPECT_EQ(Judge(TaskType::kClassification, *targets, outputs, std::nullopt, false).result,
            VerdictResult::kGoalMet);
}

TEST(VerdictTest, RandomDataIsNotJudged) {
  const std::vector<OutputReport> outputs = {Regression(80, 100)};
  const auto targets = ParseTargets({"psnr>=34"});
  const Verdict verdict = Judge(TaskType::kRegression, *targets, outputs, std::nullopt, true);
  EXPECT_EQ(verdict.result, VerdictResult::kNotJudged);
  EXPECT_EQ(verdict.goals.size(), 1u);
}

TEST(VerdictTest, IntegerOutputsCarryNoGoal) {
  OutputReport ids = Regression(1, 1);
  ids.is_float = false;
  EXPECT_EQ(Default(TaskType::kRegression, {Regression(40, 100), ids}), VerdictResult::kGoalMet);
  EXPECT_EQ(Default(TaskType::kRegression, {ids}), VerdictResult::kNotJudged);
}

}  // namespace
}  // namespace gq::accuracy
