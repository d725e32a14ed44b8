#include "common/quantize/mask_ranges.h"

#include "common/base/text.h"
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

// As exporters of BERT write it: (1 - keep) * -10000. The mask's constant has to be limited as
// well: a power-of-two scheme lets the inputs of an Add differ by 7 bits at most, and the positions
// of a Mul bind its output.
TEST(MaskRangesTest, ConstantThatMakesTheMaskIsLimitedToo) {
  for (const char* lowest : {"-10000", "-1000", "-3.4e38"}) {
    const graph::Model model = ParseModel(base::StrCat(R"(
      <ir_version: 8, opset_import: ["" : 17]>
      g (float[4,4] x) => (float[4,4] y)
      <float[1,4] keep = {1, 1, 0, 0}, float one = {1}, float lowest = {)",
                                                       lowest, R"(}, float three = {3}> {
        hidden = Sub(one, keep)
        mask = Mul(hidden, lowest)
        scores = Mul(x, three)
        masked = Add(scores, mask)
        y = Softmax(masked)
      })"));
    const auto reference = RunModel(model);
    for (const char* scheme : {"vint8", "W8-A8"}) {
      const auto result = QuantizeWith(model, *ConfigOfScheme(scheme));
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_GT(SignalToNoise(*reference, *RunModel(result->model)), 20) << scheme << lowest;
    }
  }
}

}  // namespace
}  // namespace gq::quantize
