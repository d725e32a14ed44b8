// Uploads and downloads blobs: by digest, resumable both ways, verified.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/channel.h"
#include "gq/v1/blob_service.grpc.pb.h"

namespace gq::rpc {

inline constexpr int64_t kBlobChunkBytes = 1 << 20;

// SHA-256 and size of a file's content. Fails with kFileNotFound, kFileUnreadable (also for a
// folder) or kCancelled.
absl::StatusOr<gq::v1::Digest> DigestOfFile(const std::filesystem::path& path,
                                            std::stop_token stop = {});
gq::v1::Digest DigestOfBytes(std::string_view bytes);

struct BlobOptions {
  // Tries of one transfer that make no headway before it fails; a try that moves bytes starts the
  // count again.
  int max_tries = 6;
  // A transfer that moves nothing for so long is broken off and tried again.
  absl::Duration stall_timeout = absl::Seconds(30);
  // Called now and then with the name of the file and how far it got; may be empty.
  std::function<void(std::string_view name, int64_t done, int64_t total)> progress;
  // Ends transfers early with kCancelled.
  std::stop_token stop;
};

// Thread-safe; all calls block. Errors: kServerUnreachable after the last try, kDigestMismatch when
// content arrives changed (or a file changes while it is read), what the server answers otherwise.
class BlobClient {
 public:
  explicit BlobClient(std::shared_ptr<Channel> channel, BlobOptions options = {});

  // The given digests that the caller has to upload, in the order given.
  absl::StatusOr<std::vector<gq::v1::Digest>> FindMissing(std::span<const gq::v1::Digest> digests);

  // Makes the content of a file known to the server; sends it only when the server lacks it. The
  // reference is named `name`, or as the file when that is empty.
  absl::StatusOr<gq::v1::FileRef> UploadFile(const std::filesystem::path& path,
                                             std::string_view name = "");

  // The same for several files with one question for all of them; references in the order given.
  absl::StatusOr<std::vector<gq::v1::FileRef>> UploadFiles(
      std::span<const std::filesystem::path> paths);

  absl::StatusOr<gq::v1::Digest> UploadBytes(std::string_view bytes);

  // A model with the external data files it names (external_data.h). Fails with
  // kExternalDataInvalid when one is missing or lies outside the model's folder.
  absl::StatusOr<gq::v1::ModelRef> UploadModel(const std::filesystem::path& path);

  // Writes a blob to `path`, whose folder must exist. Goes on from an interrupted download (`path`
  // + `.part`), verifies, then renames; an existing file is replaced.
  absl::Status Download(const gq::v1::Digest& digest, const std::filesystem::path& path);

  // A small blob as bytes; kResourceLimit when it is larger than `limit`.
  absl::StatusOr<std::string> ReadBytes(const gq::v1::Digest& digest, int64_t limit);

 private:
  class Source;
  absl::Status Upload(const gq::v1::Digest& digest, std::string_view name, const Source& source);
  absl::StatusOr<int64_t> WriteOnce(const std::string& upload_id, const gq::v1::Digest& digest,
                                    std::string_view name, const Source& source, int64_t offset);
  absl::Status ReadOnce(const gq::v1::Digest& digest, int64_t offset, std::string_view name,
                        const std::function<absl::Status(std::string_view)>& sink);
  absl::Status ReadAll(const gq::v1::Digest& digest, int64_t offset, std::string_view name,
                       const std::function<absl::Status(std::string_view)>& sink);

  std::shared_ptr<Channel> channel_;
  BlobOptions options_;
  std::unique_ptr<gq::v1::BlobService::Stub> stub_;
};

}  // namespace gq::rpc
