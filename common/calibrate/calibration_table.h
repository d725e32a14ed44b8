// What calibration found out: for each tensor its range by each method.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/calibrate/method.h"

namespace gq::calibrate {

struct TensorCalibration {
  float min = 0;  // over all samples
  float max = 0;
  double mean_abs_max = 0;    // mean over the samples of max |x|
  int64_t elements = 0;       // seen over all samples
  Grid grid = Grid::kInt8;    // as requested
  std::vector<Range> ranges;  // by method, in the order of CalibrationTable::methods
};

// Why a tensor that has no elements is left out; whatever reads it may take any range.
inline constexpr std::string_view kWithoutElements = "without elements";

struct CalibrationTable {
  std::vector<MethodSpec> methods;
  std::map<std::string, TensorCalibration, std::less<>> tensors;
  // Requested tensors without a result, and why: "int64", "not in the main graph", ...
  std::map<std::string, std::string, std::less<>> left_out;
  int64_t samples = 0;           // used
  std::vector<int64_t> skipped;  // sample numbers left out for NaN or infinity
  std::string data_digest;       // empty when the caller did not ask for it
  bool random_data = false;

  const TensorCalibration* Find(std::string_view tensor) const;
  // nullopt when the tensor or the method is not in the table.
  std::optional<Range> RangeOf(std::string_view tensor, const MethodSpec& method) const;
  int MethodIndex(const MethodSpec& method) const;  // -1
};

}  // namespace gq::calibrate
