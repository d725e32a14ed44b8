// From the files on a command line to the references of a job.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/job/flags.h"
#include "common/rpc/blob_client.h"

namespace gq::cli {

// The data files that `paths` name, in the order given; a folder stands for its .npy and .npz
// files, sorted by name. FILE_NOT_FOUND, DATA_EMPTY (a folder without such files) or DATA_INVALID
// (a file with another ending).
absl::StatusOr<std::vector<std::filesystem::path>> ExpandDataPaths(
    std::string_view flag, std::span<const std::string> paths);

// Checks that every file of the request is there before anything is sent.
absl::Status CheckFiles(const job::LocalOptions& local);

// Uploads what the server lacks and sets the file references of `request.spec`.
absl::Status UploadFiles(rpc::BlobClient& blobs, job::JobRequest& request);

}  // namespace gq::cli
