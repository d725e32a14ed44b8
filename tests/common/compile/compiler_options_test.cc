#include "common/compile/compiler_options.h"

#include <gtest/gtest.h>

#include "common/base/status.h"
#include "common/compile/device.h"

namespace gq::compile {
namespace {

using base::Reason;

Classification Of(ModelClass model_class, FloatForm form = FloatForm::kBf16) {
  Classification c;
  c.model_class = model_class;
  c.float_form = form;
  return c;
}

// The whole file, as the VE2 workflow has it (section f.3) with the values of each class (f.2).
std::string Golden(const std::string& conversion, const std::string& fe_args) {
  return R"({
  "passes": [
    {
      "name": "init",
      "plugin": "vaip-pass_init"
    },
    {
      "name": "vaiml_partition",
      "plugin": "vaip-pass_vaiml_partition",
      "vaiml_config": {
        "device": "ve2-xc2ve3858",
        "keep_outputs": true,
        "optimize_level": 2,
)" + conversion +
         R"(        "logging_level": "info",
        "fe_args": ")" +
         fe_args + R"("
      }
    }
  ],
  "target": "VAIML",
  "targets": [
    {
      "name": "VAIML",
      "pass": [
        "init",
        "vaiml_partition"
      ]
    }
  ]
}
)";
}

constexpr char kBf16On[] = "        \"enable_f32_to_bf16_conversion\": true,\n";
constexpr char kBf16Off[] = "        \"enable_f32_to_bf16_conversion\": false,\n";
constexpr char kFp16On[] =
    "        \"enable_f32_to_bf16_conversion\": false,\n"
    "        \"enable_f32_to_f16_conversion\": true,\n";
constexpr char kMatch[] = "match-power-of-two-quant-kernel=1";

std::string FileOf(const Classification& c) {
  return FormatVitisaiConfig(DefaultOptions(c, "ve2"));
}

TEST(CompilerOptionsTest, EveryClassHasItsFile) {
  EXPECT_EQ(FileOf(Of(ModelClass::kPureVint8)), Golden(kBf16Off, ""));
  EXPECT_EQ(FileOf(Of(ModelClass::kTwoIsland)), Golden(kBf16On, kMatch));
  EXPECT_EQ(FileOf(Of(ModelClass::kMultiIsland)), Golden(kBf16On, kMatch));
  EXPECT_EQ(FileOf(Of(ModelClass::kPureFloat)), Golden(kBf16On, ""));
  EXPECT_EQ(FileOf(Of(ModelClass::kSpecialized)), Golden("", ""));
  Classification mx = Of(ModelClass::kSpecialized);
  mx.has_mx = true;
  EXPECT_EQ(FileOf(mx), Golden("", "match-conv-mx6=1 match-gemm-mx6=1"));
}

TEST(CompilerOptionsTest, TheFp16VariantConvertsToFp16) {
  EXPECT_EQ(FileOf(Of(ModelClass::kTwoIsland, FloatForm::kFp16)), Golden(kFp16On, kMatch));
  EXPECT_EQ(FileOf(Of(ModelClass::kPureFloat, FloatForm::kFp16)), Golden(kFp16On, ""));
}

TEST(CompilerOptionsTest, OverridesChangeOneFieldEach) {
  CompilerOptions options = DefaultOptions(Of(ModelClass::kPureFloat), "ve2-xc2ve3558");
  for (const char* text : {"dp_size=2", "tp_size=3", "optimize_level=3", "keep_outputs=false",
                           "threshold_gops_percent=5", "preferred_data_storage=vectorized",
                           "logging_level=debug", "fe_args+=a=1", "fe_args+=b=2 a=3"}) {
    ASSERT_TRUE(ApplyOption(text, false, options).ok()) << text;
  }
  EXPECT_EQ(options.dp_size, 2);
  EXPECT_EQ(options.tp_size, 3);
  EXPECT_EQ(options.fe_args, (std::vector<std::string>{"b=2", "a=3"}));
  EXPECT_TRUE(CheckOptions(options).ok());
  const std::string file = FormatVitisaiConfig(options);
  for (const char* line :
       {"\"device\": \"ve2-xc2ve3558\"", "\"keep_outputs\": false", "\"optimize_level\": 3",
        "\"fe_args\": \"b=2 a=3\"", "\"dp_size\": 2", "\"tp_size\": 3",
        "\"threshold_gops_percent\": 5,", "\"preferred_data_storage\": \"vectorized\""}) {
    EXPECT_NE(file.find(line), std::string::npos) << line << file;
  }
  ASSERT_TRUE(ApplyOption("fe_args=c=1", false, options).ok());
  EXPECT_EQ(options.fe_args, (std::vector<std::string>{"c=1"}));
}

TEST(CompilerOptionsTest, BadOverridesAreRefused) {
  CompilerOptions options;
  for (const char* text : {"", "dp_size", "=1", "dp_size=0", "dp_size=10", "dp_size=1x",
                           "tp_size=-1", "optimize_level=0", "threshold_gops_percent=101",
                           "threshold_gops_percent=nan", "keep_outputs=yes", "device+=x",
                           "preferred_data_storage=none", "fe_args=a;rm", "nothing=1"}) {
    EXPECT_EQ(base::GetReason(ApplyOption(text, true, options)), Reason::kInvalidFlag) << text;
  }
  EXPECT_EQ(base::GetHint(ApplyOption("dpsize=1", true, options)), "Did you mean dp_size?");
}

TEST(CompilerOptionsTest, WhatAltersNumericsNeedsConsent) {
  CompilerOptions options;
  for (const char* text : {"fe_args+=unsafe-math-optimizations=1", "fe_args+=use-accurate-mode=1",
                           "fe_args+=edge-quantization-in-rt=1"}) {
    EXPECT_EQ(base::GetReason(ApplyOption(text, false, options)), Reason::kConsentRequired);
    EXPECT_TRUE(ApplyOption(text, true, options).ok());
  }
  CompilerOptions edge;
  EXPECT_EQ(base::GetReason(ApplyEdgeQuant(EdgeQuant::kInput, false, edge)),
            Reason::kConsentRequired);
  EXPECT_TRUE(ApplyEdgeQuant(EdgeQuant::kInput, true, edge).ok());
  EXPECT_EQ(edge.fe_args, (std::vector<std::string>{"input-quantization-in-rt=1"}));
  EXPECT_EQ(base::GetReason(ParseEdgeQuant("left").status()), Reason::kInvalidFlag);
}

// Vectors: columns = tp * dp * 4.
TEST(CompilerOptionsTest, ColumnsMustFitTheDevice) {
  EXPECT_EQ(ColumnsUsed(1, 1), 4);
  EXPECT_EQ(ColumnsUsed(2, 1), 8);
  EXPECT_EQ(ColumnsUsed(3, 3), 36);
  EXPECT_EQ(ColumnsUsed(3, 2), 24);
  EXPECT_EQ(FindDevice("ve2-xc2ve3858")->columns, 36);
  EXPECT_EQ(FindDevice("xc2ve3558")->columns, 24);
  EXPECT_EQ(FindDevice("ve2-xc2ve3358")->columns, 8);
  const auto fits = [](const char* device, int tp, int dp) {
    CompilerOptions options;
    options.device = device;
    options.tp_size = tp;
    options.dp_size = dp;
    return CheckOptions(options).ok();
  };
  EXPECT_TRUE(fits("ve2-xc2ve3858", 3, 3));
  EXPECT_FALSE(fits("ve2-xc2ve3858", 4, 3));
  EXPECT_TRUE(fits("ve2-xc2ve3558", 3, 2));
  EXPECT_FALSE(fits("ve2-xc2ve3558", 3, 3));
  EXPECT_TRUE(fits("ve2-xc2ve3358", 2, 1));
  EXPECT_FALSE(fits("ve2-xc2ve3358", 2, 2));
  CompilerOptions unknown;
  unknown.device = "ve9";
  EXPECT_EQ(base::GetReason(CheckOptions(unknown)), Reason::kDeviceUnknown);
}

}  // namespace
}  // namespace gq::compile
