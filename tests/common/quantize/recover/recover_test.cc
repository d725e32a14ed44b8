#include "common/quantize/recover/recover.h"

#include <cmath>
#include <memory>

#include "common/base/status.h"
#include "common/quantize/recover/held_out.h"
#include "common/quantize/recover/layer.h"
#include "common/quantize/recover/rescaled.h"
#include "common/quantize/recover/staged_run.h"
#include "common/quantize/scheme.h"
#include "common/runtime/session.h"
#include "tests/common/quantize/quantize_fixture.h"

namespace gq::quantize {
namespace {

// conv -> relu -> depthwise conv -> pointwise conv, weights to be filled in.
constexpr char kNet[] = R"(
<ir_version: 8, opset_import: ["" : 17]>
net (float[1,3,12,12] x) => (float[1,5,6,6] y)
<float[1,8,6,6] a, float[1,8,6,6] b, float[1,8,6,6] c>
{
  a = Conv <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]> (x, w1, b1)
  b = Relu (a)
  c = Conv <kernel_shape = [3,3], pads = [1,1,1,1], group = 8> (b, w2, b2)
  y = Conv <kernel_shape = [1,1]> (c, w3, b3)
}
)";

// Numbers in -1 .. 1 without a random generator's dependence on the library.
std::vector<float> Wave(size_t count, double step) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(std::sin(step * static_cast<double>(i * i + 7 * i + 1))));
  }
  return values;
}

graph::Model MakeNet() {
  std::string text = kNet;
  // The checker wants the constants to be there, so they are inputs in the text.
  const std::string inputs = "float[1,3,12,12] x";
  text.replace(text.find(inputs), inputs.size(),
               inputs +
                   ", float[8,3,3,3] w1, float[8] b1, float[8,1,3,3] w2, float[8] b2, "
                   "float[5,8,1,1] w3, float[5] b3");
  graph::Model model = ParseModel(text);
  while (model.graph().input_size() > 1) model.mutable_graph()->mutable_input()->RemoveLast();
  const auto add = [&model](const char* name, std::vector<int64_t> dims, double step,
                            float spread) {
    size_t count = 1;
    for (const int64_t dim : dims) count *= static_cast<size_t>(dim);
    std::vector<float> values = Wave(count, step);
    // Channels of very different size are what one scale a tensor cannot hold.
    const size_t inner = count / static_cast<size_t>(dims[0]);
    for (size_t i = 0; i < count; ++i) {
      values[i] *= std::pow(spread, static_cast<float>(i / inner));
    }
    model.AddInitializer(name, graph::TensorView::Of<float>(dims, values));
  };
  add("w1", {8, 3, 3, 3}, 0.37, 0.6f);
  add("b1", {8}, 0.11, 1);
  add("w2", {8, 1, 3, 3}, 0.53, 0.5f);
  add("b2", {8}, 0.29, 1);
  add("w3", {5, 8, 1, 1}, 0.71, 0.7f);
  add("b3", {5}, 0.17, 1);
  return model;
}

std::vector<Sample> MakeSamples(int count) {
  std::vector<Sample> samples;
  for (int i = 0; i < count; ++i) {
    const auto values = Wave(3 * 12 * 12, 0.013 + 0.0007 * i);
    samples.push_back({runtime::Tensor::Of<float>({1, 3, 12, 12}, values)});
  }
  return samples;
}

class RecoverTest : public testing::Test {
 protected:
  absl::StatusOr<QuantizeResult> Recover(const std::string& passes) {
    GQ_ASSIGN_OR_RETURN(const auto specs, runtime::InputSpecs(model_));
    GQ_ASSIGN_OR_RETURN(const auto data, runtime::DataSet::FromSamples(MakeSamples(16), specs));
    GQ_ASSIGN_OR_RETURN(const QuantizeConfig config, ConfigOfScheme("vint8"));
    GQ_ASSIGN_OR_RETURN(const RecoverOptions options, ParseRecover(passes));
    base::NullReporter reporter;
    return QuantizeWithRecovery(model_, config, options, *data, reporter);
  }

  const graph::Model model_ = MakeNet();
};

TEST_F(RecoverTest, NamesOfPassesAreChecked) {
  EXPECT_TRUE(ParseRecover("none")->passes.empty());
  EXPECT_EQ(ParseRecover("bias,rounding")->passes, (std::vector<std::string>{"bias", "rounding"}));
  const auto refused = ParseRecover("rounding,magic");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(base::GetReason(refused.status()), base::Reason::kInvalidFlag);
}

TEST_F(RecoverTest, RoundingWinsAndChangesNoNode) {
  const auto plain = Recover("none");
  const auto recovered = Recover("rounding");
  ASSERT_TRUE(plain.ok()) << plain.status();
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  const auto& report = recovered->report["recovery"];
  EXPECT_GT(report["after_db"].get<double>(), report["before_db"].get<double>());
  EXPECT_EQ(report["passes"][0]["name"], "rounding");
  EXPECT_EQ(report["passes"][0]["changed"], 3);

  // On samples that neither fit nor gate has seen.
  const auto others = HeldOut::Create(model_, MakeSamples(40));
  ASSERT_TRUE(others.ok()) << others.status();
  EXPECT_GT(Mean(*others->Measure(recovered->model)), Mean(*others->Measure(plain->model)) + 1);

  const auto& before = plain->model.graph();
  const auto& after = recovered->model.graph();
  ASSERT_EQ(before.node_size(), after.node_size());
  for (int i = 0; i < before.node_size(); ++i) {
    EXPECT_EQ(before.node(i).SerializeAsString(), after.node(i).SerializeAsString());
  }
  for (int i = 0; i < before.initializer_size(); ++i) {
    EXPECT_EQ(before.initializer(i).data_type(), after.initializer(i).data_type());
  }
}

// They make up for errors elsewhere, so their difference from the float model is none of a layer.
TEST_F(RecoverTest, RefittedBiasesAreNotComparedByName) {
  const auto plain = Recover("none");
  const auto recovered = Recover("rounding");
  ASSERT_TRUE(plain.ok()) << plain.status();
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  EXPECT_TRUE(ReadRescaled(plain->model).empty());
  EXPECT_EQ(ReadRescaled(recovered->model), (std::set<std::string>{"b1", "b2", "b3"}));
}

TEST_F(RecoverTest, TheSameInputsGiveTheSameBytes) {
  const auto once = Recover("auto"), again = Recover("auto");
  ASSERT_TRUE(once.ok()) << once.status();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(once->model.Digest(), again->model.Digest());
}

// What the observations say a layer computes is what ONNX Runtime computes.
TEST_F(RecoverTest, ObservationsReproduceTheLayer) {
  const auto plain = Recover("none");
  ASSERT_TRUE(plain.ok()) << plain.status();
  const auto layers = FindLayers(model_, plain->model);
  ASSERT_TRUE(layers.ok()) << layers.status();
  ASSERT_EQ(layers->size(), 3u);
  const auto specs = runtime::InputSpecs(model_);
  const auto samples = MakeSamples(2);
  StagedRun run(model_, *specs, samples);
  const std::vector<std::vector<float>> biases = {Wave(8, 0.11), Wave(8, 0.29), Wave(5, 0.17)};
  for (size_t i = 0; i < layers->size(); ++i) {
    const Layer& layer = (*layers)[i];
    const auto inputs = run.Compute(layer.float_input);
    ASSERT_TRUE(inputs.ok()) << inputs.status();
    const auto outputs = run.Compute(layer.float_output);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    const auto seen = Observe(layer.shape, (*inputs)[1], (*outputs)[1], 1000, 1);
    ASSERT_TRUE(seen.ok()) << seen.status();
    EXPECT_EQ(seen->features.rows(), 36);
    const auto weights = ToMatrices(layer.shape, layer.float_weight);
    for (int64_t group = 0; group < layer.shape.groups; ++group) {
      const RowMatrix product =
          seen->features.middleCols(group * layer.shape.inputs, layer.shape.inputs).cast<double>() *
          weights[static_cast<size_t>(group)].transpose();
      for (Eigen::Index m = 0; m < layer.shape.outputs; ++m) {
        const auto column = static_cast<size_t>(group * layer.shape.outputs + m);
        for (Eigen::Index row = 0; row < product.rows(); ++row) {
          EXPECT_NEAR(product(row, m) + biases[i][column],
                      seen->targets(row, static_cast<Eigen::Index>(column)), 1e-4);
        }
      }
    }
  }
}

}  // namespace
}  // namespace gq::quantize
