// From a request to the steps of a job. The number of steps is fixed here.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "gq/v1/job_service.pb.h"
#include "server/ledger/records.h"

namespace gq::server {

// Title of a step in logs and reports, e.g. `Graph Quantize`.
std::string_view StepTitle(gq::v1::StepKind kind);

// Checks the request as far as that goes without opening a file, and fills in the defaults that
// decide where it runs: kind, stage, device, scheme, and the search that a mixed scheme without
// named layers implies. Fails with kInvalidFlag (names the field).
absl::Status CompleteSpec(gq::v1::JobSpec* spec);

// The steps of a complete request and what they need.
std::vector<StepPlan> PlanSteps(const gq::v1::JobSpec& spec);

// Every blob that a request refers to.
std::vector<gq::v1::Digest> BlobsOf(const gq::v1::JobSpec& spec);

}  // namespace gq::server
