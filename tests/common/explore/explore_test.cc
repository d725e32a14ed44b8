#include "common/explore/explore.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/explore/regions.h"
#include "common/explore/switch_model.h"
#include "common/quantize/mixed_precision.h"
#include "common/quantize/reduced_precision.h"
#include "common/runtime/session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/explore/synthetic_net.h"

namespace gq::explore {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

// Ends the search behind a number of records, as a killed process does.
class BreakingJournal : public MemoryJournal {
 public:
  explicit BreakingJournal(size_t most) : most_(most) {}
  absl::Status Record(const IterationRecord& record) override {
    if (records().size() >= most_) {
      return base::MakeError(base::Reason::kLeaseLost, "the process is gone");
    }
    return MemoryJournal::Record(record);
  }

 private:
  size_t most_;
};

absl::StatusOr<Exploration> Search(const Problem& problem, StrategyKind kind) {
  MemoryJournal journal;
  base::NullReporter quiet;
  return Explore(problem, kind, {}, journal, quiet);
}

// The spoiled layers are the loud ones, so dynamic range leads to them too.
TEST(ExploreTest, BothStrategiesFindTheKnownAssignment) {
  SyntheticNet net(10, {2, 5}, {2, 5});
  const Problem problem = net.MakeProblem({"psnr>=25"});
  for (const auto kind : {StrategyKind::kGreedy, StrategyKind::kSensitivity}) {
    const auto found = Search(problem, kind);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_TRUE(found->figures.goal_met);
    EXPECT_THAT(found->promoted_layers, ElementsAre("conv2", "conv5"));
    EXPECT_EQ(found->promoted, 2);
    EXPECT_THAT(found->limited_by, "");
  }
}

// The loud layers are harmless; the search by dynamic range tries them first and gives up.
TEST(ExploreTest, SensitivityFindsWhatDynamicRangeHides) {
  SyntheticNet net(14, {3, 10}, {1, 5, 7, 8, 12});
  const Problem problem = net.MakeProblem({"psnr>=25"});
  const auto greedy = Search(problem, StrategyKind::kGreedy);
  ASSERT_TRUE(greedy.ok()) << greedy.status();
  EXPECT_FALSE(greedy->figures.goal_met);
  EXPECT_THAT(greedy->limited_by, HasSubstr("max_share"));
  const auto sensitivity = Search(problem, StrategyKind::kSensitivity);
  ASSERT_TRUE(sensitivity.ok()) << sensitivity.status();
  EXPECT_TRUE(sensitivity->figures.goal_met);
  EXPECT_THAT(sensitivity->promoted_layers, ElementsAre("conv3", "conv10"));
  EXPECT_LT(sensitivity->full_evaluations, greedy->full_evaluations);
}

TEST(ExploreTest, ReturnsTheBestWhenTheGoalCannotBeMet) {
  SyntheticNet net(10, {2, 5}, {2, 5});
  const Problem problem = net.MakeProblem({"psnr>=90"});
  for (const auto kind : {StrategyKind::kGreedy, StrategyKind::kSensitivity}) {
    const auto found = Search(problem, kind);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_FALSE(found->figures.goal_met);
    EXPECT_TRUE(found->figures.judged);
    EXPECT_GT(found->figures.measure.psnr_db, 20);
    EXPECT_FALSE(found->limited_by.empty());
    EXPECT_LE(found->promoted, 3);
    ASSERT_FALSE(found->pareto.empty());
    for (size_t i = 1; i < found->pareto.size(); ++i) {
      EXPECT_LT(found->pareto[i - 1].layers, found->pareto[i].layers);
      EXPECT_TRUE(IsBetter(found->pareto[i].figures, found->pareto[i - 1].figures));
    }
  }
}

TEST(ExploreTest, GoesOnAfterTheLastRecord) {
  SyntheticNet net(10, {2, 5}, {2, 5});
  const Problem problem = net.MakeProblem({"psnr>=90"});
  base::NullReporter quiet;
  for (const auto kind : {StrategyKind::kGreedy, StrategyKind::kSensitivity}) {
    MemoryJournal whole;
    const auto expected = Explore(problem, kind, {}, whole, quiet);
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (size_t records = 0; records < whole.records().size(); ++records) {
      BreakingJournal broken(records);
      ASSERT_FALSE(Explore(problem, kind, {}, broken, quiet).ok());
      ASSERT_EQ(broken.records().size(), records);
      MemoryJournal rest;
      const auto found = Explore(problem, kind, broken.records(), rest, quiet);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(rest.records().size(), whole.records().size() - records);
      if (!rest.records().empty()) {
        EXPECT_EQ(rest.records()[0].number, static_cast<int>(records) + 1);
      }
      EXPECT_EQ(found->best_row, expected->best_row);
      EXPECT_EQ(found->best.nodes, expected->best.nodes);
      EXPECT_EQ(found->best.model.Digest(), expected->best.model.Digest());
    }
  }
}

TEST(ExploreTest, KeepsAndForbidsLayers) {
  SyntheticNet net(10, {2, 5}, {2, 5});
  Limits limits;
  limits.forbid = {"conv5"};
  limits.keep = {"conv7"};
  const Problem problem = net.MakeProblem({"psnr>=90"}, limits);
  for (const auto kind : {StrategyKind::kGreedy, StrategyKind::kSensitivity}) {
    const auto found = Search(problem, kind);
    ASSERT_TRUE(found.ok()) << found.status();
    for (const TraceRow& row : found->trace) EXPECT_NE(row.candidate, "conv5");
    EXPECT_THAT(found->promoted_layers, testing::Not(testing::Contains("conv5")));
  }
  limits.keep = {"conv99"};
  const auto unknown = Search(net.MakeProblem({"psnr>=90"}, limits), StrategyKind::kGreedy);
  EXPECT_EQ(base::GetReason(unknown.status()), base::Reason::kPatternUnmatched);
}

TEST(RegionsTest, NodesHangOnTheLastLayerBeforeThem) {
  SyntheticNet net(3, {}, {});
  const auto regions = FindRegions(net.model.graph());
  ASSERT_EQ(regions.size(), 3u);
  EXPECT_EQ(regions[1].layer, "conv1");
  EXPECT_THAT(regions[1].nodes, UnorderedElementsAre("conv1", "relu1"));
  EXPECT_EQ(CountBorders(net.model.graph(), {"conv1", "relu1"}), 2);
  EXPECT_EQ(CountBorders(net.model.graph(), {}), 0);
}

// What the switchable model computes is what the emitted files compute.
TEST(SwitchModelTest, AgreesWithEmittedModels) {
  SyntheticNet net(5, {2}, {});
  const auto regions = FindRegions(net.model.graph());
  auto model =
      SwitchModel::Create(net.model, net.start.model, regions, {}, onnx::TensorProto::BFLOAT16, 1);
  ASSERT_TRUE(model.ok()) << model.status();
  runtime::SessionOptions options;
  options.optimization = runtime::OptimizationLevel::kBasic;
  std::vector<runtime::Tensor> sample;
  ASSERT_TRUE(net.evaluation->Read(0, &sample).ok());
  for (const size_t promoted : {size_t{99}, size_t{0}, size_t{2}, size_t{4}}) {
    std::vector<bool> set(regions.size(), false);
    quantize::QuantizeConfig config = net.config;
    if (promoted < regions.size()) {
      set[promoted] = true;
      quantize::PromoteNodes(regions[promoted].nodes, onnx::TensorProto::BFLOAT16,
                             quantize::MixedForm::kFloat, &config);
    }
    base::NullReporter quiet;
    const auto emitted =
        quantize::Quantize(net.model, config, *net.calibration, quiet, {.table = &net.start.table});
    ASSERT_TRUE(emitted.ok()) << emitted.status();
    graph::Model shown = emitted->model;
    if (promoted < regions.size()) {
      auto reduced = quantize::ReducedPrecisionReference(shown, onnx::TensorProto::BFLOAT16);
      ASSERT_TRUE(reduced.ok()) << reduced.status();
      shown = std::move(reduced->model);
    }
    const auto session = runtime::Session::Create(shown, options);
    ASSERT_TRUE(session.ok()) << session.status();
    std::vector<runtime::Tensor> expected;
    ASSERT_TRUE(session->Run(sample, &expected).ok());
    (*model)->Promote(set);
    std::vector<runtime::Tensor> actual;
    const auto status = (*model)->Run(sample, &actual);
    ASSERT_TRUE(status.ok()) << status;
    double signal = 0;
    double noise = 0;
    const auto r = expected[0].As<float>();
    const auto a = actual[0].As<float>();
    ASSERT_EQ(r.size(), a.size());
    for (size_t i = 0; i < r.size(); ++i) {
      signal += r[i] * r[i];
      noise += (r[i] - a[i]) * (r[i] - a[i]);
    }
    EXPECT_LT(noise, 2e-4 * signal) << promoted;
  }
}

}  // namespace
}  // namespace gq::explore
