// LSTM layers under the schemes whose ranges are found at run time.
#include <algorithm>
#include <cmath>

#include "common/quantize/scheme.h"
#include "gmock/gmock.h"
#include "tests/common/quantize/quantize_fixture.h"

namespace gq::quantize {
namespace {

using testing::HasSubstr;

constexpr int64_t kHidden = 5, kWidth = 3, kDirections = 2;

Constant Numbers(std::vector<int64_t> dims, float scale, int step) {
  Constant constant{.dims = std::move(dims)};
  int64_t count = 1;
  for (const int64_t dim : constant.dims) count *= dim;
  for (int64_t i = 0; i < count; ++i) {
    constant.values.push_back(scale * static_cast<float>((i * step + 7) % 61 - 30) / 30);
  }
  return constant;
}

const Constant kWeight = Numbers({kDirections, 4 * kHidden, kWidth}, 0.8f, 37);

graph::Model Network() {
  return ParseModel(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[4,2,3] x, float[2,2,5] h) => (float[4,2,2,5] y, float[2,2,5] c) {
      [lstm] y, last, c = LSTM <hidden_size = 5, direction = "bidirectional"> (x, w, r, b, , h)
    })",
                    {{"w", kWeight},
                     {"r", Numbers({kDirections, 4 * kHidden, kHidden}, 0.5f, 23)},
                     {"b", Numbers({kDirections, 8 * kHidden}, 0.3f, 11)}});
}

TEST(DynamicLstmTest, WeightsAreInt8AndTheRestStays) {
  for (const char* scheme : {"W8-A8_dynamic", "W4-A8_dynamic"}) {
    const graph::Model model = Network();
    const auto result = QuantizeWith(model, *ConfigOfScheme(scheme));
    ASSERT_TRUE(result.ok()) << result.status();
    const onnx::NodeProto* lstm = FindNode(result->model, "lstm");
    ASSERT_NE(lstm, nullptr);
    EXPECT_EQ(lstm->op_type(), "DynamicQuantizeLSTM");
    EXPECT_EQ(lstm->domain(), "com.microsoft");
    ASSERT_EQ(lstm->input_size(), 12);
    EXPECT_EQ(lstm->input(5), "h");
    EXPECT_GT(SignalToNoise(*RunModel(model), *RunModel(result->model)), 35);

    // Row by row: value / (largest magnitude / 127), rounded; the last two dimensions turned.
    const auto integers = result->model.Data(*result->model.FindInitializer(lstm->input(1)));
    const auto scales = result->model.Data(*result->model.FindInitializer(lstm->input(8)));
    ASSERT_TRUE(integers.ok() && scales.ok());
    EXPECT_THAT(integers->dims(), testing::ElementsAre(kDirections, kWidth, 4 * kHidden));
    EXPECT_THAT(scales->dims(), testing::ElementsAre(kDirections, 4 * kHidden));
    const int64_t rows = 4 * kHidden;
    for (int64_t row = 0; row < kDirections * rows; ++row) {
      float largest = 0;
      for (int64_t i = 0; i < kWidth; ++i) {
        largest = std::max(largest, std::abs(kWeight.values[row * kWidth + i]));
      }
      EXPECT_NEAR(scales->At(row), largest / 127, 1e-7);
      for (int64_t i = 0; i < kWidth; ++i) {
        const float exact = kWeight.values[row * kWidth + i] / (largest / 127);
        const int64_t place = (row / rows * kWidth + i) * rows + row % rows;
        EXPECT_NEAR(integers->At(place), exact, 0.5001) << row << " " << i;
      }
    }
  }
}

TEST(DynamicLstmTest, ExcludedStaysFloat) {
  QuantizeConfig config = *ConfigOfScheme("W8-A8_dynamic");
  config.exclude = {"lstm"};
  const auto excluded = QuantizeWith(Network(), config);
  ASSERT_TRUE(excluded.ok()) << excluded.status();
  EXPECT_EQ(FindNode(excluded->model, "lstm")->op_type(), "LSTM");
  EXPECT_THAT(excluded->report["layers"].dump(), HasSubstr("excluded by the configuration"));
}

}  // namespace
}  // namespace gq::quantize
