// `gq-worker step WORKDIR`: the child that does the work of one lease.
#pragma once

#include "absl/status/statusor.h"
#include "common/rpc/step_program.h"
#include "gq/v1/agent_service.pb.h"

namespace gq::worker {

// Names of results that later steps and users look for.
inline constexpr char kFloatModelFile[] = "model_float.onnx";
inline constexpr char kStrippedModelFile[] = "model_stripped.onnx";
inline constexpr char kQuantizedModelFile[] = "model_quantized.onnx";
inline constexpr char kQuarkConfigFile[] = "quark_config.json";

// Does the step of the lease. NOT_AVAILABLE for a kind that this program does not do.
absl::StatusOr<gq::v1::StepResult> RunLease(rpc::StepContext& context);

}  // namespace gq::worker
