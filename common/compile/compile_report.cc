#include "common/compile/compile_report.h"

#include <optional>

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
