// The Compile step: from a quantized (or float) model to the compiled one and its partition report.
#pragma once

#include "absl/status/statusor.h"
#include "board_agent/backends/backend.h"
#include "common/rpc/step_program.h"
#include "gq/v1/agent_service.pb.h"

namespace gq::agent {

// Takes model_quantized.onnx of an earlier step, or the job's model. Leaves vitisai_config.json and
// compile/KEY/... behind, and the "compile" part of the report. On a device without a compiler the
// step is left out, with a reason. Errors: those of loading a model, kInvalidFlag and
// kConsentRequired for compiler options, kCompileFailed when the tool failed, whatever it says.
absl::StatusOr<gq::v1::StepResult> RunCompileStep(const rpc::StepContext& context,
                                                  const BoardSpec& board, const Backend& backend);

}  // namespace gq::agent
