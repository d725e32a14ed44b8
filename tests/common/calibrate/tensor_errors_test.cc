#include "common/calibrate/tensor_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "onnx/defs/parser.h"

namespace gq::calibrate {
namespace {

using runtime::DataSet;
using runtime::Tensor;

graph::Model Parse(const char* text) {
  onnx::ModelProto proto;
  const auto status = onnx::OnnxParser::Parse(proto, text);
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return *graph::Model::FromProto(std::move(proto));
}

TEST(TensorErrorsTest, SumsOverSamplesInOnePassOrSeveral) {
  const graph::Model reference = Parse(R"(
<ir_version: 8, opset_import: ["" : 17]>
float_model (float[1, 2] x) => (float[1, 2] y)
<float[1] one = {1}, float[1, 2] inner>
{ inner = Add(x, one)
  y = Neg(inner) })");
  const graph::Model candidate = Parse(R"(
<ir_version: 8, opset_import: ["" : 18]>
candidate (float[1, 2] x) => (float[1, 2] y)
<float[1] more = {1.5}, float[1, 2] other>
{ other = Add(x, more)
  y = Neg(other) })");
  const std::vector<float> first = {1, 2};
  const std::vector<float> second = {-1, 4};
  const auto data = DataSet::FromSamples(
      {{Tensor::Of<float>({1, 2}, first)}, {Tensor::Of<float>({1, 2}, second)}},
      *runtime::InputSpecs(reference));
  ASSERT_TRUE(data.ok()) << data.status();
  const std::vector<TensorPair> pairs = {
      {"x", "x"}, {"inner", "other"}, {"y", "y"}, {"one", "more"}, {"inner2", "other"}};
  base::NullReporter reporter;
  for (const int64_t max_bytes : {int64_t{1}, int64_t{1} << 20}) {
    const auto errors =
        CompareTensors(reference, candidate, pairs, **data, {.max_bytes = max_bytes}, reporter);
    ASSERT_TRUE(errors.ok()) << errors.status();
    EXPECT_EQ(errors->size(), 3u);
    const TensorError& inner = errors->at("inner");
    EXPECT_EQ(inner.signal, 4 + 9 + 0 + 25);
    EXPECT_EQ(inner.noise, 4 * 0.25);
    EXPECT_EQ(inner.max_abs, 0.5);
    EXPECT_EQ(inner.elements, 4);
    EXPECT_DOUBLE_EQ(inner.SnrDb(), 10 * std::log10(38.0));
    EXPECT_EQ(errors->at("y").noise, 1);
    EXPECT_TRUE(std::isinf(errors->at("x").SnrDb()));
  }
}

}  // namespace
}  // namespace gq::calibrate
