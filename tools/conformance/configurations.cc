#include "tools/conformance/configurations.h"

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/quantize/presets.h"

namespace gq::conformance {
namespace {

using quantize::CalibrationMethod;
using quantize::Granularity;
using quantize::QuantizeConfig;
using quantize::TensorSpec;

using Maker = QuantizeConfig (*)(const CaseTargets&);

TensorSpec With(TensorSpec spec, CalibrationMethod method,
                Granularity granularity = Granularity::kTensor) {
  spec.method = method;
  spec.granularity = granularity;
  return spec;
}

QuantizeConfig Of(TensorSpec activation, TensorSpec weight) {
  QuantizeConfig config;
  config.activation = activation;
  config.weight = weight;
  config.options.use_random_data = false;
  return config;
}

QuantizeConfig Excluding(QuantizeConfig config, const CaseTargets& targets) {
  config.exclude = targets.exclude;
  return config;
}

QuantizeConfig Equalizing(QuantizeConfig config) {
  config.include_cle = true;
  return config;
}

QuantizeConfig Vint8With(auto change) {
  QuantizeConfig config = quantize::QuarkVint8();
  change(config.options);
  return config;
}

QuantizeConfig Xint8With(auto change) {
  QuantizeConfig config = quantize::QuarkXint8();
  change(config.options);
  return config;
}

QuantizeConfig Bf16With(auto change) {
  QuantizeConfig config = quantize::QuarkBf16();
  change(config.options);
  return config;
}

QuantizeConfig Mixed(const CaseTargets& targets) {
  QuantizeConfig config = Of(quantize::XInt8Spec(), quantize::XInt8Spec());
  config.bias = quantize::XInt8Spec();
  config.overrides.push_back({.targets = targets.mixed_pattern,
                              .layer = {.input_tensors = quantize::BFloat16Spec(),
                                        .weight = quantize::BFloat16Spec(),
                                        .bias = quantize::BFloat16Spec()}});
  config.options.int32_bias = false;
  return config;
}

QuantizeConfig MixedCastDual(const CaseTargets& targets) {
  QuantizeConfig config = Mixed(targets);
  config.options.enable_dual_quant_node_pairs = true;
  config.options.bf16_qdq_to_cast = true;
  return config;
}

QuantizeConfig MixedOut(const CaseTargets& targets) {
  QuantizeConfig config = Mixed(targets);
  config.overrides[0].layer.output_tensors = quantize::BFloat16Spec();
  config.options.enable_dual_quant_node_pairs = true;
  return config;
}

QuantizeConfig MixedAlign(const CaseTargets& targets) {
  QuantizeConfig config = Mixed(targets);
  config.options.align_concat = true;
  config.options.align_pool = true;
  config.options.align_pad = true;
  config.options.align_slice = true;
  config.options.align_transpose = true;
  config.options.align_reshape = true;
  return config;
}

QuantizeConfig Vint8NpuConverting(const CaseTargets&) {
  QuantizeConfig config = quantize::Vint8Npu();
  config.options.convert_clip_to_relu = true;
  return config;
}

QuantizeConfig Vint8MinMax(const CaseTargets&) {
  QuantizeConfig config = quantize::QuarkVint8();
  config.activation.method = CalibrationMethod::kMinMax;
  config.weight.method = CalibrationMethod::kMinMax;
  return config;
}

QuantizeConfig Xint8MinMax(const CaseTargets&) {
  QuantizeConfig config = quantize::QuarkXint8();
  config.activation.method = CalibrationMethod::kMinMax;
  config.weight.method = CalibrationMethod::kMinMax;
  return config;
}

QuantizeConfig Vint8PercentilePof2(const CaseTargets&) {
  const TensorSpec spec = With(quantize::XInt8Spec(), CalibrationMethod::kPercentile);
  QuantizeConfig config = Of(spec, spec);
  config.options.dedicated_qdq_pair = true;
  return config;
}

QuantizeConfig Int8By(CalibrationMethod method, Granularity weight = Granularity::kTensor) {
  return Of(With(quantize::Int8Spec(), method),
            With(quantize::Int8Spec(), CalibrationMethod::kMinMax, weight));
}

QuantizeConfig Int8PerChannelPercentile(const CaseTargets&) {
  return Of(quantize::Int8Spec(),
            With(quantize::Int8Spec(), CalibrationMethod::kPercentile, Granularity::kChannel));
}

QuantizeConfig Int8MovingAverage(const CaseTargets&) {
  QuantizeConfig config = Int8By(CalibrationMethod::kMinMax);
  config.options.calib_moving_average = true;
  return config;
}

QuantizeConfig UInt8Asymmetric(const CaseTargets&) {
  return Of(With(quantize::UInt8Spec(), CalibrationMethod::kMinMax),
            With(quantize::Int8Spec(), CalibrationMethod::kMinMax));
}

struct Row {
  std::string_view name;
  Maker make;
};

constexpr Row kRows[] = {
    {"vint8", [](const CaseTargets&) { return quantize::QuarkVint8(); }},
    {"vint8_exclude",
     [](const CaseTargets& targets) { return Excluding(quantize::QuarkVint8(), targets); }},
    {"vint8_npu", Vint8NpuConverting},
    {"vint8_npu_exclude",
     [](const CaseTargets& targets) { return Excluding(quantize::Vint8Npu(), targets); }},
    {"xint8", [](const CaseTargets&) { return quantize::QuarkXint8(); }},
    {"bf16", [](const CaseTargets&) { return quantize::QuarkBf16(); }},
    {"bf16_cast",
     [](const CaseTargets&) { return Bf16With([](auto& o) { o.bf16_qdq_to_cast = true; }); }},
    {"bf16_vaiml",
     [](const CaseTargets&) { return Bf16With([](auto& o) { o.enable_vaiml_bf16 = true; }); }},
    {"bf16_scaled",
     [](const CaseTargets&) {
       return Bf16With([](auto& o) {
         o.activation_scaled = true;
         o.weight_scaled = true;
       });
     }},
    {"mixed_cast_dual", MixedCastDual},
    {"mixed_raw", Mixed},
    {"mixed_out", MixedOut},
    {"mixed_align", MixedAlign},
    {"vint8_minmax", Vint8MinMax},
    {"xint8_minmax", Xint8MinMax},
    {"int8_pc_percentile", Int8PerChannelPercentile},
    {"int8_pc_minmax",
     [](const CaseTargets&) { return Int8By(CalibrationMethod::kMinMax, Granularity::kChannel); }},
    {"a8w8", [](const CaseTargets&) { return quantize::QuarkA8w8(); }},
    // Quark's older API equalizes weights before it quantizes; that is part of the preparation.
    {"vint8_legacy", [](const CaseTargets&) { return Equalizing(quantize::QuarkVint8()); }},
    {"xint8_legacy", [](const CaseTargets&) { return Equalizing(quantize::QuarkXint8Legacy()); }},
    {"vint8_int32bias",
     [](const CaseTargets&) { return Vint8With([](auto& o) { o.int32_bias = true; }); }},
    {"xint8_int32bias",
     [](const CaseTargets&) { return Xint8With([](auto& o) { o.int32_bias = true; }); }},
    {"xint8_int16bias",
     [](const CaseTargets&) { return Xint8With([](auto& o) { o.int16_bias = true; }); }},
    {"xint8_wqdq",
     [](const CaseTargets&) {
       return Xint8With([](auto& o) { o.add_qdq_pair_to_weight = true; });
     }},
    {"xint8_norefine",
     [](const CaseTargets&) { return Xint8With([](auto& o) { o.npu_limitation_check = false; }); }},
    {"xint8_nodpu",
     [](const CaseTargets&) { return Xint8With([](auto& o) { o.simulate_dpu = false; }); }},
    {"xint8_keepsigmoid",
     [](const CaseTargets&) {
       return Xint8With([](auto& o) { o.convert_sigmoid_to_hard_sigmoid = false; });
     }},
    {"vint8_mostcommon",
     [](const CaseTargets&) {
       return Vint8With([](auto& o) { o.min_mse_mode_pof2_scale = "MostCommon"; });
     }},
    {"vint8_numbins0",
     [](const CaseTargets&) { return Vint8With([](auto& o) { o.num_bins = 0; }); }},
    {"vint8_nodedicated",
     [](const CaseTargets&) { return Vint8With([](auto& o) { o.dedicated_qdq_pair = false; }); }},
    {"vint8_percentile_pof2", Vint8PercentilePof2},
    {"int8_entropy", [](const CaseTargets&) { return Int8By(CalibrationMethod::kEntropy); }},
    {"int8_lwp",
     [](const CaseTargets&) { return Int8By(CalibrationMethod::kLayerwisePercentile); }},
    {"int8_distribution",
     [](const CaseTargets&) { return Int8By(CalibrationMethod::kDistribution); }},
    {"int8_movavg", Int8MovingAverage},
    {"uint8_asym", UInt8Asymmetric},
    {"fp16",
     [](const CaseTargets&) { return Of(quantize::Float16Spec(), quantize::Float16Spec()); }},
};

}  // namespace

absl::StatusOr<QuantizeConfig> ConfigurationNamed(std::string_view name,
                                                  const CaseTargets& targets) {
  for (const auto& row : kRows) {
    if (row.name != name) continue;
    QuantizeConfig config = row.make(targets);
    config.compatibility = quantize::Compatibility::kQuark;
    return config;
  }
  return base::MakeError(base::Reason::kConfigInvalid,
                         base::StrCat("No configuration is named '", name, "'"),
                         "The table is in tools/conformance/configurations.cc.");
}

Closeness ClosenessOf(std::string_view configuration) {
  return configuration.starts_with("bf16") || configuration.starts_with("mixed") ||
                 configuration == "fp16"
             ? Closeness::kBFloat16
             : Closeness::kInteger;
}

}  // namespace gq::conformance
