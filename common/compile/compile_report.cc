#include "common/compile/compile_report.h"

#include <optional>
#include <string_view>
#include <type_traits>

#include "common/base/text.h"

namespace gq::compile {
namespace {

template <typename T>
void Put(nlohmann::ordered_json& json, const char* key, const std::optional<T>& value) {
  if (value) json[key] = *value;
}

}  // namespace

nlohmann::ordered_json OptionsJson(const CompilerOptions& options) {
  nlohmann::ordered_json json;
  json["device"] = options.device;
  json["optimize_level"] = options.optimize_level;
  Put(json, "enable_f32_to_bf16_conversion", options.f32_to_bf16);
  Put(json, "enable_f32_to_f16_conversion", options.f32_to_f16);
  json["fe_args"] = base::StrJoin(options.fe_args, " ");
  json["dp_size"] = options.dp_size;
  json["tp_size"] = options.tp_size;
  json["threshold_gops_percent"] = options.threshold_gops_percent;
  json["preferred_data_storage"] = options.preferred_data_storage;
  json["keep_outputs"] = options.keep_outputs;
  json["logging_level"] = options.logging_level;
  return json;
}

std::optional<CompilerOptions> OptionsOfReport(const nlohmann::ordered_json& part) {
  const auto found = part.is_object() ? part.find("options") : part.end();
  if (!part.is_object() || found == part.end() || !found->is_object()) return std::nullopt;
  CompilerOptions options;
  const auto take = [&](const char* key, auto& field) {
    const auto entry = found->find(key);
    if (entry == found->end()) return;
    using Field = std::decay_t<decltype(field)>;
    const bool fits = std::is_same_v<Field, std::string> ? entry->is_string()
                      : std::is_same_v<Field, bool>      ? entry->is_boolean()
                                                         : entry->is_number();
    if (fits) field = entry->template get<Field>();
  };
  const auto take_switch = [&](const char* key, std::optional<bool>& field) {
    if (found->contains(key)) take(key, field.emplace());
  };
  take("device", options.device);
  take("optimize_level", options.optimize_level);
  take_switch("enable_f32_to_bf16_conversion", options.f32_to_bf16);
  take_switch("enable_f32_to_f16_conversion", options.f32_to_f16);
  std::string arguments;
  take("fe_args", arguments);
  for (const std::string_view argument : base::StrSplit(arguments, ' ')) {
    if (!argument.empty()) options.fe_args.emplace_back(argument);
  }
  take("dp_size", options.dp_size);
  take("tp_size", options.tp_size);
  take("threshold_gops_percent", options.threshold_gops_percent);
  take("preferred_data_storage", options.preferred_data_storage);
  take("keep_outputs", options.keep_outputs);
  take("logging_level", options.logging_level);
  return options;
}

std::string CompileReportJson(const CompileFacts& facts, const Classification& classification,
                              const CompilerOptions& options, const PartitionReport& report) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["simulated"] = facts.simulated;
  json["backend"] = facts.backend;
  json["device"] = facts.device;
  json["class"] = ModelClassName(classification.model_class);
  json["reasons"] = classification.reasons;
  json["options"] = OptionsJson(options);
  json.update(PartitionJson(report));
  json["seconds"] = Json::object();
  for (const auto& [phase, value] : facts.seconds) json["seconds"][phase] = value;
  // Names out of models may be no valid UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gq::compile
