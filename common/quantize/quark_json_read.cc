#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/quantize/option_table.h"
#include "common/quantize/position_json.h"
#include "common/quantize/quark_json.h"
#include "common/quantize/spec_names.h"

namespace gq::quantize {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;
using Kind = JsonValue::Kind;

class Reader {
 public:
  Reader(std::string_view name, bool quark) : name_(name), quark_(quark) {}

  absl::StatusOr<ParsedConfig> Run(const JsonValue& document) {
    GQ_RETURN_IF_ERROR(Expect(document, "", Kind::kObject));
    QuantizeConfig& config = parsed_.config;
    if (const JsonValue* value = document.Find("compatibility")) {
      GQ_RETURN_IF_ERROR(Expect(*value, "compatibility", Kind::kString));
      if (value->text != "quark" && value->text != "default") {
        return Error(*value, "compatibility", "must be \"default\" or \"quark\"");
      }
      quark_ = quark_ || value->text == "quark";
    }
    if (quark_) config.compatibility = Compatibility::kQuark;
    for (const auto& [key, value] : document.members) {
      GQ_RETURN_IF_ERROR(Section(key, value));
    }
    return std::move(parsed_);
  }

 private:
  // --- Errors -----------------------------------------------------------------------------------
  absl::Status Error(const JsonValue& at, std::string_view path, std::string_view what,
                     Reason reason = Reason::kConfigInvalid, std::string_view hint = "") const {
    return MakeError(reason,
                     StrCat(name_, ", line ", at.line, ", column ", at.column,
                            path.empty() ? "" : ", ", path, ": ", what),
                     hint.empty() ? "The format is described in docs/config.md." : hint);
  }
  void Warn(const JsonValue& at, std::string_view path, std::string_view what) {
    parsed_.warnings.push_back(StrCat(name_, ", line ", at.line, ", ", path, ": ", what));
  }
  absl::Status Expect(const JsonValue& value, std::string_view path, Kind kind) const {
    if (value.kind == kind) return absl::OkStatus();
    return Error(value, path,
                 StrCat("expected ", JsonKindName(kind), ", found ", JsonKindName(value.kind)));
  }
  static std::string Closest(std::string_view key, const std::vector<std::string>& known) {
    const auto closest = base::ClosestNames(key, known);
    return StrCat("Known: ", base::StrJoin(closest.empty() ? known : closest, ", "), ".");
  }

  // --- Sections ---------------------------------------------------------------------------------
  absl::Status Section(const std::string& key, const JsonValue& value) {
    if (key == "global_config") return Global(value);
    if (key == "specific_layer_config") {
      return Overrides(key, "target_node_names", value, &parsed_.config.overrides);
    }
    if (key == "layer_type_config") {
      return Overrides(key, "target_op_types", value, &parsed_.config.type_overrides);
    }
    if (key == "exclude") return Exclude(value);
    if (key == "extra_options") return Options(value);
    if (key == "scheme") return Text(value, key, &parsed_.config.scheme);
    if (key == "compatibility") return absl::OkStatus();
    if (key == "dynamic") return Dynamic(value);
    if (key == "float_precision") return FloatPrecision(value);
    if (key == "include_cle") return Boolean(value, key, &parsed_.config.include_cle);
    if (key == "recovery") return Recovery(value);
    if (key == "recovery_bias_bits") return BiasBits(value);
    if (key == "promotion_after_recovery") return AfterRecovery(value);
    if (key == "input_shapes") return InputShapes(value);
    if (key == "force_extended") return Boolean(value, key, &parsed_.config.force_extended);
    if (key == "allow_unmatched") return Boolean(value, key, &parsed_.config.allow_unmatched);
    if (quark_) {
      Warn(value, key, "unknown key, ignored");
      return absl::OkStatus();
    }
    if (key == "automatic_mixed_precision") {
      return Error(value, key, "a search is no part of a configuration", Reason::kConfigInvalid,
                   "write it in run.yaml under graph_quantize, or add --explore");
    }
    return Error(value, key, "unknown key", Reason::kConfigInvalid,
                 Closest(key, {"global_config", "specific_layer_config", "layer_type_config",
                               "exclude", "extra_options", "scheme", "compatibility", "dynamic",
                               "float_precision", "recovery", "recovery_bias_bits",
                               "promotion_after_recovery", "input_shapes"}));
  }

  absl::Status Text(const JsonValue& value, std::string_view path, std::string* text) const {
    GQ_RETURN_IF_ERROR(Expect(value, path, Kind::kString));
    *text = value.text;
    return absl::OkStatus();
  }
  absl::Status Boolean(const JsonValue& value, std::string_view path, bool* boolean) const {
    GQ_RETURN_IF_ERROR(Expect(value, path, Kind::kBool));
    *boolean = value.boolean;
    return absl::OkStatus();
  }

  absl::Status Dynamic(const JsonValue& value) {
    GQ_RETURN_IF_ERROR(Expect(value, "dynamic", Kind::kString));
    if (value.text == "int8") {
      parsed_.config.dynamic = DynamicForm::kInt8;
    } else if (value.text == "int4_blocks") {
      parsed_.config.dynamic = DynamicForm::kInt4Blocks;
    } else if (value.text != "none") {
      return Error(value, "dynamic", "must be \"none\", \"int8\" or \"int4_blocks\"");
    }
    return absl::OkStatus();
  }

  absl::Status FloatPrecision(const JsonValue& value) {
    GQ_RETURN_IF_ERROR(Expect(value, "float_precision", Kind::kString));
    if (!value.text.empty() && value.text != "bf16" && value.text != "fp16") {
      return Error(value, "float_precision", "must be \"bf16\" or \"fp16\"");
    }
    parsed_.config.float_precision = value.text;
    return absl::OkStatus();
  }

  absl::Status Recovery(const JsonValue& value) {
    if (value.is_null()) return absl::OkStatus();
    GQ_RETURN_IF_ERROR(Expect(value, "recovery", Kind::kArray));
    std::vector<std::string> passes;
    for (size_t i = 0; i < value.items.size(); ++i) {
      const std::string at = StrCat("recovery[", i, "]");
      GQ_RETURN_IF_ERROR(Expect(value.items[i], at, Kind::kString));
      passes.push_back(value.items[i].text);
    }
    parsed_.config.recovery = std::move(passes);
    return absl::OkStatus();
  }

  absl::Status BiasBits(const JsonValue& value) {
    const std::string path = "recovery_bias_bits";
    GQ_RETURN_IF_ERROR(Expect(value, path, Kind::kArray));
    for (const JsonValue& item : value.items) {
      if (item.kind != Kind::kNumber || (item.number != 16 && item.number != 32)) {
        return Error(item, path, "must hold 16 and 32 at most");
      }
      parsed_.config.recovery_bias_bits.push_back(static_cast<int>(item.number));
    }
    return absl::OkStatus();
  }

  absl::Status AfterRecovery(const JsonValue& value) {
    const std::string path = "promotion_after_recovery";
    GQ_RETURN_IF_ERROR(Expect(value, path, Kind::kObject));
    Promotion promotion;
    for (const auto& [key, part] : value.members) {
      const std::string at = StrCat(path, ".", key);
      if (key == "target_node_names") {
        GQ_RETURN_IF_ERROR(Targets(part, at, &promotion.nodes));
      } else if (key == "data_type" && part.text == "Float32") {
        promotion.precision = onnx::TensorProto::FLOAT;
      } else if (key == "data_type") {
        GQ_RETURN_IF_ERROR(Named(part, at, ElementTypeFromName,
                                 "Float32, BFloat16, Float16, Int16, Int8", &promotion.precision));
      } else if (key == "form") {
        GQ_RETURN_IF_ERROR(Expect(part, at, Kind::kString));
        if (part.text != "float" && part.text != "cast") {
          return Error(part, at, "must be \"float\" or \"cast\"");
        }
        promotion.form = part.text == "cast" ? MixedForm::kCast : MixedForm::kFloat;
      } else {
        return Error(part, at, "unknown key", Reason::kConfigInvalid,
                     "Known: target_node_names, data_type, form.");
      }
    }
    if (!promotion.nodes.empty()) parsed_.config.promotion = std::move(promotion);
    return absl::OkStatus();
  }

  absl::Status InputShapes(const JsonValue& value) {
    const std::string path = "input_shapes";
    GQ_RETURN_IF_ERROR(Expect(value, path, Kind::kObject));
    for (const auto& [input, dims] : value.members) {
      const std::string at = StrCat(path, ".", input);
      GQ_RETURN_IF_ERROR(Expect(dims, at, Kind::kArray));
      std::vector<int64_t>& shape = parsed_.config.input_shapes[input];
      for (const JsonValue& dim : dims.items) {
        const bool whole = dim.kind == Kind::kNumber && dim.number >= 1 && dim.number < 1e15 &&
                           dim.number == std::floor(dim.number);
        if (!whole) return Error(dim, at, "must hold whole numbers of 1 or more");
        shape.push_back(static_cast<int64_t>(dim.number));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Global(const JsonValue& value) {
    const std::string path = "global_config";
    LayerConfig layer;
    if (value.is_null()) return absl::OkStatus();
    for (const char* key : {"input_tensors", "weight"}) {
      const JsonValue* spec = value.kind == Kind::kObject ? value.Find(key) : nullptr;
      if (spec != nullptr && spec->is_null()) {
        return Error(*spec, StrCat(path, ".", key), "must not be null", Reason::kConfigInvalid,
                     "Leave it out for the default, or exclude the nodes that shall stay float.");
      }
    }
    GQ_RETURN_IF_ERROR(Layer(value, path, &layer));
    QuantizeConfig& config = parsed_.config;
    if (layer.input_tensors) config.activation = *layer.input_tensors;
    if (layer.weight) config.weight = *layer.weight;
    config.bias = layer.bias;
    config.output_tensors = layer.output_tensors;
    if (config.output_tensors && *config.output_tensors != config.activation) {
      Warn(value, path + ".output_tensors",
           "has no effect: outputs are quantized as input_tensors says");
    }
    if (config.bias && *config.bias != config.weight) {
      Warn(value, path + ".bias",
           "has no effect: biases follow extra_options.Int32Bias and Int16Bias");
    }
    return absl::OkStatus();
  }

  absl::Status Layer(const JsonValue& value, const std::string& path, LayerConfig* layer) {
    GQ_RETURN_IF_ERROR(Expect(value, path, Kind::kObject));
    for (const auto& [key, spec] : value.members) {
      const std::string at = StrCat(path, ".", key);
      std::optional<TensorSpec>* slot = nullptr;
      if (key == "input_tensors" || key == "activation") slot = &layer->input_tensors;
      if (key == "weight") slot = &layer->weight;
      if (key == "bias") slot = &layer->bias;
      if (key == "output_tensors") slot = &layer->output_tensors;
      if (slot == nullptr) {
        return Error(spec, at, "unknown key", Reason::kConfigInvalid,
                     Closest(key, {"input_tensors", "weight", "bias", "output_tensors"}));
      }
      if (spec.is_null()) continue;
      TensorSpec parsed;
      GQ_RETURN_IF_ERROR(Spec(spec, at, &parsed));
      *slot = parsed;
    }
    return absl::OkStatus();
  }

  absl::Status Spec(const JsonValue& value, const std::string& path, TensorSpec* spec) {
    GQ_RETURN_IF_ERROR(Expect(value, path, Kind::kObject));
    const JsonValue* name = value.Find("spec");
    if (name == nullptr) return Error(value, path, "has no \"spec\"");
    GQ_RETURN_IF_ERROR(Expect(*name, path + ".spec", Kind::kString));
    const auto rows = SpecTable();
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const auto& known) { return known.name == name->text; });
    if (row == rows.end()) return UnknownSpec(*name, path + ".spec");
    *spec = row->make();
    for (const auto& [key, entry] : value.members) {
      if (key == "spec") continue;
      if (key != "params") return Error(entry, StrCat(path, ".", key), "unknown key");
      if (entry.is_null()) continue;
      GQ_RETURN_IF_ERROR(Params(entry, path + ".params", spec));
    }
    return absl::OkStatus();
  }

  absl::Status UnknownSpec(const JsonValue& name, const std::string& path) const {
    if (IsBlockSpec(name.text)) {
      return Error(name, path,
                   StrCat("'", name.text, "' is a block format, which this engine does not write"),
                   Reason::kConfigInvalid, "It comes through a plugin or --engine quark.");
    }
    std::vector<std::string> known;
    for (const auto& row : SpecTable()) known.emplace_back(row.name);
    return Error(name, path, StrCat("unknown specification '", name.text, "'"),
                 Reason::kConfigInvalid, StrCat("Known: ", base::StrJoin(known, ", "), "."));
  }

  absl::Status Params(const JsonValue& value, const std::string& path, TensorSpec* spec) {
    GQ_RETURN_IF_ERROR(Expect(value, path, Kind::kObject));
    for (const auto& [key, entry] : value.members) {
      const std::string at = StrCat(path, ".", key);
      if (key == "symmetric") {
        GQ_RETURN_IF_ERROR(Boolean(entry, at, &spec->symmetric));
      } else if (key == "group_size") {
        GQ_RETURN_IF_ERROR(Expect(entry, at, Kind::kNumber));
        spec->group_size = static_cast<int>(entry.number);
      } else if (key == "scale_type") {
        GQ_RETURN_IF_ERROR(
            Named(entry, at, ScaleTypeFromName, "Float32, PowerOf2", &spec->scale_type));
      } else if (key == "calibration_method") {
        GQ_RETURN_IF_ERROR(Named(entry, at, MethodFromName,
                                 "MinMax, MinMSE, Percentile, Entropy, LayerwisePercentile, "
                                 "Distribution",
                                 &spec->method));
      } else if (key == "quant_granularity") {
        GQ_RETURN_IF_ERROR(
            Named(entry, at, GranularityFromName, "Tensor, Channel, Group", &spec->granularity));
      } else if (key == "data_type") {
        GQ_RETURN_IF_ERROR(Named(entry, at, ElementTypeFromName,
                                 "Int4, Int8, UInt8, Int16, UInt16, Float16, BFloat16",
                                 &spec->type));
      } else {
        return Error(entry, at, "unknown key", Reason::kConfigInvalid,
                     "Known: symmetric, scale_type, calibration_method, quant_granularity, "
                     "data_type, group_size.");
      }
    }
    return absl::OkStatus();
  }

  template <typename Value>
  absl::Status Named(const JsonValue& value, const std::string& path,
                     std::optional<Value> (*from_name)(std::string_view), std::string_view known,
                     Value* result) {
    GQ_RETURN_IF_ERROR(Expect(value, path, Kind::kString));
    const auto found = from_name(value.text);
    if (!found) {
      return Error(value, path, StrCat("unknown value '", value.text, "'"), Reason::kConfigInvalid,
                   StrCat("Known: ", known, "."));
    }
    *result = *found;
    return absl::OkStatus();
  }

  absl::Status Overrides(const std::string& path, std::string_view targets_key,
                         const JsonValue& value, std::vector<LayerOverride>* overrides) {
    if (value.is_null()) return absl::OkStatus();
    GQ_RETURN_IF_ERROR(Expect(value, path, Kind::kArray));
    for (size_t i = 0; i < value.items.size(); ++i) {
      const JsonValue& entry = value.items[i];
      const std::string at = StrCat(path, "[", i, "]");
      GQ_RETURN_IF_ERROR(Expect(entry, at, Kind::kObject));
      LayerOverride override;
      for (const auto& [key, part] : entry.members) {
        const std::string inner = StrCat(at, ".", key);
        if (key == targets_key) {
          GQ_RETURN_IF_ERROR(Targets(part, inner, &override.targets));
        } else if (key == "layer_config") {
          GQ_RETURN_IF_ERROR(Layer(part, inner, &override.layer));
        } else {
          return Error(part, inner, "unknown key", Reason::kConfigInvalid,
                       StrCat("Known: ", targets_key, ", layer_config."));
        }
      }
      if (!override.targets.empty()) overrides->push_back(std::move(override));
    }
    return absl::OkStatus();
  }

  absl::Status Targets(const JsonValue& value, const std::string& path,
                       std::vector<std::string>* targets) {
    GQ_RETURN_IF_ERROR(Expect(value, path, Kind::kArray));
    for (size_t i = 0; i < value.items.size(); ++i) {
      const std::string at = StrCat(path, "[", i, "]");
      GQ_RETURN_IF_ERROR(Expect(value.items[i], at, Kind::kString));
      const std::string& text = value.items[i].text;
      if (!quark_ && text.starts_with('^') && text.find(".*") == std::string::npos) {
        return Error(value.items[i], at, StrCat("the pattern '", text, "' must contain '.*'"),
                     Reason::kPatternInvalid,
                     StrCat("Write '", text, ".*', or the exact name without '^'."));
      }
      targets->push_back(text);
    }
    return absl::OkStatus();
  }

  absl::Status Exclude(const JsonValue& value) {
    if (value.is_null()) return absl::OkStatus();
    GQ_RETURN_IF_ERROR(Expect(value, "exclude", Kind::kObject));
    for (const auto& [key, part] : value.members) {
      if (key == "node_names") {
        GQ_RETURN_IF_ERROR(Targets(part, "exclude.node_names", &parsed_.config.exclude));
      } else if (key == "subgraphs") {
        GQ_RETURN_IF_ERROR(Subgraphs(part));
      } else {
        return Error(part, StrCat("exclude.", key), "unknown key", Reason::kConfigInvalid,
                     "Known: node_names, subgraphs.");
      }
    }
    return absl::OkStatus();
  }

  absl::Status Subgraphs(const JsonValue& value) {
    const std::string path = "exclude.subgraphs";
    if (value.is_null()) return absl::OkStatus();
    GQ_RETURN_IF_ERROR(Expect(value, path, Kind::kArray));
    if (quark_ && !value.items.empty()) {
      Warn(value, path, "ignored, as Quark's driver does");
      return absl::OkStatus();
    }
    for (size_t i = 0; i < value.items.size(); ++i) {
      const JsonValue& pair = value.items[i];
      const std::string at = StrCat(path, "[", i, "]");
      if (pair.kind != Kind::kArray || pair.items.size() != 2) {
        return Error(pair, at, "must be a pair: [[starts], [ends]]");
      }
      auto& region = parsed_.config.exclude_subgraphs.emplace_back();
      GQ_RETURN_IF_ERROR(Targets(pair.items[0], at + "[0]", &region.first));
      GQ_RETURN_IF_ERROR(Targets(pair.items[1], at + "[1]", &region.second));
    }
    return absl::OkStatus();
  }

  // --- extra_options ----------------------------------------------------------------------------
  absl::Status Options(const JsonValue& value) {
    if (value.is_null()) return absl::OkStatus();
    GQ_RETURN_IF_ERROR(Expect(value, "extra_options", Kind::kObject));
    for (const auto& [key, entry] : value.members) {
      GQ_RETURN_IF_ERROR(Option(key, entry, StrCat("extra_options.", key)));
    }
    return absl::OkStatus();
  }

  absl::Status Option(const std::string& key, const JsonValue& value, const std::string& path) {
    if (key == "TensorQuantOverrides") return TensorOverrides(value, path);
    const OptionRow* row = FindOption(key);
    if (row == nullptr) {
      Warn(value, path, "unknown option, without effect");
      parsed_.config.unknown_options[key] = AsText(value);
      return absl::OkStatus();
    }
    switch (row->support) {
      case OptionSupport::kApplied:
        return Assign(*row, value, path);
      case OptionSupport::kIgnored:
        Warn(value, path, "has no effect here");
        return absl::OkStatus();
      case OptionSupport::kRefused:
        break;
    }
    if (IsOff(value)) return absl::OkStatus();
    return Error(value, path, "is not supported and would change the result",
                 Reason::kConfigInvalid, "Leave it out, or use --engine quark.");
  }

  static bool IsOff(const JsonValue& value) {
    return value.is_null() || (value.kind == Kind::kBool && !value.boolean) ||
           (value.kind == Kind::kNumber && value.number == 0) ||
           (value.kind == Kind::kString && value.text.empty()) ||
           (value.kind == Kind::kArray && value.items.empty()) ||
           (value.kind == Kind::kObject && value.members.empty());
  }

  static std::string AsText(const JsonValue& value) {
    if (value.kind == Kind::kBool) return value.boolean ? "true" : "false";
    if (value.kind == Kind::kString || value.kind == Kind::kNumber) return value.text;
    return std::string(JsonKindName(value.kind));
  }

  absl::Status Assign(const OptionRow& row, const JsonValue& value, const std::string& path) {
    if (value.is_null()) return absl::OkStatus();
    return std::visit([&](auto field) { return AssignField(field, value, path); }, row.field);
  }

  absl::Status AssignField(std::monostate, const JsonValue&, const std::string&) {
    return absl::OkStatus();
  }
  absl::Status AssignField(std::optional<bool> ExtraOptions::*field, const JsonValue& value,
                           const std::string& path) {
    GQ_RETURN_IF_ERROR(Expect(value, path, Kind::kBool));
    parsed_.config.options.*field = value.boolean;
    return absl::OkStatus();
  }
  absl::Status AssignField(std::optional<int64_t> ExtraOptions::*field, const JsonValue& value,
                           const std::string& path) {
    GQ_RETURN_IF_ERROR(Expect(value, path, Kind::kNumber));
    const auto number = static_cast<int64_t>(value.number);
    if (static_cast<double>(number) != value.number || number < 0) {
      return Error(value, path, "must be a whole number of 0 or more");
    }
    parsed_.config.options.*field = number;
    return absl::OkStatus();
  }
  absl::Status AssignField(std::optional<double> ExtraOptions::*field, const JsonValue& value,
                           const std::string& path) {
    GQ_RETURN_IF_ERROR(Expect(value, path, Kind::kNumber));
    parsed_.config.options.*field = value.number;
    return absl::OkStatus();
  }
  absl::Status AssignField(std::optional<std::string> ExtraOptions::*field, const JsonValue& value,
                           const std::string& path) {
    GQ_RETURN_IF_ERROR(Expect(value, path, Kind::kString));
    const size_t dot = value.text.rfind('.');
    parsed_.config.options.*field =
        dot == std::string::npos ? value.text : value.text.substr(dot + 1);
    return absl::OkStatus();
  }
  absl::Status AssignField(std::optional<std::vector<std::string>> ExtraOptions::*field,
                           const JsonValue& value, const std::string& path) {
    GQ_RETURN_IF_ERROR(Expect(value, path, Kind::kArray));
    std::vector<std::string> texts;
    for (const auto& item : value.items) {
      GQ_RETURN_IF_ERROR(Expect(item, path, Kind::kString));
      texts.push_back(item.text);
    }
    parsed_.config.options.*field = std::move(texts);
    return absl::OkStatus();
  }
  absl::Status AssignField(std::optional<std::vector<double>> ExtraOptions::*field,
                           const JsonValue& value, const std::string& path) {
    GQ_RETURN_IF_ERROR(Expect(value, path, Kind::kArray));
    std::vector<double> numbers;
    for (const auto& item : value.items) {
      GQ_RETURN_IF_ERROR(Expect(item, path, Kind::kNumber));
      numbers.push_back(item.number);
    }
    parsed_.config.options.*field = std::move(numbers);
    return absl::OkStatus();
  }

  // {"tensor": [{"quant_type": "Int8", "symmetric": true}]}
  absl::Status TensorOverrides(const JsonValue& value, const std::string& path) {
    if (value.is_null()) return absl::OkStatus();
    GQ_RETURN_IF_ERROR(Expect(value, path, Kind::kObject));
    for (const auto& [tensor, list] : value.members) {
      const std::string at = StrCat(path, ".", tensor);
      GQ_RETURN_IF_ERROR(Expect(list, at, Kind::kArray));
      if (list.items.size() != 1) return Error(list, at, "must hold one entry");
      const JsonValue& entry = list.items[0];
      GQ_RETURN_IF_ERROR(Expect(entry, at + "[0]", Kind::kObject));
      TensorOverride override{.type = parsed_.config.activation.type};
      for (const auto& [key, part] : entry.members) {
        const std::string inner = StrCat(at, "[0].", key);
        if (key == "quant_type") {
          GQ_RETURN_IF_ERROR(Named(part, inner, ElementTypeFromName,
                                   "Int8, UInt8, Int16, UInt16, Float16, BFloat16",
                                   &override.type));
        } else if (key == "symmetric") {
          GQ_RETURN_IF_ERROR(Boolean(part, inner, &override.symmetric));
        } else {
          return Error(part, inner, "is not supported");
        }
      }
      parsed_.config.tensor_overrides[tensor] = override;
    }
    return absl::OkStatus();
  }

  std::string_view name_;
  bool quark_;
  ParsedConfig parsed_;
};

}  // namespace

absl::StatusOr<ParsedConfig> ParseQuarkJson(std::string_view text, std::string_view name,
                                            bool quark) {
  GQ_ASSIGN_OR_RETURN(const JsonValue document, ParseJson(text, name));
  return Reader(name, quark).Run(document);
}

}  // namespace gq::quantize
