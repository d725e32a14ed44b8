// Biases of more than eight bits where they are worth it.
#include "common/quantize/recover/wide_bias.h"

#include <cmath>

#include "common/base/status.h"
#include "common/quantize/recover/held_out.h"
#include "common/quantize/recover/recover.h"
#include "common/quantize/scheme.h"
#include "gmock/gmock.h"
#include "tests/common/quantize/quantize_fixture.h"

namespace gq::quantize {
namespace {

// The bias of the convolution all but cancels what the mean of the input contributes, so that it is
// fifty times as large as the output: as int8 its steps are those of a 1 / 2.5 of the output.
class WideBiasTest : public testing::Test {
 protected:
  WideBiasTest() {
    model_ = ParseModel(R"(
<ir_version: 8, opset_import: ["" : 17]>
net (float[1,2,4,4] x) => (float[1,3,4,4] y)
{
  c = Conv <kernel_shape = [1,1]> (x, w, b)
  y = Relu (c)
}
)",
                        {{"w", {{3, 2, 1, 1}, {1, 0.5f, -0.75f, 1, 0.5f, 1}}},
                         {"b", {{3}, {-11.6f, -1.83f, -11.57f}}}});
  }

  // Values around 8, which differ from place to place.
  static std::vector<Sample> Samples(int count, int first) {
    std::vector<Sample> samples;
    for (int i = first; i < first + count; ++i) {
      std::vector<float> values(32);
      for (size_t k = 0; k < values.size(); ++k) {
        values[k] = 8 + 0.25f * std::sin(0.7f * static_cast<float>(k * k + 3 * k) +
                                         1.3f * static_cast<float>(i));
      }
      samples.push_back({runtime::Tensor::Of<float>({1, 2, 4, 4}, values)});
    }
    return samples;
  }

  absl::StatusOr<QuantizeResult> Recover(const std::string& passes, std::vector<int> bits) {
    GQ_ASSIGN_OR_RETURN(const auto specs, runtime::InputSpecs(model_));
    GQ_ASSIGN_OR_RETURN(const auto data, runtime::DataSet::FromSamples(Samples(16, 0), specs));
    GQ_ASSIGN_OR_RETURN(const QuantizeConfig config, ConfigOfScheme("vint8"));
    GQ_ASSIGN_OR_RETURN(RecoverOptions options, ParseRecover(passes));
    options.bias_bits = std::move(bits);
    base::NullReporter reporter;
    return QuantizeWithRecovery(model_, config, options, *data, reporter);
  }

  double ErrorOn(const graph::Model& quantized) {
    const auto others = HeldOut::Create(model_, Samples(8, 100));
    return Mean(*others->Measure(quantized));
  }

  // Initializer of a DequantizeLinear that the convolution reads.
  static const onnx::TensorProto* ConstantOf(const graph::Model& model, int input, int of_pair) {
    const onnx::NodeProto* conv = ProducerOf(model, "c");
    if (conv == nullptr) {
      for (const auto& node : model.graph().node()) {
        if (node.op_type() == "Conv") conv = &node;
      }
    }
    const onnx::NodeProto* pair = ProducerOf(model, conv->input(input));
    return model.FindInitializer(pair->input(of_pair));
  }

  static double Scalar(const graph::Model& model, const onnx::TensorProto* tensor) {
    return model.Data(*tensor)->At(0);
  }

  graph::Model model_;
};

TEST_F(WideBiasTest, IsKeptForItsGain) {
  const auto plain = Recover("none", {32});
  const auto wide = Recover("wide-bias", {32});
  ASSERT_TRUE(plain.ok()) << plain.status();
  ASSERT_TRUE(wide.ok()) << wide.status();
  const auto& pass = wide->report["recovery"]["passes"][0];
  EXPECT_EQ(pass["name"], "wide-bias");
  EXPECT_EQ(pass["changed"], 1);
  EXPECT_EQ(pass["kept"], true) << pass;
  EXPECT_GE(pass["gain_db"].get<double>(), 0.5);
  EXPECT_EQ(ConstantOf(plain->model, 2, 0)->data_type(), onnx::TensorProto::INT8);
  EXPECT_EQ(ConstantOf(wide->model, 2, 0)->data_type(), onnx::TensorProto::INT32);
  EXPECT_EQ(wide->model.Opset(), plain->model.Opset());
  EXPECT_GT(ErrorOn(wide->model), ErrorOn(plain->model) + 0.5);
}

// What int32 holds counts in units of the accumulator, also after the weights were fitted anew.
TEST_F(WideBiasTest, StaysInUnitsOfTheAccumulator) {
  const auto wide = Recover("wide-bias,rounding", {32});
  ASSERT_TRUE(wide.ok()) << wide.status();
  if (ConstantOf(wide->model, 2, 0)->data_type() != onnx::TensorProto::INT32) {
    GTEST_SKIP() << "the weights made up for the bias";
  }
  const double unit = Scalar(wide->model, ConstantOf(wide->model, 0, 1)) *
                      Scalar(wide->model, ConstantOf(wide->model, 1, 1));
  EXPECT_EQ(Scalar(wide->model, ConstantOf(wide->model, 2, 1)), unit);
}

TEST_F(WideBiasTest, TakesTheWidthThatTheDeviceHas) {
  const auto none = Recover("wide-bias", {});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->report["recovery"]["passes"][0]["changed"], 0);
  EXPECT_EQ(ConstantOf(none->model, 2, 0)->data_type(), onnx::TensorProto::INT8);
  const auto narrow = Recover("wide-bias", {16});
  ASSERT_TRUE(narrow.ok()) << narrow.status();
  EXPECT_EQ(ConstantOf(narrow->model, 2, 0)->data_type(), onnx::TensorProto::INT16);
  EXPECT_GE(narrow->model.Opset(), 21);
}

// Nothing is to be won where the bias is small.
TEST_F(WideBiasTest, StaysInt8WhereThatIsEnough) {
  model_ = ParseModel(
      R"(
<ir_version: 8, opset_import: ["" : 17]>
net (float[1,2,4,4] x) => (float[1,3,4,4] y)
{
  c = Conv <kernel_shape = [1,1]> (x, w, b)
  y = Relu (c)
}
)",
      {{"w", {{3, 2, 1, 1}, {1, 0.5f, -0.75f, 1, 0.5f, 1}}}, {"b", {{3}, {0.1f, -0.02f, 0.05f}}}});
  const auto kept = Recover("wide-bias", {32});
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->report["recovery"]["passes"][0]["kept"], false);
  EXPECT_EQ(ConstantOf(kept->model, 2, 0)->data_type(), onnx::TensorProto::INT8);
}

}  // namespace
}  // namespace gq::quantize
