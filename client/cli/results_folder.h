// The results of a job on the client's disk: <work-dir>/<job id>/.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/service_client.h"
#include "common/rpc/blob_client.h"

namespace gq::cli {

// The artifact paths of a job as the server names them, checked: relative, without `..`, below
// `folder`. INTERNAL for a server that names others.
absl::StatusOr<std::filesystem::path> PathBelow(const std::filesystem::path& folder,
                                                std::string_view artifact);

// Downloads the artifacts of a job that are not there yet. Returns their paths below `folder`,
// sorted. What steps make for later ones (`model_float.onnx`, `model_recovered.onnx`,
// `config_recovered.json`) is left out unless `all`.
absl::StatusOr<std::vector<std::string>> FetchArtifacts(ServiceClient& client,
                                                        rpc::BlobClient& blobs,
                                                        const std::string& job_id,
                                                        const std::filesystem::path& folder,
                                                        bool all);

// Writes report.json, report.html, ledger.json (when there are iterations) and, when given,
// log.txt.
absl::Status WriteReports(ServiceClient& client, const std::string& job_id,
                          const std::string& report_json, std::string_view log,
                          const std::filesystem::path& folder);

}  // namespace gq::cli
