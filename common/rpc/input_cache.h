// Downloaded inputs, kept by digest for the next lease.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/blob_client.h"
#include "gq/v1/common.pb.h"

namespace gq::rpc {

// Thread-safe. Files are handed out as hard links, read-only.
class InputCache {
 public:
  // At most `limit` bytes are kept; the least recently used go first.
  InputCache(std::filesystem::path folder, int64_t limit)
      : folder_(std::move(folder)), limit_(limit) {}

  // Puts the blob at `target`, whose folder is made. Downloads it when it is not there; two callers
  // that want the same blob share one download. Errors as BlobClient::Download, and
  // kFileUnwritable.
  absl::Status Fetch(const gq::v1::Digest& digest, const std::filesystem::path& target,
                     BlobClient& blobs);

 private:
  void Evict(int64_t room);

  const std::filesystem::path folder_;
  const int64_t limit_;
  absl::Mutex mutex_;
  std::set<std::string> loading_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gq::rpc
