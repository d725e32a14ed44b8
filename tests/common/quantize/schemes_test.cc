// Every scheme on a small network with all kinds of compute layers: it runs, is valid and is as
// accurate as its number of bits promises.
#include <set>

#include "common/graph/analysis.h"
#include "common/quantize/quark_json.h"
#include "common/quantize/scheme.h"
#include "gmock/gmock.h"
#include "tests/common/quantize/quantize_fixture.h"

namespace gq::quantize {
namespace {

// Weights are a fixed pseudo-random sequence, so that the test needs no file.
graph::Model Network() {
  uint32_t state = 1;
  const auto random = [&](std::vector<int64_t> dims, float scale) {
    Constant constant{.dims = dims};
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    for (int64_t i = 0; i < count; ++i) {
      state = state * 1664525u + 1013904223u;
      constant.values.push_back(scale * (static_cast<float>(state >> 8) / 8388608.0f - 1));
    }
    return constant;
  };
  return ParseModel(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,8,8] x) => (float[1,10] y)
    <int64[2] shape = {1, 512}> {
      [conv] a = Conv <kernel_shape = [3,3], pads = [1,1,1,1]> (x, cw, cb)
      [relu] b = Relu(a)
      [flat] c = Reshape(b, shape)
      [gemm] d = Gemm <transB = 1> (c, gw, gb)
      [tanh] e = Tanh(d)
      [matmul] y = MatMul(e, mw)
    })",
                    {{"cw", random({8, 4, 3, 3}, 0.3f)},
                     {"cb", random({8}, 0.5f)},
                     {"gw", random({64, 512}, 0.05f)},
                     {"gb", random({64}, 0.2f)},
                     {"mw", random({64, 10}, 0.3f)}});
}

struct SchemeCase {
  const char* scheme;
  double least_db;
};

class SchemesTest : public testing::TestWithParam<SchemeCase> {};

TEST_P(SchemesTest, RunsAndIsAccurate) {
  const graph::Model model = Network();
  const auto config = ConfigOfScheme(GetParam().scheme);
  ASSERT_TRUE(config.ok());
  const auto result = QuantizeWith(model, *config);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(graph::CheckModel(result->model).ok());
  EXPECT_GT(SignalToNoise(*RunModel(model), *RunModel(result->model)), GetParam().least_db);
  EXPECT_EQ(result->report["sanity"]["finite"], true) << result->report["sanity"];
  EXPECT_EQ(result->model.proto().producer_name(), "gq");
  EXPECT_LT(result->report["sizes"]["quantized_bytes"], result->report["sizes"]["float_bytes"]);
}

TEST_P(SchemesTest, EveryTensorHasAStaticType) {
  const auto result = QuantizeWith(Network(), *ConfigOfScheme(GetParam().scheme));
  ASSERT_TRUE(result.ok()) << result.status();
  const graph::GraphIndex index(result->model.graph());
  for (const auto& node : result->model.graph().node()) {
    for (const auto& output : node.output()) {
      if (output.empty()) continue;
      EXPECT_TRUE(index.StaticShape(output).has_value()) << node.op_type() << " " << output;
      EXPECT_NE(index.ElemType(output), 0) << output;
    }
  }
}

TEST_P(SchemesTest, SameInputsGiveTheSameBytes) {
  const auto config = ConfigOfScheme(GetParam().scheme);
  const auto first = QuantizeWith(Network(), *config);
  const auto again = ParseQuarkJson(WriteQuarkJson(*config), "saved");
  ASSERT_TRUE(first.ok() && again.ok());
  const auto second = QuantizeWith(Network(), again->config);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(first->model.ToInlineProto()->SerializeAsString(),
            second->model.ToInlineProto()->SerializeAsString());
}

INSTANTIATE_TEST_SUITE_P(
    All, SchemesTest,
    testing::Values(SchemeCase{"vint8", 20}, SchemeCase{"xint8", 20}, SchemeCase{"bf16", 38},
                    SchemeCase{"fp16", 55}, SchemeCase{"W8-A8", 28}, SchemeCase{"W8-A16", 38},
                    SchemeCase{"W8-A8_dynamic", 28}, SchemeCase{"W4-A8_dynamic", 14},
                    SchemeCase{"vint8+bf16", 20}, SchemeCase{"vint8+fp16", 20}),
    [](const auto& info) {
      std::string name;
      for (const char c : std::string(info.param.scheme)) name += std::isalnum(c) ? c : '_';
      return name;
    });

TEST(ReportTest, NamesPartsOfTheContract) {
  const auto result = QuantizeWith(Network(), *ConfigOfScheme("vint8"));
  ASSERT_TRUE(result.ok()) << result.status();
  for (const char* key :
       {"scheme", "engine", "strategy", "config_digest", "calibration", "tensors", "layers",
        "counts", "sizes", "alignment", "passes", "sanity", "warnings", "seconds"}) {
    EXPECT_TRUE(result->report.contains(key)) << key;
  }
  std::set<std::string> classes;
  for (const auto& tensor : result->report["tensors"]) classes.insert(tensor["class"]);
  EXPECT_EQ(classes, (std::set<std::string>{"activation", "bias", "weight"}));
  EXPECT_EQ(result->report["layers"].size(), 6u);
}

TEST(NamesTest, TakenNamesAreLeftAlone) {
  const graph::Model model = ParseModel(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4] x) => (float[1,4] y)
    <float x_scale = {2}, float y_zero_point = {3}> {
      [x_QuantizeLinear] x_QuantizeLinear_Output = Mul(x, x_scale)
      [y_DequantizeLinear] y = Add(x_QuantizeLinear_Output, y_zero_point)
    })");
  for (const char* scheme : {"vint8", "W8-A8"}) {
    const auto result = QuantizeWith(model, *ConfigOfScheme(scheme));
    ASSERT_TRUE(result.ok()) << result.status();
    std::set<std::string> names;
    for (const auto& node : result->model.graph().node()) {
      EXPECT_TRUE(names.insert(node.name()).second) << node.name();
    }
    EXPECT_GT(SignalToNoise(*RunModel(model), *RunModel(result->model)), 25) << scheme;
  }
}

}  // namespace
}  // namespace gq::quantize
