// The verdict of a step on `--target-performance`.
#pragma once

#include <set>

#include "common/job/performance_target.h"
#include "common/rpc/step_program.h"
#include "gq/v1/agent_service.pb.h"

namespace gq::agent {

// Judges the targets that `steps` measure by the result's own part of the report and those of
// earlier steps. Adds `performance_targets` to the part, logs each, and makes the verdict "not met"
// when one is missed. A target that is met changes nothing: the verdict on accuracy stands.
void JudgeTargets(const rpc::StepContext& context, const std::set<job::MeasuredBy>& steps,
                  gq::v1::StepResult& result);

}  // namespace gq::agent
