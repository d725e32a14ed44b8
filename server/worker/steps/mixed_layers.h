// The layers that a request keeps in bfloat16 or float16 among int8 ones: --fp-nodes,
// --fp-op-types, and the head and tail of the configuration vint8_bf16_head_tail.
#pragma once

#include "absl/status/status.h"
#include "common/graph/model.h"
#include "gq/v1/job_service.pb.h"
#include "server/worker/steps/strategy.h"

namespace gq::worker {

// Adds those layers to strategy.config, in the form of --mixed-form, and sentences that list them.
// Names mean nodes of `user_model` or, where it is at hand, of the optimized model; head and tail
// are counted on the optimized model, so without it they stay empty. Errors: INVALID_FLAG for flags
// that contradict the scheme or one another, PATTERN_UNMATCHED for an operator type that the model
// does not have, CONFIG_INVALID for a path that is too short for head and tail.
absl::Status KeepNamedLayers(const gq::v1::JobSpec& spec, const graph::Model& user_model,
                             const graph::Model* float_model, Strategy& strategy);

// BFLOAT16 or FLOAT16: what --fp-precision or the scheme says. INVALID_FLAG when they differ.
absl::StatusOr<quantize::ElementType> PrecisionOfLayers(const gq::v1::JobSpec& spec);

// What --mixed-form says; kFloat when it is not given. INVALID_FLAG.
absl::StatusOr<quantize::MixedForm> MixedFormOf(const gq::v1::JobSpec& spec);

}  // namespace gq::worker
