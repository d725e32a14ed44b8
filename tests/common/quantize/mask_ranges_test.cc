#include "common/quantize/mask_ranges.h"

#include "common/quantize/scheme.h"
#include "tests/common/quantize/quantize_fixture.h"

namespace gq::quantize {
namespace {

// The mask is 0 for the first two columns and the lowest float for the rest.
TEST(MaskRangesTest, MaskDoesNotTakeTheScoresSteps) {
  const graph::Model model = ParseModel(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[4,4] x) => (float[4,4] y)
    <float[1,4] hidden = {0, 0, 1, 1}, float lowest = {-3.4e38}, float three = {3}> {
      mask = Mul(hidden, lowest)
      scores = Mul(x, three)
      masked = Add(scores, mask)
      y = Softmax(masked)
    })");
  const auto reference = RunModel(model);
  for (const char* scheme : {"W8-A8", "W8-A16"}) {
    const auto result = QuantizeWith(model, *ConfigOfScheme(scheme));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_GT(SignalToNoise(*reference, *RunModel(result->model)), 25) << scheme;
  }
}

}  // namespace
}  // namespace gq::quantize
