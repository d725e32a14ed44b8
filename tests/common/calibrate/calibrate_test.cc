#include "common/calibrate/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "common/base/status.h"
#include "common/calibrate/observe_operator.h"
#include "common/calibrate/tapped_graph.h"
#include "common/runtime/session.h"
#include "onnx/defs/parser.h"

namespace gq::calibrate {
namespace {

using base::GetReason;
using base::Reason;
using runtime::DataSet;
using runtime::Tensor;
using testing::HasSubstr;

graph::Model Parse(const char* text) {
  onnx::ModelProto proto;
  const auto status = onnx::OnnxParser::Parse(proto, text);
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return *graph::Model::FromProto(std::move(proto));
}

// sum = x + 1, y = Relu(sum), and an integer tensor on the side.
constexpr char kModel[] = R"(
<ir_version: 8, opset_import: ["" : 17]>
small (float[1, 4] x) => (float[1, 4] y, int64[1] best)
<float[1] one = {1}, float[1, 4] sum, float[1, 4] twice>
{
  sum = Add(x, one)
  twice = Add(sum, sum)
  y = Relu(twice)
  best = ArgMax <axis = 1, keepdims = 0> (y)
})";

class RecordingReporter : public base::Reporter {
 public:
  void Log(base::LogLevel level, std::string_view, std::string_view text) override {
    if (level == base::LogLevel::kWarn) warnings.emplace_back(text);
  }
  void Report(const base::Progress& progress) override { done = progress.done; }
  bool Cancelled() const override { return done >= cancel_after; }

  std::vector<std::string> warnings;
  int64_t done = 0;
  int64_t cancel_after = std::numeric_limits<int64_t>::max();
};

std::unique_ptr<DataSet> Samples(const graph::Model& model,
                                 const std::vector<std::vector<float>>& samples,
                                 bool allow_nonfinite = false) {
  std::vector<std::vector<Tensor>> tensors;
  for (const auto& values : samples) {
    tensors.push_back({Tensor::Of<float>({1, static_cast<int64_t>(values.size())}, values)});
  }
  auto data = DataSet::FromSamples(std::move(tensors), *runtime::InputSpecs(model),
                                   {.allow_nonfinite = allow_nonfinite});
  EXPECT_TRUE(data.ok()) << data.status();
  return *std::move(data);
}

std::vector<TensorRequest> Requests(const std::vector<std::string>& names) {
  std::vector<TensorRequest> requests;
  for (const std::string& name : names) requests.push_back({.name = name});
  return requests;
}

TEST(CalibrateTest, InputsInnerTensorsAndOutputs) {
  const graph::Model model = Parse(kModel);
  const auto data = Samples(model, {{-3, 0, 1, 2}, {-1, 0, 0, 9}});
  const std::vector<MethodSpec> methods = {MethodSpec::Default(Method::kMinMax),
                                           MethodSpec::Default(Method::kMovingAverage),
                                           MethodSpec::Default(Method::kNonOverflow)};
  RecordingReporter reporter;
  const auto table = Calibrate(model, Requests({"x", "sum", "twice", "y", "best", "one", "none"}),
                               methods, *data, {.want_digest = true}, reporter);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->samples, 2);
  EXPECT_EQ(reporter.done, 2);
  EXPECT_EQ(table->data_digest, *data->Digest());
  EXPECT_EQ(table->RangeOf("x", methods[0]), (Range{-3, 9}));
  EXPECT_EQ(table->RangeOf("sum", methods[0]), (Range{-2, 10}));
  EXPECT_EQ(table->RangeOf("twice", methods[0]), (Range{-4, 20}));
  EXPECT_EQ(table->RangeOf("y", methods[0]), (Range{0, 20}));
  // Means of the samples' ends: (-2 + 0) / 2 and (3 + 10) / 2.
  EXPECT_EQ(table->RangeOf("sum", methods[1]), (Range{-1, 6.5f}));
  EXPECT_EQ(table->RangeOf("sum", methods[2]), (Range{-10, 10}));
  EXPECT_EQ(table->Find("twice")->mean_abs_max, 13);  // (6 + 20) / 2
  EXPECT_EQ(table->Find("x")->elements, 8);
  EXPECT_EQ(table->left_out.at("best"), "int64");
  EXPECT_EQ(table->left_out.at("one"), "a constant");
  EXPECT_EQ(table->left_out.at("none"), "not a tensor of the main graph");
  EXPECT_EQ(table->RangeOf("x", MethodSpec::Default(Method::kEntropy)), std::nullopt);
}

TEST(CalibrateTest, ObservableTensorsAreTheFloatOnes) {
  std::vector<std::string> names;
  for (const auto& request : ObservableTensors(Parse(kModel))) names.push_back(request.name);
  EXPECT_THAT(names, testing::ElementsAre("x", "sum", "twice", "y"));
}

TEST(CalibrateTest, ResultDoesNotDependOnThreads) {
  const graph::Model model = Parse(R"(
<ir_version: 8, opset_import: ["" : 17]>
wide (float[1, 200000] x) => (float[1, 200000] y)
<float[1] two = {2}, float[1, 200000] scaled>
{
  scaled = Mul(x, two)
  y = Relu(scaled)
})");
  const auto inputs = *runtime::InputSpecs(model);
  std::vector<MethodSpec> methods;
  for (const Method method :
       {Method::kMinMax, Method::kMinMse, Method::kPercentile, Method::kEntropy,
        Method::kDistribution, Method::kLayerwisePercentile}) {
    methods.push_back(MethodSpec::Default(method));
  }
  methods.push_back(MethodSpec::Default(Method::kMinMse));
  methods.back().bins = 0;
  methods.push_back(MethodSpec::Default(Method::kMinMse));
  methods.back().mode = MinMseMode::kMostCommon;
  RecordingReporter reporter;
  std::vector<CalibrationTable> tables;
  for (const int threads : {1, 2, 3}) {
    const auto data = *DataSet::Random(inputs, {.num_samples = 3});
    auto table = Calibrate(model, Requests({"x", "scaled", "y"}), methods, *data,
                           {.threads = threads}, reporter);
    ASSERT_TRUE(table.ok()) << table.status();
    tables.push_back(*std::move(table));
  }
  for (const std::string name : {"x", "scaled", "y"}) {
    EXPECT_EQ(tables[0].Find(name)->ranges, tables[1].Find(name)->ranges) << name;
    EXPECT_EQ(tables[0].Find(name)->ranges, tables[2].Find(name)->ranges) << name;
  }
}

// An observer shares memory with what it observes; whoever writes in place later must not change
// what others read.
TEST(CalibrateTest, ObserversDoNotChangeTheModel) {
  const graph::Model model = Parse(R"(
<ir_version: 8, opset_import: ["" : 17]>
branch (float[1, 4] x, bool c) => (float[1, 4] y, float[1, 4] z)
<float[1] one = {1}, float[1, 4] a, float[1, 4] b, float[1, 4] d, float[1, 4] e>
{
  a = Add(x, one)
  b = Neg(a)
  d = If (c) <
    then_branch = yes () => (float[1, 4] t) { t = Identity(a) },
    else_branch = no () => (float[1, 4] f) { f = Neg(a) }
  >
  e = Relu(b)
  z = Add(a, d)
  y = Add(e, d)
})");
  const std::vector<float> x = {-3, -0.5f, 1, 2};
  for (const bool condition : {true, false}) {
    std::vector<Tensor> inputs = {Tensor::Of<float>({1, 4}, x),
                                  Tensor(onnx::TensorProto::BOOL, {})};
    inputs[1].MutableAs<bool>()[0] = condition;
    const auto plain = runtime::Session::Create(model);
    ASSERT_TRUE(plain.ok()) << plain.status();
    std::vector<Tensor> expected;
    ASSERT_TRUE(plain->Run(inputs, &expected).ok());

    const std::vector<MethodSpec> methods = {MethodSpec::Default(Method::kMinMax)};
    ObserverSet observers(ObservationPlan::For(methods, false), NonFinitePolicy::kReport, 1);
    const auto operators = runtime::FloatOperators::Create(**runtime::OrtLibrary::Get(),
                                                           {ObserveOperator(observers)}, 1);
    ASSERT_TRUE(operators.ok()) << operators.status();
    const std::vector<std::string> tensors = {"a", "b", "d", "e"};
    const TappedGraph observed =
        InsertTaps(model, tensors, {.op_type = kObserveOperator},
                   [&](const std::string& name) { return observers.Add(name, Grid::kInt8); });
    const auto session =
        runtime::Session::Create(observed.model, {.custom_op_domains = {(*operators)->domain()}});
    ASSERT_TRUE(session.ok()) << session.status();
    std::vector<Tensor> outputs;
    ASSERT_TRUE(session->Run(inputs, &outputs).ok());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(outputs[i].As<float>(), expected[i].As<float>())) << i;
    }
    EXPECT_EQ(observers.at(0).Finish().max, 3);
    EXPECT_EQ(observers.at(3).Finish().max, 2);  // Relu(-(x + 1))
  }
}

TEST(CalibrateTest, NotANumberInATensorNamesTensorAndSample) {
  const graph::Model model = Parse(R"(
<ir_version: 8, opset_import: ["" : 17]>
root (float[1, 2] x) => (float[1, 2] y)
<float[1, 2] inner>
{
  inner = Sqrt(x)
  y = Neg(inner)
})");
  const std::vector<MethodSpec> methods = {MethodSpec::Default(Method::kMinMax)};
  RecordingReporter reporter;
  const auto data = Samples(model, {{1, 4}, {-1, 4}, {9, 16}});
  const auto failed = Calibrate(model, Requests({"inner"}), methods, *data, {}, reporter);
  EXPECT_EQ(GetReason(failed.status()), Reason::kDataNonfinite);
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("'inner' has NaN in sample 1"));

  const auto lenient =
      Calibrate(model, Requests({"inner"}), methods, *data, {.allow_nonfinite = true}, reporter);
  ASSERT_TRUE(lenient.ok()) << lenient.status();
  EXPECT_EQ(lenient->RangeOf("inner", methods[0]), (Range{1, 4}));
  EXPECT_THAT(lenient->skipped, testing::ElementsAre(1));
  EXPECT_EQ(lenient->samples, 2);
  EXPECT_THAT(reporter.warnings, testing::ElementsAre(HasSubstr("sample 1")));

  const auto quark =
      Calibrate(model, Requests({"inner"}), methods, *data, {.quark_compatible = true}, reporter);
  ASSERT_TRUE(quark.ok()) << quark.status();
  EXPECT_EQ(quark->RangeOf("inner", methods[0]), (Range{0, 4}));
}

TEST(CalibrateTest, NoSampleLeft) {
  const graph::Model model = Parse(kModel);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto data = Samples(model, {{nan, 0, 0, 0}}, true);
  const std::vector<MethodSpec> methods = {MethodSpec::Default(Method::kMinMax)};
  RecordingReporter reporter;
  EXPECT_EQ(GetReason(Calibrate(model, Requests({"sum"}), methods, *data, {.allow_nonfinite = true},
                                reporter)
                          .status()),
            Reason::kDataEmpty);
}

// Attention masks are made of infinite constants; that is no fault of the data.
TEST(CalibrateTest, InfinityThatTheModelMakesIsLeftOut) {
  const graph::Model model = Parse(R"(
<ir_version: 8, opset_import: ["" : 17]>
mask (float[1, 2] x) => (float[1, 2] y)
<float[1, 2] floor = {0, -3.4e38}, float[1, 2] masked, float[1, 2] more>
{
  masked = Add(x, floor)
  more = Add(masked, floor)
  y = Softmax(more)
})");
  const auto data = Samples(model, {{1, 1}, {2, 2}});
  const std::vector<MethodSpec> methods = {MethodSpec::Default(Method::kMinMax)};
  RecordingReporter reporter;
  const auto table = Calibrate(model, Requests({"more"}), methods, *data, {}, reporter);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->RangeOf("more", methods[0]), (Range{1, 2}));
  EXPECT_THAT(reporter.warnings, testing::ElementsAre(HasSubstr("'more'")));
}

TEST(CalibrateTest, Cancelled) {
  const graph::Model model = Parse(kModel);
  const auto data = *DataSet::Random(*runtime::InputSpecs(model), {.num_samples = 100});
  const std::vector<MethodSpec> methods = {MethodSpec::Default(Method::kMinMax)};
  RecordingReporter reporter;
  reporter.cancel_after = 3;
  EXPECT_EQ(GetReason(Calibrate(model, Requests({"sum"}), methods, *data, {}, reporter).status()),
            Reason::kCancelled);
  EXPECT_EQ(reporter.done, 3);
}

}  // namespace
}  // namespace gq::calibrate
