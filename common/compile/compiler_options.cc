#include "common/compile/compiler_options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/compile/device.h"

namespace gq::compile {
namespace {

using base::MakeError;
using base::Reason;

constexpr std::string_view kMatchPowerOfTwo = "match-power-of-two-quant-kernel=1";
constexpr std::string_view kFeArgs = "fe_args";

struct Consent {
  std::string_view argument;
  std::string_view why;
};
// What a front-end argument does that the user has to agree to.
constexpr std::array kNeedConsent = {
    Consent{"unsafe-math-optimizations", "alters the numerics"},
    Consent{"qdq-tolerant-check", "alters the numerics"},
    Consent{"use-accurate-mode", "alters the numerics"},
    Consent{"indices-are-positive", "assumes a fact about the data"},
    Consent{"input-quantization-in-rt", "changes the type of the model's inputs"},
    Consent{"output-dequantization-in-rt", "changes the type of the model's outputs"},
    Consent{"edge-quantization-in-rt", "changes the type of the model's inputs and outputs"},
};

absl::Status BadValue(std::string_view key, std::string_view value, std::string_view expected) {
  return MakeError(Reason::kInvalidFlag,
                   base::StrCat("compiler option ", key, "=", value, ": expected ", expected));
}

absl::Status ParseInt(std::string_view key, std::string_view value, int low, int high, int& out) {
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
  if (error != std::errc() || end != value.data() + value.size() || out < low || out > high) {
    return BadValue(key, value, base::StrCat("a whole number from ", low, " to ", high));
  }
  return absl::OkStatus();
}

absl::Status ParseBool(std::string_view key, std::string_view value, bool& out) {
  if (value != "true" && value != "false") return BadValue(key, value, "true or false");
  out = value == "true";
  return absl::OkStatus();
}

absl::Status ParsePercent(std::string_view key, std::string_view value, double& out) {
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
  if (error != std::errc() || end != value.data() + value.size() || !(out >= 0 && out <= 100)) {
    return BadValue(key, value, "a number from 0 to 100");
  }
  return absl::OkStatus();
}

absl::Status ParseChoice(std::string_view key, std::string_view value,
                         std::initializer_list<std::string_view> choices, std::string& out) {
  if (std::find(choices.begin(), choices.end(), value) == choices.end()) {
    return BadValue(key, value, base::StrCat("one of ", base::StrJoin(choices, ", ")));
  }
  out = value;
  return absl::OkStatus();
}

absl::Status CheckConsent(std::string_view argument, bool consent) {
  const std::string_view name = argument.substr(0, argument.find('='));
  for (const Consent& entry : kNeedConsent) {
    if (entry.argument != name || consent) continue;
    return MakeError(Reason::kConsentRequired,
                     base::StrCat("the compiler argument ", name, " ", entry.why),
                     "Agree with --yes, or leave the argument out.");
  }
  return absl::OkStatus();
}

absl::Status ApplyFeArgs(std::string_view value, bool add, bool consent, CompilerOptions& options) {
  std::vector<std::string> arguments;
  for (const std::string_view argument : base::StrSplit(value, ' ')) {
    if (argument.empty()) continue;
    const bool clean = std::all_of(argument.begin(), argument.end(), [](unsigned char c) {
      return std::isalnum(c) ||
             std::string_view("-_=.,:+/").find(static_cast<char>(c)) != std::string_view::npos;
    });
    if (!clean) return BadValue(kFeArgs, argument, "NAME=VALUE without special characters");
    GQ_RETURN_IF_ERROR(CheckConsent(argument, consent));
    arguments.emplace_back(argument);
  }
  if (!add) options.fe_args.clear();
  for (std::string& argument : arguments) {
    const std::string name = argument.substr(0, argument.find('='));
    std::erase_if(options.fe_args,
                  [&](const std::string& old) { return old.substr(0, old.find('=')) == name; });
    options.fe_args.push_back(std::move(argument));
  }
  return absl::OkStatus();
}

}  // namespace

CompilerOptions DefaultOptions(const Classification& classification, std::string_view device) {
  CompilerOptions options;
  const std::optional<DeviceInfo> info = FindDevice(device);
  options.device = std::string(info ? info->name : device);
  switch (classification.model_class) {
    case ModelClass::kPureVint8:
      options.f32_to_bf16 = false;
      break;
    case ModelClass::kTwoIsland:
    case ModelClass::kMultiIsland:
      options.f32_to_bf16 = true;
      options.fe_args.emplace_back(kMatchPowerOfTwo);
      break;
    case ModelClass::kPureFloat:
      options.f32_to_bf16 = true;
      break;
    case ModelClass::kSpecialized:
      if (classification.has_mx) options.fe_args = {"match-conv-mx6=1", "match-gemm-mx6=1"};
      return options;
  }
  if (classification.float_form == FloatForm::kFp16) {
    options.f32_to_bf16 = false;
    options.f32_to_f16 = true;
  }
  return options;
}

std::vector<std::string> OptionKeys() {
  return {"dp_size",
          "tp_size",
          "optimize_level",
          "threshold_gops_percent",
          "keep_outputs",
          "fe_args",
          "preferred_data_storage",
          "logging_level",
          "enable_f32_to_bf16_conversion",
          "enable_f32_to_f16_conversion"};
}

absl::Status ApplyOption(std::string_view text, bool consent, CompilerOptions& options) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return MakeError(Reason::kInvalidFlag,
                     base::StrCat("compiler option '", text, "': expected KEY=VALUE"));
  }
  std::string_view key = text.substr(0, equals);
  const std::string_view value = text.substr(equals + 1);
  const bool add = key.back() == '+';
  if (add) key.remove_suffix(1);
  if (key == kFeArgs) return ApplyFeArgs(value, add, consent, options);
  if (add) return BadValue(key, value, "= instead of +=, which only fe_args takes");

  if (key == "dp_size") return ParseInt(key, value, 1, 9, options.dp_size);
  if (key == "tp_size") return ParseInt(key, value, 0, 9, options.tp_size);
  if (key == "optimize_level") return ParseInt(key, value, 1, 4, options.optimize_level);
  if (key == "threshold_gops_percent") {
    return ParsePercent(key, value, options.threshold_gops_percent);
  }
  if (key == "keep_outputs") return ParseBool(key, value, options.keep_outputs);
  if (key == "preferred_data_storage") {
    return ParseChoice(key, value, {"auto", "vectorized", "unvectorized"},
                       options.preferred_data_storage);
  }
  if (key == "logging_level") {
    return ParseChoice(key, value, {"debug", "info", "warning", "error"}, options.logging_level);
  }
  if (key == "enable_f32_to_bf16_conversion") {
    return ParseBool(key, value, options.f32_to_bf16.emplace());
  }
  if (key == "enable_f32_to_f16_conversion") {
    return ParseBool(key, value, options.f32_to_f16.emplace());
  }
  const std::vector<std::string> close = base::ClosestNames(key, OptionKeys(), 1);
  return MakeError(Reason::kInvalidFlag, base::StrCat("there is no compiler option '", key, "'"),
                   close.empty() ? base::StrCat("Options: ", base::StrJoin(OptionKeys(), ", "), ".")
                                 : base::StrCat("Did you mean ", close.front(), "?"));
}

absl::Status ApplyEdgeQuant(EdgeQuant edge, bool consent, CompilerOptions& options) {
  switch (edge) {
    case EdgeQuant::kNone:
      return absl::OkStatus();
    case EdgeQuant::kInput:
      return ApplyFeArgs("input-quantization-in-rt=1", true, consent, options);
    case EdgeQuant::kOutput:
      return ApplyFeArgs("output-dequantization-in-rt=1", true, consent, options);
    case EdgeQuant::kBoth:
      return ApplyFeArgs("edge-quantization-in-rt=1", true, consent, options);
  }
  return absl::OkStatus();
}

absl::StatusOr<EdgeQuant> ParseEdgeQuant(std::string_view text) {
  if (text.empty() || text == "none") return EdgeQuant::kNone;
  if (text == "input") return EdgeQuant::kInput;
  if (text == "output") return EdgeQuant::kOutput;
  if (text == "both") return EdgeQuant::kBoth;
  return MakeError(
      Reason::kInvalidFlag,
      base::StrCat("edge quantization '", text, "': expected none, input, output, both or auto"));
}

absl::Status CheckOptions(const CompilerOptions& options) {
  const std::optional<DeviceInfo> device = FindDevice(options.device);
  if (!device) {
    std::vector<std::string_view> names;
    for (const DeviceInfo& known : KnownDevices()) names.push_back(known.name);
    return MakeError(Reason::kDeviceUnknown,
                     base::StrCat("'", options.device, "' is no VE2 device"),
                     base::StrCat("Devices: ", base::StrJoin(names, ", "), "."));
  }
  for (const auto& [key, size] :
       {std::pair{"dp_size", options.dp_size}, std::pair{"tp_size", options.tp_size}}) {
    if (size <= device->max_size) continue;
    return BadValue(key, base::StrCat(size),
                    base::StrCat("at most ", device->max_size, " on ", device->name));
  }
  const int columns = ColumnsUsed(options.tp_size, options.dp_size);
  if (columns > device->columns) {
    return MakeError(
        Reason::kInvalidFlag,
        base::StrCat("tp_size=", options.tp_size, " and dp_size=", options.dp_size, " use ",
                     columns, " columns, ", device->name, " has ", device->columns),
        "Choose tp_size * dp_size * 4 within the columns of the device.");
  }
  return absl::OkStatus();
}

std::string FormatVitisaiConfig(const CompilerOptions& options) {
  using Json = nlohmann::ordered_json;
  Json vaiml;
  vaiml["device"] = options.device;
  vaiml["keep_outputs"] = options.keep_outputs;
  vaiml["optimize_level"] = options.optimize_level;
  if (options.f32_to_bf16) vaiml["enable_f32_to_bf16_conversion"] = *options.f32_to_bf16;
  if (options.f32_to_f16) vaiml["enable_f32_to_f16_conversion"] = *options.f32_to_f16;
  vaiml["logging_level"] = options.logging_level;
  vaiml[std::string(kFeArgs)] = base::StrJoin(options.fe_args, " ");
  const CompilerOptions defaults;
  if (options.dp_size != defaults.dp_size) vaiml["dp_size"] = options.dp_size;
  if (options.tp_size != defaults.tp_size) vaiml["tp_size"] = options.tp_size;
  if (options.threshold_gops_percent != defaults.threshold_gops_percent) {
    const double percent = options.threshold_gops_percent;
    if (percent == std::floor(percent)) {
      vaiml["threshold_gops_percent"] = static_cast<int>(percent);
    } else {
      vaiml["threshold_gops_percent"] = percent;
    }
  }
  if (options.preferred_data_storage != defaults.preferred_data_storage) {
    vaiml["preferred_data_storage"] = options.preferred_data_storage;
  }
  Json config;
  config["passes"] = Json::array({Json{{"name", "init"}, {"plugin", "vaip-pass_init"}},
                                  Json{{"name", "vaiml_partition"},
                                       {"plugin", "vaip-pass_vaiml_partition"},
                                       {"vaiml_config", vaiml}}});
  config["target"] = "VAIML";
  config["targets"] =
      Json::array({Json{{"name", "VAIML"}, {"pass", Json::array({"init", "vaiml_partition"})}}});
  return config.dump(2) + "\n";
}

}  // namespace gq::compile
