// --engine quark: the real AMD Quark of the worker's environment does Graph Quantize.
#pragma once

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/graph/model.h"
#include "common/quantize/config.h"
#include "common/runtime/data_set.h"
#include "nlohmann/json.hpp"
#include "server/worker/steps/graph_optimize.h"
#include "server/worker/steps/graph_quantize.h"
#include "server/worker/steps/job_inputs.h"
#include "server/worker/steps/sample_data.h"
#include "server/worker/steps/step_log.h"
#include "server/worker/steps/strategy.h"

namespace gq::worker {

// The Python that has Quark: GQ_QUARK_PYTHON, else `python3`.
std::string QuarkPython();

// Versions of what that Python has: quark, onnx, onnxruntime, numpy, python. TOOL_MISSING, naming
// the interpreter and the package to install, when Quark cannot be imported there.
absl::StatusOr<nlohmann::json> ProbeQuark(const JobInputs& inputs, base::Reporter& log);

// Quantizes the float model by Quark with `config` on `data` and writes `output`. Quark
// runs as a child process in its own process group, with the threads and the time limit of the
// job; what it prints goes to the log, control bytes stripped. Returns its versions. Errors: those
// of ProbeQuark; CONFIG_INVALID for a configuration that Quark has no counterpart for;
// RUNTIME_FAILED with Quark's message; TIMEOUT, CANCELLED.
absl::StatusOr<nlohmann::json> RunQuark(const JobInputs& inputs,
                                        const quantize::QuantizeConfig& config,
                                        const graph::Model& model, runtime::DataSet& data,
                                        const std::filesystem::path& output, StepLog& log);

// Graph Quantize by Quark, with a report of the same parts as the built-in quantizer's. `strategy`
// is what was chosen for the job. Errors: those of RunQuark, and MODEL_INVALID when what Quark
// wrote cannot be read.
absl::StatusOr<GraphQuantizeResult> RunQuarkQuantize(
    const JobInputs& inputs, const GraphOptimizeResult& optimized, const Strategy& strategy,
    const SampleData& data, const std::filesystem::path& output, StepLog& log);

// The text of the driver program, which the build puts into the worker.
const char* QuarkDriver();

}  // namespace gq::worker
