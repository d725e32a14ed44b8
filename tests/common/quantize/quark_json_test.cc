#include "common/quantize/quark_json.h"

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/quantize/mixed_precision.h"
#include "common/quantize/option_table.h"
#include "common/quantize/presets.h"
#include "common/quantize/scheme.h"
#include "gmock/gmock.h"

namespace gq::quantize {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

std::string ErrorOf(std::string_view text, bool quark = false) {
  const auto parsed = ParseQuarkJson(text, "c.json", quark);
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

constexpr std::string_view kMixed = R"({
  "global_config": {
    "input_tensors": {"spec": "XInt8Spec", "params": {"calibration_method": "CalibMethod.MinMSE"}},
    "weight": {"spec": "XInt8Spec", "params": {}},
    "bias": {"spec": "XInt8Spec", "params": {}} },
  "specific_layer_config": [
    { "target_node_names": ["^/head/.*"],
      "layer_config": {
        "input_tensors": {"spec": "BFloat16Spec", "params": {}},
        "weight": {"spec": "BFloat16Spec"},
        "bias": null } },
    { "target_node_names": [], "layer_config": {} } ],
  "exclude": {"node_names": ["stem"], "subgraphs": [[["a"], ["b", "c"]]]},
  "extra_options": {"BF16QDQToCast": true, "Int32Bias": false, "MatMulToGemm": true,
                    "Percentile": 99.9, "OpTypesToQuantize": ["Conv"]} })";

TEST(QuarkJsonTest, ReadsTheDriversDialect) {
  const auto parsed = ParseQuarkJson(kMixed, "c.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const QuantizeConfig& config = parsed->config;
  EXPECT_EQ(config.activation, XInt8Spec());
  ASSERT_EQ(config.overrides.size(), 1u);
  EXPECT_EQ(config.overrides[0].layer.weight, BFloat16Spec());
  EXPECT_FALSE(config.overrides[0].layer.bias.has_value());
  EXPECT_EQ(config.exclude, std::vector<std::string>{"stem"});
  EXPECT_EQ(config.exclude_subgraphs[0].second.size(), 2u);
  EXPECT_EQ(config.options.bf16_qdq_to_cast, true);
  EXPECT_EQ(config.options.percentile, 99.9);
  EXPECT_THAT(parsed->warnings, Contains(HasSubstr("MatMulToGemm")));
}

TEST(QuarkJsonTest, WhatIsWrittenReadsBackTheSame) {
  std::vector<QuantizeConfig> configs = {ParseQuarkJson(kMixed, "c.json")->config};
  for (const auto& scheme : AllSchemes()) configs.push_back(*ConfigOfScheme(scheme.name));
  for (const auto preset : AllPresets()) configs.push_back(*ConfigOfPreset(preset));
  configs.push_back(QuarkVint8());
  configs.back().compatibility = Compatibility::kQuark;
  configs.back().tensor_overrides["t"] = {onnx::TensorProto::BFLOAT16, true};
  const std::vector<std::string> nodes = {"n"};
  PromoteNodes(nodes, onnx::TensorProto::BFLOAT16, MixedForm::kCast, &configs.back());
  for (const auto& config : configs) {
    const auto again = ParseQuarkJson(WriteQuarkJson(config), "again", false);
    ASSERT_TRUE(again.ok()) << again.status() << WriteQuarkJson(config);
    EXPECT_EQ(WriteQuarkJson(again->config), WriteQuarkJson(config));
    EXPECT_TRUE(again->config == config) << WriteQuarkJson(config);
  }
}

TEST(QuarkJsonTest, ErrorsNameLineColumnAndPath) {
  EXPECT_THAT(ErrorOf("{\n  \"specific_layer_config\": [{\"layer_config\":\n  {\"weight\": "
                      "{\"spec\": \"NoSpec\"}}}]}"),
              AllOf(HasSubstr("line 3, column 23"),
                    HasSubstr("specific_layer_config[0].layer_config.weight.spec")));
  EXPECT_THAT(ErrorOf("{\"a\": 1, \"a\": 2}"), HasSubstr("twice"));
  EXPECT_THAT(ErrorOf("{\"extra_options\": {\"Int32Bias\": 1}}"),
              AllOf(HasSubstr("extra_options.Int32Bias"), HasSubstr("expected true or false")));
  EXPECT_THAT(ErrorOf("{,}"), HasSubstr("line 1, column 2"));
  EXPECT_THAT(ErrorOf("{\"exclude\": {\"node_names\": [\"^stem\"]}}"), HasSubstr("must contain"));
  EXPECT_EQ(ErrorOf("{\"exclude\": {\"node_names\": [\"^stem\"]}}", true), "");
}

TEST(QuarkJsonTest, RecoveryIsAListOfPasses) {
  const auto parsed = ParseQuarkJson(
      R"({"recovery": ["folding", "rounding"], "recovery_bias_bits": [32], "include_cle": true})",
      "c.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(*parsed->config.recovery, testing::ElementsAre("folding", "rounding"));
  EXPECT_TRUE(parsed->config.include_cle);
  const auto again = ParseQuarkJson(WriteQuarkJson(parsed->config), "again");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->config == parsed->config);
  EXPECT_THAT(ErrorOf("{\"recovery\": \"auto\"}"), HasSubstr("expected"));
}

TEST(QuarkJsonTest, NullWeightsAndBlockFormatsAreErrors) {
  EXPECT_THAT(ErrorOf("{\"global_config\": {\"weight\": null}}"), HasSubstr("must not be null"));
  EXPECT_THAT(ErrorOf("{\"global_config\": {\"weight\": {\"spec\": \"MX6Spec\"}}}"),
              HasSubstr("block format"));
  EXPECT_THAT(ErrorOf("{\"extra_options\": {\"Int16Scale\": true}}"), HasSubstr("not supported"));
  EXPECT_EQ(ErrorOf("{\"extra_options\": {\"Int16Scale\": false}}"), "");
}

TEST(QuarkJsonTest, SaysWhatHasNoEffect) {
  const auto parsed = ParseQuarkJson(
      R"({"global_config": {"bias": {"spec": "Int8Spec"}}, "extra_options": {"Surprise": 7}})",
      "c");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->warnings, Contains(HasSubstr("Int32Bias")));
  EXPECT_THAT(parsed->warnings, Contains(HasSubstr("Surprise")));
  EXPECT_EQ(parsed->config.unknown_options.at("Surprise"), "7");
}

TEST(OptionTableTest, IsSortedAndFindsEveryKey) {
  for (const auto& row : OptionTable()) EXPECT_EQ(FindOption(row.key), &row) << row.key;
  EXPECT_EQ(FindOption("NoSuchOption"), nullptr);
}

TEST(SchemeTest, DevicesTakeTheirSchemes) {
  EXPECT_TRUE(CheckScheme("vint8", "ve2").ok());
  EXPECT_TRUE(CheckScheme("vint8", "ve2-xc2ve3858").ok());
  EXPECT_TRUE(CheckScheme("W8-A8", "xnnpack-cpu").ok());
  EXPECT_TRUE(CheckScheme("W8-A16", "ethos-u55").ok());
  for (const auto& [scheme, device] :
       std::vector<std::pair<std::string, std::string>>{{"W8-A8", "ve2"},
                                                        {"vint8", "xnnpack-cpu"},
                                                        {"W8-A16", "xnnpack-cpu"},
                                                        {"W4-A8_dynamic", "ethos-u55"},
                                                        {"int9", "ve2"}}) {
    EXPECT_EQ(base::GetReason(CheckScheme(scheme, device)), base::Reason::kSchemeIllegal);
  }
}

}  // namespace
}  // namespace gq::quantize
