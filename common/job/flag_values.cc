#include "common/job/flag_values.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::job {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;
using base::ToAbsl;

constexpr std::string_view kPresets[] = {"full_vint8",   "full_bf16", "full_fp16",
                                         "xint8",        "w8a8",      "w8a8_dynamic",
                                         "w4a8_dynamic", "w8a16",     "vint8_bf16_head_tail"};
constexpr std::string_view kMethods[] = {"minmax",        "nonoverflow", "minmse",
                                         "percentile",    "entropy",     "layerwise-percentile",
                                         "moving-average"};
constexpr size_t kConfigLimit = 4 << 20;

}  // namespace

absl::Status BadValue(const FlagDef& flag, std::string_view value, std::string_view expected) {
  return MakeError(Reason::kInvalidFlag,
                   StrCat("--", flag.name, " '", value, "': expected ", expected));
}

absl::StatusOr<int64_t> ParseInteger(const FlagDef& flag, const std::string& text, int64_t low,
                                     int64_t high) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < low || value > high) {
    return BadValue(flag, text, StrCat("an integer from ", low, " to ", high));
  }
  return value;
}

absl::StatusOr<double> ParseTolerance(const FlagDef& flag, const std::string& text) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value) || value < 0) {
    return BadValue(flag, text, "a number that is 0 or more");
  }
  return value;
}

absl::Status CheckKeyValue(const FlagDef& flag, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return BadValue(flag, text, "KEY=VALUE");
  return absl::OkStatus();
}

absl::Status CheckInputShape(const FlagDef& flag, const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) {
    return BadValue(flag, text, "NAME=DIMxDIM..., for example x=1x3x224x224");
  }
  for (std::string_view dim : base::StrSplit(std::string_view(text).substr(equals + 1), 'x')) {
    int64_t value = 0;
    if (!absl::SimpleAtoi(ToAbsl(dim), &value) || value < 1) {
      return BadValue(flag, text,
                      "dimensions that are positive integers, for example x=1x3x224x224");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCalibrationMethod(const FlagDef& flag, const std::string& text) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  bool known = false;
  for (std::string_view method : kMethods) known = known || method == name;
  if (!known) {
    std::vector<std::string_view> methods(std::begin(kMethods), std::end(kMethods));
    return BadValue(
        flag, text,
        StrCat("one of ", base::StrJoin(methods, ", "), " (percentile:P chooses the percentile)"));
  }
  if (colon == std::string::npos) return absl::OkStatus();
  if (name != "percentile") return BadValue(flag, text, StrCat("nothing after '", name, "'"));
  double percentile = 0;
  if (!absl::SimpleAtod(text.substr(colon + 1), &percentile) || !(percentile > 50) ||
      percentile > 100) {
    return BadValue(flag, text, "a percentile above 50 and up to 100, like percentile:99.99");
  }
  return absl::OkStatus();
}

absl::Status ApplyConfig(const std::string& text, JobRequest& request) {
  std::error_code ignored;
  const bool exists = std::filesystem::exists(text, ignored);
  for (std::string_view preset : kPresets) {
    if (text == preset || (!exists && text == StrCat(preset, ".json"))) {
      request.spec.set_config_name(std::string(preset));
      return absl::OkStatus();
    }
  }
  if (!exists) {
    std::vector<std::string_view> presets(std::begin(kPresets), std::end(kPresets));
    return MakeError(Reason::kFileNotFound,
                     StrCat("--config '", text, "' is neither a file nor a built-in preset"),
                     StrCat("presets: ", base::StrJoin(presets, ", ")));
  }
  std::ifstream file;
  std::string json;
  if (std::filesystem::is_regular_file(text, ignored)) {
    file.open(text, std::ios::binary);
    json.assign((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  }
  if (!file.is_open() || file.bad()) {
    return MakeError(Reason::kFileUnreadable, StrCat("--config '", text, "' cannot be read"),
                     "give a Quark JSON file that you may read");
  }
  if (json.empty() || json.size() > kConfigLimit) {
    return MakeError(Reason::kConfigInvalid,
                     StrCat("--config '", text, "' has ", json.size(),
                            " bytes; expected a Quark JSON text of at most 4 MiB"),
                     "give a Quark JSON file or the name of a preset");
  }
  request.spec.set_config_json(std::move(json));
  request.spec.set_config_file_name(std::filesystem::path(text).filename().string());
  request.local.config_file = text;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ParseSeconds(std::string_view flag, std::string_view text) {
  int64_t factor = 1;
  std::string_view digits = text;
  if (!text.empty()) {
    switch (text.back()) {
      case 's':
        factor = 1;
        break;
      case 'm':
        factor = 60;
        break;
      case 'h':
        factor = 3600;
        break;
      case 'd':
        factor = 86400;
        break;
      default:
        factor = 0;
    }
    if (factor == 0) {
      factor = 1;
    } else {
      digits.remove_suffix(1);
    }
  }
  int64_t count = 0;
  if (!absl::SimpleAtoi(ToAbsl(digits), &count) || count < 1 || count > 100'000'000 / factor) {
    return MakeError(
        Reason::kInvalidFlag,
        StrCat("--", flag, " '", text, "': expected a duration like 30s, 10m, 2h or 1d"));
  }
  return count * factor;
}

}  // namespace gq::job
