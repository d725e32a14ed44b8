// Calibration results on disk, so that candidates and repeated jobs do not calibrate again. The
// file format is documented in docs/formats-calibration.md.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/calibrate/calibrate.h"

namespace gq::calibrate {

// Key of a result: digest over the graph's and the data's digest, requests, methods, options and
// the version of ONNX Runtime.
std::string CacheKey(std::string_view graph_digest, std::string_view data_digest,
                     std::span<const TensorRequest> tensors, std::span<const MethodSpec> methods,
                     const CalibrateOptions& options);

// The table stored under `key` in `folder`; nullopt when there is none, or a damaged or foreign
// file (a damaged file is as good as none: it is calibrated again and replaced).
std::optional<CalibrationTable> LoadCalibration(const std::filesystem::path& folder,
                                                std::string_view key);

// Stores a table; a reader sees the whole file or none. FILE_UNWRITABLE.
absl::Status StoreCalibration(const std::filesystem::path& folder, std::string_view key,
                              const CalibrationTable& table);

}  // namespace gq::calibrate
