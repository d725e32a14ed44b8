#include "common/explore/incremental_runs.h"

#include <cstring>

#include "common/accuracy/evaluation_json.h"
#include "common/explore/regions.h"
#include "common/explore/switch_model.h"
#include "common/quantize/mixed_precision.h"
#include "common/quantize/reduced_precision.h"
#include "common/runtime/session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/explore/residual_net.h"

namespace gq::explore {
namespace {

using testing::ElementsAre;

// What is run for a candidate: the emitted file, or its reference for the CPU.
graph::Model Shown(const ResidualNet& net, const std::vector<std::string>& promoted) {
  quantize::QuantizeConfig config = net.config;
  quantize::PromoteNodes(promoted, onnx::TensorProto::BFLOAT16, quantize::MixedForm::kFloat,
                         &config);
  base::NullReporter quiet;
  auto made = quantize::Quantize(net.model, config, *net.data, quiet, {.table = &net.start.table});
  EXPECT_TRUE(made.ok()) << made.status();
  if (promoted.empty()) return made->model;
  auto reduced = quantize::ReducedPrecisionReference(made->model, onnx::TensorProto::BFLOAT16);
  EXPECT_TRUE(reduced.ok()) << reduced.status();
  return std::move(reduced->model);
}

runtime::SessionOptions AsReported() {
  runtime::SessionOptions options;
  options.optimization = runtime::OptimizationLevel::kBasic;
  options.threads = 1;
  return options;
}

// Runs all samples both ways and compares bit for bit.
void ExpectSameBits(IncrementalRuns& runs, const graph::Model& model, runtime::DataSet& data) {
  const auto session = runtime::Session::Create(model, AsReported());
  ASSERT_TRUE(session.ok()) << session.status();
  const auto runner = runs.Start(model);
  ASSERT_TRUE(runner.ok()) << runner.status();
  ASSERT_NE(*runner, nullptr);
  ASSERT_EQ((*runner)->outputs().size(), session->outputs().size());
  for (int64_t i = 0; i < data.size(); ++i) {
    std::vector<runtime::Tensor> sample;
    ASSERT_TRUE(data.Read(i, &sample).ok());
    std::vector<runtime::Tensor> expected;
    std::vector<runtime::Tensor> actual;
    ASSERT_TRUE(session->Run(sample, &expected).ok());
    const auto status = (*runner)->Run(i, sample, &actual);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t output = 0; output < expected.size(); ++output) {
      ASSERT_EQ(actual[output].shape(), expected[output].shape());
      EXPECT_EQ(std::memcmp(actual[output].bytes().data(), expected[output].bytes().data(),
                            expected[output].bytes().size()),
                0)
          << "sample " << i;
    }
  }
  runs.Finish(true);
}

// A search: some candidates are accepted, others not, and all give the bits of their files.
TEST(IncrementalRunsTest, GivesTheBitsOfTheEmittedFiles) {
  ResidualNet net(6);
  IncrementalRuns runs({.samples = net.data->size()});
  ExpectSameBits(runs, Shown(net, {}), *net.data);
  EXPECT_EQ(runs.nodes_spared() > runs.nodes_run(), false);
  runs.Accept();
  ExpectSameBits(runs, Shown(net, {"conv5b"}), *net.data);
  EXPECT_GT(runs.nodes_spared(), runs.nodes_run());
  runs.Reject();
  ExpectSameBits(runs, Shown(net, {"conv3a"}), *net.data);
  runs.Accept();
  ExpectSameBits(runs, Shown(net, {"conv3a", "stem", "stem_relu"}), *net.data);
  runs.Reject();
  ExpectSameBits(runs, Shown(net, {"conv3a", "conv4a", "add4"}), *net.data);
  runs.Accept();
  // The same candidate once more costs nothing.
  ExpectSameBits(runs, Shown(net, {"conv3a", "conv4a", "add4"}), *net.data);
  EXPECT_EQ(runs.nodes_run(), 0);
}

TEST(IncrementalRunsTest, KeepsNothingWithoutRoom) {
  ResidualNet net(4);
  IncrementalRuns runs({.samples = net.data->size(), .max_bytes = 0});
  ExpectSameBits(runs, Shown(net, {}), *net.data);
  runs.Accept();
  ExpectSameBits(runs, Shown(net, {"conv3b"}), *net.data);
  IncrementalRuns once({.samples = 0});
  ExpectSameBits(once, Shown(net, {"conv3b"}), *net.data);
}

// Runs that broke off leave nothing that a later candidate would start from.
TEST(IncrementalRunsTest, ForgetsWhatWasNotFinished) {
  ResidualNet net(4);
  IncrementalRuns runs({.samples = net.data->size()});
  const auto runner = runs.Start(Shown(net, {}));
  ASSERT_TRUE(runner.ok()) << runner.status();
  runs.Finish(false);
  runs.Accept();
  ExpectSameBits(runs, Shown(net, {"conv3b"}), *net.data);
}

// The trace of the documented search is the one that sessions over the files give.
TEST(IncrementalRunsTest, GreedyDecidesAsOverFiles) {
  ResidualNet net(5);
  const Problem problem = net.MakeProblem();
  MemoryJournal journal;
  base::NullReporter quiet;
  const auto found = Explore(problem, StrategyKind::kGreedy, {}, journal, quiet);
  ASSERT_TRUE(found.ok()) << found.status();
  const auto maker = CandidateMaker::Create(problem, quiet);
  ASSERT_TRUE(maker.ok()) << maker.status();
  std::vector<std::string> promoted;
  int tries = 0;
  for (const TraceRow& row : found->trace) {
    std::vector<std::string> nodes = promoted;
    if (row.kind == "greedy") nodes.push_back(row.candidate);
    const auto candidate = (*maker)->Plain(nodes);
    ASSERT_TRUE(candidate.ok()) << candidate.status();
    const auto evaluation = (*maker)->EvaluateFile(candidate->model);
    ASSERT_TRUE(evaluation.ok()) << evaluation.status();
    EXPECT_EQ(FiguresOf(*evaluation, problem.evaluate.targets).ToJson(), row.figures.ToJson())
        << row.candidate;
    if (row.decision == "promoted") promoted = nodes;
    ++tries;
  }
  EXPECT_GT(tries, 3);
}

TEST(JoinsTest, StreamsAreOneGroup) {
  ResidualNet net(3);
  const auto joins = FindJoins(net.model.graph());
  ASSERT_EQ(joins.size(), 1u);
  EXPECT_THAT(joins[0].nodes, ElementsAre("add0", "add1", "add2"));
  EXPECT_EQ(joins[0].layer, "");
}

TEST(JoinsTest, BranchesAreBlocks) {
  ResidualNet net(3);
  const auto regions = FindRegions(net.model.graph());
  ASSERT_EQ(regions.size(), 7u);
  EXPECT_THAT(FindBlocks(net.model.graph(), regions),
              ElementsAre(ElementsAre(1u, 2u), ElementsAre(3u, 4u), ElementsAre(5u, 6u)));
}

double Noise(const runtime::Tensor& a, const runtime::Tensor& b) {
  double signal = 0;
  double noise = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double x = a.As<float>()[static_cast<size_t>(i)];
    const double y = b.As<float>()[static_cast<size_t>(i)];
    signal += x * x;
    noise += (x - y) * (x - y);
  }
  return noise / signal;
}

// With joins in higher precision the stream is read in it by the other joins, and in int8 by the
// convolutions, in the switchable model as in the emitted file.
TEST(JoinsTest, SwitchModelAgreesWithEmittedModels) {
  ResidualNet net(4);
  std::vector<Region> regions = FindRegions(net.model.graph());
  const size_t layers = regions.size();
  for (Region& join : FindJoins(net.model.graph())) regions.push_back(std::move(join));
  const auto model =
      SwitchModel::Create(net.model, net.start.model, regions, {}, onnx::TensorProto::BFLOAT16, 1);
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<runtime::Tensor> sample;
  ASSERT_TRUE(net.data->Read(0, &sample).ok());
  const auto reference = runtime::Session::Create(net.model, AsReported());
  ASSERT_TRUE(reference.ok()) << reference.status();
  std::vector<runtime::Tensor> floats;
  ASSERT_TRUE(reference->Run(sample, &floats).ok());
  for (const std::vector<size_t>& chosen :
       std::vector<std::vector<size_t>>{{}, {layers}, {2}, {layers, 3}, {1, 2}}) {
    std::vector<bool> set(regions.size(), false);
    std::vector<std::string> nodes;
    for (const size_t region : chosen) {
      set[region] = true;
      const auto& own = (*model)->QuantizedNodes(region);
      nodes.insert(nodes.end(), own.begin(), own.end());
    }
    (*model)->Promote(set);
    std::vector<runtime::Tensor> actual;
    const auto status = (*model)->Run(sample, &actual);
    ASSERT_TRUE(status.ok()) << status;
    const auto session = runtime::Session::Create(Shown(net, nodes), AsReported());
    ASSERT_TRUE(session.ok()) << session.status();
    std::vector<runtime::Tensor> expected;
    ASSERT_TRUE(session->Run(sample, &expected).ok());
    const double error = Noise(floats[0], expected[0]);
    EXPECT_NEAR(10 * std::log10(Noise(floats[0], actual[0]) / error), 0, 0.5)
        << chosen.size() << " regions, error " << error;
  }
}

}  // namespace
}  // namespace gq::explore
