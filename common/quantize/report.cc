#include "common/quantize/report.h"

namespace gq::quantize {

nlohmann::json MakeReport(const QuantizeContext& context, const calibrate::CalibrationTable& table,
                          const PhaseSeconds& seconds) {
  nlohmann::json report;
  report["scheme"] = context.config.scheme;
  report["engine"] = "native";
  report["calibration"] = {{"samples", table.samples}, {"random", table.random_data}};
  report["warnings"] = context.warnings;
  report["seconds"] = seconds;
  return report;
}

}  // namespace gq::quantize
