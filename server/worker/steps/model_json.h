// Models and their structure as parts of the report.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "common/graph/analysis.h"
#include "common/graph/model.h"
#include "common/graph/optimize.h"
#include "gq/v1/job_service.pb.h"
#include "nlohmann/json.hpp"

namespace gq::worker {

// graph_optimize.analysis of docs/report.md.
nlohmann::json AnalysisJson(const graph::Analysis& analysis, const graph::Model& model);

// graph_optimize.model: file, bytes with external data, sha256, opset, ir_version.
absl::StatusOr<nlohmann::json> ModelFileJson(const std::filesystem::path& path,
                                             const graph::Model& model);

// Passes that changed something.
nlohmann::json PassesJson(const std::vector<graph::PassReport>& passes);

// What one needs to repeat the job: versions, seed, host.
nlohmann::json IdentityJson(const gq::v1::JobSpec& spec);

// Bytes of a model file together with its external data file.
int64_t FileBytes(const std::filesystem::path& path, const graph::Model& model);

}  // namespace gq::worker
