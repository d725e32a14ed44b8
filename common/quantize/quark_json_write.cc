#include "common/base/sha256.h"
#include "common/quantize/option_table.h"
#include "common/quantize/quark_json.h"
#include "common/quantize/spec_names.h"
#include "nlohmann/json.hpp"

namespace gq::quantize {
namespace {

using Json = nlohmann::ordered_json;

Json SpecAsJson(const TensorSpec& spec) {
  const std::string_view name = SpecNameOf(spec);
  TensorSpec known;
  for (const auto& row : SpecTable()) {
    if (row.name == name) known = row.make();
  }
  Json params = Json::object();
  if (spec.type != known.type) params["data_type"] = ElementTypeNameOf(spec.type);
  if (spec.symmetric != known.symmetric) params["symmetric"] = spec.symmetric;
  if (spec.scale_type != known.scale_type) params["scale_type"] = ScaleTypeNameOf(spec.scale_type);
  if (spec.method != known.method) params["calibration_method"] = MethodNameOf(spec.method);
  if (spec.granularity != known.granularity) {
    params["quant_granularity"] = GranularityNameOf(spec.granularity);
  }
  if (spec.group_size != known.group_size) params["group_size"] = spec.group_size;
  return {{"spec", name}, {"params", params}};
}

void AddSpec(const char* key, const std::optional<TensorSpec>& spec, Json* layer) {
  if (spec) (*layer)[key] = SpecAsJson(*spec);
}

Json LayerAsJson(const LayerConfig& layer) {
  Json json = Json::object();
  AddSpec("input_tensors", layer.input_tensors, &json);
  AddSpec("weight", layer.weight, &json);
  AddSpec("bias", layer.bias, &json);
  AddSpec("output_tensors", layer.output_tensors, &json);
  return json;
}

Json OverridesAsJson(const std::vector<LayerOverride>& overrides, const char* targets_key) {
  Json list = Json::array();
  for (const auto& override : overrides) {
    list.push_back(
        {{targets_key, override.targets}, {"layer_config", LayerAsJson(override.layer)}});
  }
  return list;
}

Json PromotionAsJson(const Promotion& promotion) {
  return {{"target_node_names", promotion.nodes},
          {"data_type", promotion.precision == onnx::TensorProto::FLOAT
                            ? "Float32"
                            : ElementTypeNameOf(promotion.precision)},
          {"form", promotion.form == MixedForm::kCast ? "cast" : "float"}};
}

void AddOption(const OptionRow& row, const ExtraOptions& options, Json* json) {
  std::visit(
      [&](auto field) {
        if constexpr (!std::is_same_v<decltype(field), std::monostate>) {
          if (options.*field) (*json)[std::string(row.key)] = *(options.*field);
        }
      },
      row.field);
}

Json OptionsAsJson(const QuantizeConfig& config) {
  Json json = Json::object();
  for (const auto& row : OptionTable()) AddOption(row, config.options, &json);
  for (const auto& [tensor, override] : config.tensor_overrides) {
    json["TensorQuantOverrides"][tensor] = Json::array(
        {{{"quant_type", ElementTypeNameOf(override.type)}, {"symmetric", override.symmetric}}});
  }
  for (const auto& [key, value] : config.unknown_options) json[key] = value;
  return json;
}

}  // namespace

std::string WriteQuarkJson(const QuantizeConfig& config) {
  Json json;
  json["scheme"] = config.scheme;
  json["compatibility"] = config.compatibility == Compatibility::kQuark ? "quark" : "default";
  if (config.dynamic != DynamicForm::kNone) {
    json["dynamic"] = config.dynamic == DynamicForm::kInt8 ? "int8" : "int4_blocks";
  }
  if (!config.float_precision.empty()) json["float_precision"] = config.float_precision;
  if (config.include_cle) json["include_cle"] = true;
  if (config.recovery) json["recovery"] = *config.recovery;
  if (!config.recovery_bias_bits.empty()) json["recovery_bias_bits"] = config.recovery_bias_bits;
  if (config.promotion) json["promotion_after_recovery"] = PromotionAsJson(*config.promotion);
  if (!config.input_shapes.empty()) json["input_shapes"] = config.input_shapes;
  if (config.force_extended) json["force_extended"] = true;
  if (config.allow_unmatched) json["allow_unmatched"] = true;
  json["global_config"] = LayerAsJson({.input_tensors = config.activation,
                                       .weight = config.weight,
                                       .bias = config.bias,
                                       .output_tensors = config.output_tensors});
  json["specific_layer_config"] = OverridesAsJson(config.overrides, "target_node_names");
  if (!config.type_overrides.empty()) {
    json["layer_type_config"] = OverridesAsJson(config.type_overrides, "target_op_types");
  }
  json["exclude"] = {{"node_names", config.exclude}, {"subgraphs", Json::array()}};
  for (const auto& [starts, ends] : config.exclude_subgraphs) {
    json["exclude"]["subgraphs"].push_back(Json::array({starts, ends}));
  }
  json["extra_options"] = OptionsAsJson(config);
  // Names may hold any bytes; what is not UTF-8 is replaced.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string ConfigDigest(const QuantizeConfig& config) {
  return base::Sha256Hex(WriteQuarkJson(config));
}

}  // namespace gq::quantize
