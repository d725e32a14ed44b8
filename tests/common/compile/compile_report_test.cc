#include "common/compile/compile_report.h"

#include <gtest/gtest.h>

namespace gq::compile {
namespace {

using Json = nlohmann::ordered_json;

TEST(CompileReportTest, TheOptionsComeBackFromTheReport) {
  CompilerOptions options;
  options.device = "ve2-xc2ve3558";
  options.optimize_level = 3;
  options.f32_to_bf16 = false;
  options.fe_args = {"match-power-of-two-quant-kernel=1", "edge-quantization-in-rt=1"};
  options.dp_size = 2;
  options.tp_size = 1;
  options.threshold_gops_percent = 0;
  options.keep_outputs = false;
  options.preferred_data_storage = "vectorized";
  options.logging_level = "debug";
  const auto read = OptionsOfReport({{"class", "TWO_ISLAND"}, {"options", OptionsJson(options)}});
  ASSERT_TRUE(read);
  EXPECT_EQ(FormatVitisaiConfig(*read), FormatVitisaiConfig(options));
  EXPECT_FALSE(read->f32_to_f16);
}

TEST(CompileReportTest, WithoutOptionsThereAreNone) {
  EXPECT_FALSE(OptionsOfReport(nullptr));
  EXPECT_FALSE(OptionsOfReport(Json::object()));
  EXPECT_FALSE(OptionsOfReport({{"options", "none"}}));
  // Values of another kind are left alone.
  const auto read = OptionsOfReport({{"options", {{"dp_size", "three"}, {"fe_args", 7}}}});
  ASSERT_TRUE(read);
  EXPECT_EQ(read->dp_size, 1);
  EXPECT_TRUE(read->fe_args.empty());
}

}  // namespace
}  // namespace gq::compile
