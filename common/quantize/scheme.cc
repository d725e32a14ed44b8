#include "common/quantize/scheme.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/quantize/mixed_precision.h"
#include "common/quantize/presets.h"

namespace gq::quantize {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;
using onnx::TensorProto;

constexpr std::string_view kVe2[] = {"ve2", "stx"};
constexpr std::string_view kVe2Only[] = {"ve2"};
constexpr std::string_view kArm[] = {"xnnpack", "ethos-u"};
constexpr std::string_view kXnnpack[] = {"xnnpack"};
constexpr std::string_view kEthosU[] = {"ethos-u"};

constexpr SchemeInfo kSchemes[] = {
    {.name = "vint8",
     .weights = "int8, power-of-two scale per tensor",
     .activations = "int8, power-of-two scale",
     .choose_when = "First choice on VE2: the fastest, with alignment to the NPU's arithmetic.",
     .devices = kVe2},
    {.name = "bf16",
     .weights = "bfloat16",
     .activations = "bfloat16",
     .choose_when = "When int8 is not accurate enough; needs no calibration data.",
     .needs_calibration = false,
     .devices = kVe2},
    {.name = "fp16",
     .weights = "float16",
     .activations = "float16",
     .choose_when = "As bf16 with more mantissa bits, for values below 65504; VE2 only.",
     .needs_calibration = false,
     .devices = kVe2Only},
    {.name = "vint8+bf16",
     .weights = "int8, some layers bfloat16",
     .activations = "int8, some layers bfloat16",
     .choose_when = "When a few layers spoil vint8: the search finds them.",
     .devices = kVe2},
    {.name = "vint8+fp16",
     .weights = "int8, some layers float16",
     .activations = "int8, some layers float16",
     .choose_when = "As vint8+bf16 where float16 keeps more detail; VE2 only.",
     .devices = kVe2Only},
    {.name = "xint8",
     .weights = "int8, power-of-two scale per tensor",
     .activations = "int8, power-of-two scale",
     .choose_when = "Quark's XINT8 with the NPU's operator set, HardSigmoid for Sigmoid included.",
     .devices = kVe2},
    {.name = "W8-A8",
     .weights = "int8, one scale a channel",
     .activations = "int8, static, asymmetric",
     .choose_when = "First choice on XNNPACK and Ethos-U: the most tested.",
     .devices = kArm},
    {.name = "W8-A8_dynamic",
     .weights = "int8",
     .activations = "int8 at run time",
     .choose_when = "When ranges change from input to input; needs no calibration data.",
     .needs_calibration = false,
     .devices = kXnnpack},
    {.name = "W4-A8_dynamic",
     .weights = "int4 in blocks",
     .activations = "int8 at run time",
     .choose_when = "For the smallest weights, language models above all.",
     .needs_calibration = false,
     .devices = kXnnpack},
    {.name = "W8-A16",
     .weights = "int8, one scale a channel",
     .activations = "int16, static, symmetric",
     .choose_when = "On Ethos-U when W8-A8 loses too much.",
     .devices = kEthosU},
};

// Devices are named after their family: ve2-xc2ve3858, xnnpack-cpu, ethos-u-85.
bool Takes(const SchemeInfo& scheme, std::string_view device) {
  return std::any_of(scheme.devices.begin(), scheme.devices.end(),
                     [&](std::string_view family) { return device.starts_with(family); });
}

std::vector<std::string_view> Names() {
  std::vector<std::string_view> names;
  for (const auto& scheme : kSchemes) names.push_back(scheme.name);
  return names;
}

// The NPU path that Quark's XInt8 on both sides means; Sigmoid and Clip stay what they are.
QuantizeConfig Vint8() {
  QuantizeConfig config = Vint8Npu();
  config.options.convert_sigmoid_to_hard_sigmoid = false;
  config.options.convert_clip_to_relu = false;
  return config;
}

QuantizeConfig ReducedFloat(const TensorSpec& spec, std::string_view scheme) {
  QuantizeConfig config;
  config.scheme = std::string(scheme);
  config.activation = spec;
  config.weight = spec;
  config.options.force_quantize_no_input_check = true;
  config.options.use_random_data = false;
  config.options.bf16_qdq_to_cast = true;
  // Stored in 16 bits instead of float32 behind a pair.
  config.options.add_qdq_pair_to_weight = false;
  return config;
}

QuantizeConfig W8A8() {
  QuantizeConfig config;
  config.scheme = "W8-A8";
  config.activation = {.type = TensorProto::INT8, .symmetric = false};
  config.weight = {.type = TensorProto::INT8, .granularity = Granularity::kChannel};
  config.options.use_random_data = false;
  return config;
}

QuantizeConfig W8A16() {
  QuantizeConfig config = W8A8();
  config.scheme = "W8-A16";
  config.activation = {.type = TensorProto::INT16, .symmetric = true};
  return config;
}

QuantizeConfig Dynamic(DynamicForm form) {
  QuantizeConfig config = W8A8();
  config.dynamic = form;
  config.scheme = form == DynamicForm::kInt8 ? "W8-A8_dynamic" : "W4-A8_dynamic";
  if (form == DynamicForm::kInt4Blocks) {
    config.weight.type = TensorProto::INT4;
    config.weight.granularity = Granularity::kGroup;
  }
  return config;
}

QuantizeConfig Named(QuantizeConfig config, std::string_view scheme) {
  config.scheme = std::string(scheme);
  return config;
}

struct PresetRow {
  std::string_view name;
  QuantizeConfig (*make)();
};

constexpr PresetRow kPresets[] = {
    {"full_vint8", Vint8},
    {"full_bf16", [] { return ReducedFloat(BFloat16Spec(), "bf16"); }},
    {"full_fp16", [] { return ReducedFloat(Float16Spec(), "fp16"); }},
    {"vint8_bf16_head_tail", [] { return Named(Vint8(), "vint8+bf16"); }},
    {"xint8", QuarkXint8},
    {"xint8_legacy", QuarkXint8Legacy},
    {"w8a8", W8A8},
    {"w8a8_dynamic", [] { return Dynamic(DynamicForm::kInt8); }},
    {"w4a8_dynamic", [] { return Dynamic(DynamicForm::kInt4Blocks); }},
    {"w8a16", W8A16},
};

}  // namespace

std::span<const SchemeInfo> AllSchemes() { return kSchemes; }

const SchemeInfo* FindScheme(std::string_view name) {
  for (const auto& scheme : kSchemes) {
    if (scheme.name == name) return &scheme;
  }
  return nullptr;
}

std::vector<std::string_view> SchemesOf(std::string_view device) {
  std::vector<std::string_view> names;
  for (const auto& scheme : kSchemes) {
    if (Takes(scheme, device)) names.push_back(scheme.name);
  }
  return names;
}

absl::Status CheckScheme(std::string_view scheme, std::string_view device) {
  const SchemeInfo* info = FindScheme(scheme);
  if (info == nullptr) {
    return MakeError(Reason::kSchemeIllegal, StrCat("There is no scheme '", scheme, "'"),
                     StrCat("Schemes: ", base::StrJoin(Names(), ", "), "."));
  }
  if (Takes(*info, device)) return absl::OkStatus();
  const auto legal = SchemesOf(device);
  return MakeError(Reason::kSchemeIllegal,
                   StrCat("Device '", device, "' does not take the scheme '", scheme, "'"),
                   legal.empty()
                       ? StrCat("No scheme is known for this device; schemes belong to ve2, stx, "
                                "xnnpack-* and ethos-u-*.")
                       : StrCat("It takes ", base::StrJoin(legal, ", "), "."));
}

absl::StatusOr<QuantizeConfig> ConfigOfScheme(std::string_view scheme, MixedForm form) {
  if (scheme == "vint8") return Vint8();
  if (scheme == "vint8+bf16" || scheme == "vint8+fp16") {
    QuantizeConfig config = Named(Vint8(), scheme);
    if (form == MixedForm::kCast) config.options.convert_split_to_slice = true;
    return config;
  }
  if (scheme == "bf16") return ReducedFloat(BFloat16Spec(), "bf16");
  if (scheme == "fp16") return ReducedFloat(Float16Spec(), "fp16");
  if (scheme == "xint8") return QuarkXint8();
  if (scheme == "W8-A8") return W8A8();
  if (scheme == "W8-A16") return W8A16();
  if (scheme == "W8-A8_dynamic") return Dynamic(DynamicForm::kInt8);
  if (scheme == "W4-A8_dynamic") return Dynamic(DynamicForm::kInt4Blocks);
  return MakeError(Reason::kConfigInvalid, StrCat("There is no scheme '", scheme, "'"),
                   StrCat("Schemes: ", base::StrJoin(Names(), ", "), "."));
}

absl::StatusOr<QuantizeConfig> ConfigOfPreset(std::string_view preset) {
  if (preset.ends_with(".json")) preset.remove_suffix(5);
  for (const auto& row : kPresets) {
    if (row.name == preset) return row.make();
  }
  return MakeError(Reason::kConfigInvalid,
                   StrCat("There is no built-in configuration '", preset, "'"),
                   StrCat("Built-in: ", base::StrJoin(AllPresets(), ", "),
                          "; anything else is the path of a JSON file."));
}

std::span<const std::string_view> AllPresets() {
  static constexpr std::string_view kNames[] = {
      "full_vint8",   "full_bf16", "full_fp16",    "vint8_bf16_head_tail", "xint8",
      "xint8_legacy", "w8a8",      "w8a8_dynamic", "w4a8_dynamic",         "w8a16"};
  return kNames;
}

}  // namespace gq::quantize
