// Plugins in the steps of a worker (common/harness/plugin.h): which are offered, and how those that
// the request names are applied.
#pragma once

#include <filesystem>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/graph/model.h"
#include "common/harness/plugin.h"
#include "nlohmann/json.hpp"
#include "server/worker/steps/job_inputs.h"
#include "server/worker/steps/step_log.h"

namespace gq::worker {

// Every plugin there is, for the report and the log of Analyze: `name`, `version`, `description`,
// `stage`, `consent`, `fits`, and `reason` where it does not fit.
absl::StatusOr<nlohmann::json> OfferedPlugins(const gq::v1::JobSpec& spec,
                                              const graph::Model& model, StepLog& log);

// Every plugin of the request is there, fits, and has the user's consent. Fails with kInvalidFlag
// (listing those there are) or kConsentRequired (with the plugin's text).
absl::Status CheckPlugins(const gq::v1::JobSpec& spec, const graph::Model& model);

// Applies the request's plugins of a stage to the file `model`, one after the other, and returns
// what the report records of each: `name`, `version`, `stage`, `changed`, `detail`, `seconds`, and
// the digests of the model before and after. The result is at `output`; without plugins of the
// stage nothing is written and the list is empty. Fails with kInternal and the like as CallHarness
// does, and with kSanityCheckFailed when a plugin changed inputs or outputs of the model.
absl::StatusOr<nlohmann::json> ApplyPlugins(harness::PluginStage stage, const gq::v1::JobSpec& spec,
                                            const std::filesystem::path& model,
                                            const std::filesystem::path& output, StepLog& log);

// Checks the plugins of the request and puts what those of stage `model` make of the model in its
// place; the record of ApplyPlugins, null without plugins.
absl::StatusOr<nlohmann::json> ApplyModelPlugins(const JobInputs& inputs, StepLog& log,
                                                 graph::Model& model);

}  // namespace gq::worker
