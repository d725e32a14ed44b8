// Content-addressed files: uploads that can be resumed, verified content, garbage collection.
//   <folder>/sha256/ab/abcd...      complete blobs
//   <folder>/incoming/<id>.part     uploads under way
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/sha256.h"
#include "gq/v1/common.pb.h"
#include "server/ledger/ledger.h"

namespace gq::server {

// Fails with kDigestMismatch unless the digest is one: 64 hexadecimal digits and a size that is not
// negative.
absl::Status CheckDigest(const gq::v1::Digest& digest);

struct UploadState {
  int64_t committed_size = 0;
  bool complete = false;
};

// Says which connection may write to an upload's file, and is held while it does: content that was
// verified cannot be changed by an older connection any more.
struct UploadSlot {
  absl::Mutex mutex;
  int64_t current ABSL_GUARDED_BY(mutex) = 0;  // ticket of the connection; -1 when it is complete
};

// One blob on its way in. Used by one thread at a time. When it is destroyed before Finish, what
// was written is kept for the next try.
class Upload {
 public:
  ~Upload();

  int64_t committed_size() const { return size_; }

  // Fails with kUploadOffset when another connection goes on with this upload or the blob would
  // become too long, kDiskFull, kFileUnwritable.
  absl::Status Append(std::string_view data);

  // Verifies and stores the blob. kDigestMismatch when the content is another one; the upload is
  // discarded then. Fails with kUploadOffset when bytes are missing.
  absl::Status Finish();

 private:
  friend class BlobStore;
  Upload(class BlobStore& store, std::string key, std::string principal, gq::v1::Digest digest,
         int file, std::shared_ptr<UploadSlot> slot, int64_t ticket);
  // Takes in what an earlier try left.
  absl::Status Resume();
  // kUploadOffset when another connection goes on with this upload.
  absl::Status CheckCurrent() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(slot_->mutex);
  absl::Status Write(std::string_view data);

  BlobStore& store_;
  const std::string key_;
  const std::string principal_;
  const gq::v1::Digest digest_;
  int file_;
  const std::shared_ptr<UploadSlot> slot_;
  const int64_t ticket_;
  int64_t size_ = 0;
  int64_t synced_ = 0;
  base::Sha256 hash_;
};

// A blob being read, from any offset on. Used by one thread at a time.
class BlobReader {
 public:
  BlobReader(int file, gq::v1::Digest digest, int64_t offset);
  ~BlobReader();
  BlobReader(const BlobReader&) = delete;
  BlobReader& operator=(const BlobReader&) = delete;

  int64_t offset() const { return offset_; }
  bool AtEnd() const { return offset_ >= digest_.size_bytes(); }

  // The next bytes, at most `limit`. Fails with kDigestMismatch when the file is damaged: at the
  // latest instead of the last bytes of a blob that is read from its beginning.
  absl::StatusOr<std::string> Next(int64_t limit);

 private:
  const int file_;
  const gq::v1::Digest digest_;
  int64_t offset_;
  bool whole_;  // read from the beginning
  base::Sha256 hash_;
};

// Thread-safe. Calls block on the disk.
class BlobStore {
 public:
  // Uploads that leave less than `min_free_bytes` on the disk are refused. `ledger` outlives the
  // store.
  BlobStore(std::filesystem::path folder, Ledger& ledger, int64_t min_free_bytes);

  absl::StatusOr<UploadState> QueryUpload(std::string_view principal, std::string_view upload_id,
                                          const gq::v1::Digest& digest);

  // Begins an upload, or goes on with one; `offset` is where the caller goes on. A null pointer
  // means that the principal has the blob already. Ends an older connection of the same upload.
  // Fails with kUploadOffset, kDigestMismatch (malformed), kDiskFull.
  absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(std::string_view principal,
                                                      std::string_view upload_id,
                                                      const gq::v1::Digest& digest, int64_t offset);

  // Fails with kBlobMissing, kUploadOffset for an offset beyond the end.
  absl::StatusOr<std::unique_ptr<BlobReader>> Open(const gq::v1::Digest& digest, int64_t offset);

  struct Collected {
    int64_t blobs = 0;
    int64_t bytes = 0;
  };
  // Deletes blobs that nothing refers to and that were not touched within `age`, and uploads that
  // were left alone for a day.
  absl::StatusOr<Collected> CollectGarbage(absl::Duration age, bool dry_run);

  int64_t FreeBytes() const;

 private:
  friend class Upload;

  std::filesystem::path PathOf(const gq::v1::Digest& digest) const;
  std::filesystem::path PartOf(const std::string& key) const;
  absl::Status Commit(const std::string& key, const std::string& principal,
                      const gq::v1::Digest& digest);

  const std::filesystem::path folder_;
  Ledger& ledger_;
  const int64_t min_free_bytes_;
  absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<UploadSlot>> slots_ ABSL_GUARDED_BY(mutex_);
  int64_t next_ticket_ ABSL_GUARDED_BY(mutex_) = 1;
  // Held while a file appears or disappears together with its row.
  absl::Mutex commit_mutex_;
};

}  // namespace gq::server
