#include "client/cli/results_folder.h"

#include <system_error>

#include "client/cli/job_text.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/report/html.h"

namespace gq::cli {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;

// What steps make for later ones.
bool IsIntermediate(std::string_view artifact) {
  return artifact.starts_with("model_float.onnx") || artifact.starts_with("model_recovered.onnx") ||
         artifact == "config_recovered.json";
}

bool SameSize(const fs::path& path, int64_t size) {
  std::error_code error;
  return fs::is_regular_file(path, error) &&
         static_cast<int64_t>(fs::file_size(path, error)) == size && !error;
}

}  // namespace

absl::StatusOr<fs::path> PathBelow(const fs::path& folder, std::string_view artifact) {
  const fs::path path(artifact);
  bool safe =
      !artifact.empty() && path.is_relative() && artifact.find('\0') == std::string_view::npos;
  for (const fs::path& part : path) safe = safe && part != ".." && part != "." && !part.empty();
  if (!safe) {
    return MakeError(Reason::kInternal, StrCat("the server names an artifact '", artifact,
                                               "' outside the job's folder"));
  }
  return folder / path;
}

absl::StatusOr<std::vector<std::string>> FetchArtifacts(ServiceClient& client,
                                                        rpc::BlobClient& blobs,
                                                        const std::string& job_id,
                                                        const fs::path& folder, bool all) {
  GQ_ASSIGN_OR_RETURN(const std::vector<gq::v1::Artifact> artifacts, client.ListArtifacts(job_id));
  std::vector<std::string> fetched;
  for (const gq::v1::Artifact& artifact : artifacts) {
    if (!all && IsIntermediate(artifact.path())) continue;
    GQ_ASSIGN_OR_RETURN(const fs::path path, PathBelow(folder, artifact.path()));
    fetched.push_back(artifact.path());
    if (SameSize(path, artifact.digest().size_bytes())) {
      const auto digest = rpc::DigestOfFile(path);
      if (digest.ok() && digest->sha256() == artifact.digest().sha256()) continue;
    }
    GQ_RETURN_IF_ERROR(base::MakeFolder(path.parent_path()));
    GQ_RETURN_IF_ERROR(blobs.Download(artifact.digest(), path));
  }
  return fetched;
}

absl::Status WriteReports(ServiceClient& client, const std::string& job_id,
                          const std::string& report_json, std::string_view log,
                          const fs::path& folder) {
  GQ_RETURN_IF_ERROR(base::MakeFolder(folder));
  GQ_RETURN_IF_ERROR(base::WriteFileAtomically(folder / "report.json", report_json));
  GQ_RETURN_IF_ERROR(
      base::WriteFileAtomically(folder / "report.html", report::ReportHtml(report_json)));
  if (!log.empty()) GQ_RETURN_IF_ERROR(base::WriteFileAtomically(folder / "log.txt", log));
  const auto iterations = client.ListIterations(job_id);
  if (!iterations.ok() || iterations->empty()) return absl::OkStatus();
  nlohmann::ordered_json ledger = nlohmann::ordered_json::array();
  for (const gq::v1::Iteration& iteration : *iterations) {
    nlohmann::ordered_json row = ToJson(iteration);
    row.erase("resume_state");
    ledger.push_back(std::move(row));
  }
  return base::WriteFileAtomically(folder / "ledger.json", ledger.dump(2) + "\n");
}

}  // namespace gq::cli
