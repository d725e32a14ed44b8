// The Board Run step: the compiled model on a board, its outputs against the CPU reference, its
// latency with the conditions it holds for.
#pragma once

#include "absl/status/statusor.h"
#include "board_agent/backends/backend.h"
#include "common/rpc/step_program.h"
#include "gq/v1/agent_service.pb.h"

namespace gq::agent {

// Runs model_quantized.onnx of an earlier step, or the job's model, on a sample of the evaluation
// data (else the calibration data, else seeded random data), and beside it the float model where an
// earlier step left one. After a search the finalists run instead, and the files of the one that
// wins become those of the job (finalists.h). Leaves the step out when the job's --exec-if is not
// met. Errors: kBoardFailed when the board computes something else than the CPU, those of data and
// models.
absl::StatusOr<gq::v1::StepResult> RunBoardStep(const rpc::StepContext& context,
                                                const BoardSpec& board, const Backend& backend);

}  // namespace gq::agent
