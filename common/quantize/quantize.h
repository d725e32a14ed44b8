// The quantizer: float model, configuration and calibration data in, quantized model and report
// out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/reporter.h"
#include "common/calibrate/calibration_table.h"
#include "common/graph/model.h"
#include "common/quantize/config.h"
#include "common/runtime/data_set.h"
#include "nlohmann/json.hpp"

namespace gq::quantize {

// How the model to quantize came out of the user's model. Names and patterns of the configuration
// mean nodes of the user's model.
struct ModelOrigin {
  const onnx::GraphProto* graph = nullptr;  // the user's graph, before optimization
  // OptimizeReport.renamed_nodes: node that is gone -> node that does its work now.
  std::map<std::string, std::string> renamed_nodes;
};

struct QuantizeInputs {
  // Null: the model is quantized as it was loaded.
  const ModelOrigin* origin = nullptr;
  // Ranges that were found before on the same model and data; calibration looks there first.
  const calibrate::CalibrationTable* table = nullptr;
  // A sample on which a tensor becomes NaN or infinite is left out instead of being an error.
  bool allow_nonfinite = false;
};

struct QuantizeResult {
  graph::Model model;
  // Fragment "graph_quantize" of the report (docs/report.md): scheme, strategy, config_digest,
  // calibration, tensors, layers, counts, sizes, alignment, passes, sanity, warnings, seconds.
  nlohmann::json report;
  // What calibration found, for another candidate of the same model.
  calibrate::CalibrationTable table;
};

// `float_model` must have static shapes in value_info (graph/optimize.h makes them). `data` may be
// read several times. Deterministic: same inputs, same bytes, whatever `threads` says. Errors:
// CONFIG_INVALID, PATTERN_INVALID, PATTERN_UNMATCHED, SCHEME_ILLEGAL, DATA_*, MODEL_UNSUPPORTED,
// SANITY_CHECK_FAILED, CANCELLED. Blocks.
absl::StatusOr<QuantizeResult> Quantize(const graph::Model& float_model,
                                        const QuantizeConfig& config, runtime::DataSet& data,
                                        base::Reporter& reporter,
                                        const QuantizeInputs& inputs = {});

}  // namespace gq::quantize
