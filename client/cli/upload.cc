#include "client/cli/upload.h"

#include <algorithm>
#include <set>
#include <system_error>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::cli {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;

constexpr std::string_view kDataEndings[] = {".npy", ".npz"};

bool IsDataFile(const fs::path& path) {
  return std::find(std::begin(kDataEndings), std::end(kDataEndings), path.extension().string()) !=
         std::end(kDataEndings);
}

// The entry of `path`'s folder whose name is closest to that of `path`.
std::string HintForMissing(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return StrCat("the folder ", folder.string(), " does not exist either");
  }
  std::vector<std::string> names;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
    if (names.size() == 1000) break;
  }
  const auto closest = base::ClosestNames(path.filename().string(), names, 1);
  return closest.empty() ? "check the path"
                         : StrCat("did you mean ", (path.parent_path() / closest[0]).string(), "?");
}

absl::Status CheckExists(std::string_view flag, const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error)) return absl::OkStatus();
  return MakeError(Reason::kFileNotFound, StrCat("--", flag, " '", path, "' does not exist"),
                   HintForMissing(path));
}

absl::Status CheckModel(std::string_view flag, const std::string& path) {
  GQ_RETURN_IF_ERROR(CheckExists(flag, path));
  std::error_code error;
  if (fs::is_directory(path, error)) {
    return MakeError(Reason::kFileUnreadable, StrCat("--", flag, " '", path, "' is a folder"),
                     "give the .onnx or .onnxtxt file; its external data is found beside it");
  }
  return absl::OkStatus();
}

absl::Status UploadData(rpc::BlobClient& blobs, std::string_view flag,
                        std::span<const std::string> paths,
                        google::protobuf::RepeatedPtrField<gq::v1::FileRef>* refs) {
  if (paths.empty()) return absl::OkStatus();
  GQ_ASSIGN_OR_RETURN(const std::vector<fs::path> files, ExpandDataPaths(flag, paths));
  GQ_ASSIGN_OR_RETURN(std::vector<gq::v1::FileRef> uploaded, blobs.UploadFiles(files));
  for (gq::v1::FileRef& ref : uploaded) *refs->Add() = std::move(ref);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<fs::path>> ExpandDataPaths(std::string_view flag,
                                                      std::span<const std::string> paths) {
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    if (path.starts_with("data:")) {
      return MakeError(Reason::kNotAvailable, StrCat("not available yet: --", flag, " data:NAME"),
                       "give the files themselves");
    }
    GQ_RETURN_IF_ERROR(CheckExists(flag, path));
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      if (!IsDataFile(path)) {
        return MakeError(Reason::kDataInvalid,
                         StrCat("--", flag, " '", path, "': expected a .npy or .npz file"),
                         "save the samples with numpy.save or numpy.savez");
      }
      files.emplace_back(path);
      continue;
    }
    std::set<fs::path> sorted;
    for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
      if (it->is_regular_file(error) && IsDataFile(it->path())) sorted.insert(it->path());
    }
    if (error) {
      return MakeError(Reason::kFileUnreadable,
                       StrCat("--", flag, " '", path, "': ", error.message()));
    }
    if (sorted.empty()) {
      return MakeError(Reason::kDataEmpty,
                       StrCat("--", flag, " '", path, "' holds no .npy or .npz file"),
                       "put the samples there, or name another folder");
    }
    files.insert(files.end(), sorted.begin(), sorted.end());
  }
  return files;
}

absl::Status CheckFiles(const job::LocalOptions& local) {
  // Without a model the job starts from another one's result.
  if (!local.model.empty()) GQ_RETURN_IF_ERROR(CheckModel("model", local.model));
  if (!local.reference.empty()) GQ_RETURN_IF_ERROR(CheckModel("reference", local.reference));
  GQ_RETURN_IF_ERROR(ExpandDataPaths("calibration-data", local.calibration_data).status());
  GQ_RETURN_IF_ERROR(ExpandDataPaths("evaluation-data", local.evaluation_data).status());
  if (!local.labels.empty()) GQ_RETURN_IF_ERROR(CheckExists("labels", local.labels));
  return absl::OkStatus();
}

absl::Status UploadFiles(rpc::BlobClient& blobs, job::JobRequest& request) {
  gq::v1::JobSpec& spec = request.spec;
  const job::LocalOptions& local = request.local;
  if (!local.model.empty()) {
    GQ_ASSIGN_OR_RETURN(*spec.mutable_model(), blobs.UploadModel(local.model));
  }
  if (!local.reference.empty()) {
    GQ_ASSIGN_OR_RETURN(*spec.mutable_reference(), blobs.UploadModel(local.reference));
  }
  GQ_RETURN_IF_ERROR(UploadData(blobs, "calibration-data", local.calibration_data,
                                spec.mutable_calibration_data()));
  GQ_RETURN_IF_ERROR(
      UploadData(blobs, "evaluation-data", local.evaluation_data, spec.mutable_evaluation_data()));
  if (!local.labels.empty()) {
    GQ_ASSIGN_OR_RETURN(*spec.mutable_labels(), blobs.UploadFile(local.labels));
  }
  return absl::OkStatus();
}

}  // namespace gq::cli
