#include "common/calibrate/calibration_table.h"

#include <algorithm>

namespace gq::calibrate {

const TensorCalibration* CalibrationTable::Find(std::string_view tensor) const {
  const auto found = tensors.find(tensor);
  return found == tensors.end() ? nullptr : &found->second;
}

int CalibrationTable::MethodIndex(const MethodSpec& method) const {
  const auto found = std::find(methods.begin(), methods.end(), method);
  return found == methods.end() ? -1 : static_cast<int>(found - methods.begin());
}

std::optional<Range> CalibrationTable::RangeOf(std::string_view tensor,
                                               const MethodSpec& method) const {
  const TensorCalibration* found = Find(tensor);
  const int index = MethodIndex(method);
  if (found == nullptr || index < 0) return std::nullopt;
  return found->ranges[static_cast<size_t>(index)];
}

}  // namespace gq::calibrate
