// Checks of single values in the flag table; each error is INVALID_FLAG, names the flag and says
// what was expected.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/job/flags.h"

namespace gq::job {

absl::Status BadValue(const FlagDef& flag, std::string_view value, std::string_view expected);

// An integer in [low, high].
absl::StatusOr<int64_t> ParseInteger(const FlagDef& flag, const std::string& text, int64_t low,
                                     int64_t high);

// A finite number that is 0 or more.
absl::StatusOr<double> ParseTolerance(const FlagDef& flag, const std::string& text);

// `KEY=VALUE` with a key that is not empty.
absl::Status CheckKeyValue(const FlagDef& flag, const std::string& text);

// `NAME=1x3x224x224`; the name may itself hold `=`.
absl::Status CheckInputShape(const FlagDef& flag, const std::string& text);

// `minmax`, `percentile:99.99` and so on.
absl::Status CheckCalibrationMethod(const FlagDef& flag, const std::string& text);

// `--config`: a preset by name, else a file that is read into the request; NAME.json means the
// preset NAME where no such file exists. FILE_NOT_FOUND, FILE_UNREADABLE or CONFIG_INVALID
// otherwise.
absl::Status ApplyConfig(const std::string& text, JobRequest& request);

}  // namespace gq::job
