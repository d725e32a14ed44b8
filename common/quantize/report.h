// The "graph_quantize" fragment of a job's report.
#pragma once

#include <map>
#include <string>

#include "common/calibrate/calibration_table.h"
#include "common/quantize/context.h"
#include "nlohmann/json.hpp"

namespace gq::quantize {

using PhaseSeconds = std::map<std::string, double>;

nlohmann::json MakeReport(QuantizeContext& context, const calibrate::CalibrationTable& table,
                          const PhaseSeconds& seconds);

}  // namespace gq::quantize
