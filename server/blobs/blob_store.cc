#include "server/blobs/blob_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::server {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

constexpr int64_t kSyncBytes = int64_t{64} << 20;
constexpr int64_t kReadBytes = int64_t{1} << 20;
constexpr auto kPartAge = std::chrono::hours(24);

absl::Status WriteError(std::string_view what) {
  const bool full = errno == ENOSPC || errno == EDQUOT;
  return MakeError(full ? Reason::kDiskFull : Reason::kFileUnwritable,
                   StrCat(what, " cannot be written: ", std::strerror(errno)),
                   "an administrator has to look at the disk of the data folder");
}

absl::Status BlobMissing(const gq::v1::Digest& digest) {
  return MakeError(Reason::kBlobMissing, StrCat("there is no blob ", digest.sha256()),
                   "upload it first");
}

absl::Status SyncFolder(const std::filesystem::path& folder) {
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return WriteError(folder.string());
  const int result = fsync(file);
  close(file);
  return result == 0 ? absl::OkStatus() : WriteError(folder.string());
}

}  // namespace

absl::Status CheckDigest(const gq::v1::Digest& digest) {
  if (base::IsSha256Hex(digest.sha256()) && digest.size_bytes() >= 0) return absl::OkStatus();
  return MakeError(Reason::kDigestMismatch,
                   "a digest is 64 lower-case hexadecimal digits and a size that is not negative");
}

// --- Upload -------------------------------------------------------------------------------------

Upload::Upload(BlobStore& store, std::string key, std::string principal, gq::v1::Digest digest,
               int file, std::shared_ptr<UploadSlot> slot, int64_t ticket)
    : store_(store),
      key_(std::move(key)),
      principal_(std::move(principal)),
      digest_(std::move(digest)),
      file_(file),
      slot_(std::move(slot)),
      ticket_(ticket) {}

Upload::~Upload() {
  if (file_ < 0) return;
  fdatasync(file_);
  close(file_);
}

absl::Status Upload::Resume() {
  std::string buffer(kReadBytes, '\0');
  while (true) {
    const ssize_t count = pread(file_, buffer.data(), buffer.size(), size_);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return WriteError("an upload");
    if (count == 0) break;
    hash_.Update({buffer.data(), static_cast<size_t>(count)});
    size_ += count;
  }
  synced_ = size_;
  return absl::OkStatus();
}

absl::Status Upload::CheckCurrent() const {
  if (slot_->current == ticket_) return absl::OkStatus();
  return MakeError(Reason::kUploadOffset, "another connection goes on with this upload");
}

absl::Status Upload::Append(std::string_view data) {
  absl::MutexLock lock(&slot_->mutex);
  GQ_RETURN_IF_ERROR(CheckCurrent());
  if (size_ + static_cast<int64_t>(data.size()) > digest_.size_bytes()) {
    return MakeError(Reason::kUploadOffset,
                     StrCat("the blob has ", digest_.size_bytes(), " bytes, more were sent"));
  }
  hash_.Update(data);
  return Write(data);
}

absl::Status Upload::Write(std::string_view data) {
  while (!data.empty()) {
    const ssize_t written = pwrite(file_, data.data(), data.size(), size_);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return WriteError("an upload");
    data.remove_prefix(static_cast<size_t>(written));
    size_ += written;
  }
  if (size_ - synced_ >= kSyncBytes) {
    if (fdatasync(file_) != 0) return WriteError("an upload");
    synced_ = size_;
  }
  return absl::OkStatus();
}

absl::Status Upload::Finish() {
  absl::MutexLock lock(&slot_->mutex);
  GQ_RETURN_IF_ERROR(CheckCurrent());
  if (size_ != digest_.size_bytes()) {
    return MakeError(Reason::kUploadOffset,
                     StrCat("the blob has ", digest_.size_bytes(), " bytes, ", size_, " arrived"),
                     "go on from the committed size");
  }
  slot_->current = -1;
  if (hash_.Finish() != digest_.sha256()) {
    close(std::exchange(file_, -1));
    std::error_code error;
    std::filesystem::remove(store_.PartOf(key_), error);
    return MakeError(Reason::kDigestMismatch,
                     StrCat("the content that arrived is not that of ", digest_.sha256()),
                     "the file changed while it was sent, or it was damaged on the way");
  }
  if (fsync(file_) != 0) return WriteError("an upload");
  close(std::exchange(file_, -1));
  return store_.Commit(key_, principal_, digest_);
}

// --- BlobReader ---------------------------------------------------------------------------------

BlobReader::BlobReader(int file, gq::v1::Digest digest, int64_t offset)
    : file_(file), digest_(std::move(digest)), offset_(offset), whole_(offset == 0) {}

BlobReader::~BlobReader() { close(file_); }

absl::StatusOr<std::string> BlobReader::Next(int64_t limit) {
  std::string data(static_cast<size_t>(std::min(limit, digest_.size_bytes() - offset_)), '\0');
  size_t done = 0;
  while (done < data.size()) {
    const ssize_t count =
        pread(file_, data.data() + done, data.size() - done, offset_ + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  const bool complete = done == data.size();
  if (complete && whole_) hash_.Update(data);
  offset_ += static_cast<int64_t>(done);
  if (!complete || (whole_ && AtEnd() && hash_.Finish() != digest_.sha256())) {
    return MakeError(Reason::kDigestMismatch,
                     StrCat("the stored blob ", digest_.sha256(), " is damaged"),
                     "an administrator has to look at the disk of the data folder");
  }
  return data;
}

// --- BlobStore ----------------------------------------------------------------------------------

BlobStore::BlobStore(std::filesystem::path folder, Ledger& ledger, int64_t min_free_bytes)
    : folder_(std::move(folder)), ledger_(ledger), min_free_bytes_(min_free_bytes) {
  std::error_code error;
  std::filesystem::create_directories(folder_ / "incoming", error);
  std::filesystem::create_directories(folder_ / "sha256", error);
}

std::filesystem::path BlobStore::PathOf(const gq::v1::Digest& digest) const {
  return folder_ / "sha256" / digest.sha256().substr(0, 2) / digest.sha256();
}

std::filesystem::path BlobStore::PartOf(const std::string& key) const {
  return folder_ / "incoming" / (key + ".part");
}

namespace {

// Name of an upload's file: two users' uploads never meet, whatever ids they choose.
std::string UploadKey(std::string_view principal, std::string_view upload_id,
                      const gq::v1::Digest& digest) {
  return base::Sha256Hex(
      StrCat(principal.size(), ":", principal, upload_id.size(), ":", upload_id, digest.sha256()));
}

}  // namespace

absl::StatusOr<UploadState> BlobStore::QueryUpload(std::string_view principal,
                                                   std::string_view upload_id,
                                                   const gq::v1::Digest& digest) {
  GQ_RETURN_IF_ERROR(CheckDigest(digest));
  GQ_ASSIGN_OR_RETURN(const auto missing, ledger_.FindMissingBlobs(principal, {&digest, 1}));
  if (missing.empty()) return UploadState{digest.size_bytes(), true};
  std::error_code error;
  const auto size =
      std::filesystem::file_size(PartOf(UploadKey(principal, upload_id, digest)), error);
  return UploadState{error ? 0 : static_cast<int64_t>(size), false};
}

absl::StatusOr<std::unique_ptr<Upload>> BlobStore::BeginUpload(std::string_view principal,
                                                               std::string_view upload_id,
                                                               const gq::v1::Digest& digest,
                                                               int64_t offset) {
  GQ_RETURN_IF_ERROR(CheckDigest(digest));
  GQ_ASSIGN_OR_RETURN(const auto missing, ledger_.FindMissingBlobs(principal, {&digest, 1}));
  if (missing.empty()) return std::unique_ptr<Upload>();
  if (FreeBytes() - digest.size_bytes() < min_free_bytes_) {
    return MakeError(Reason::kDiskFull,
                     StrCat("the server has no room for ", digest.size_bytes(), " bytes"),
                     "delete old jobs and run `gq admin gc`, or try again later");
  }
  const std::string key = UploadKey(principal, upload_id, digest);
  std::shared_ptr<UploadSlot> slot;
  int64_t ticket = 0;
  {
    absl::MutexLock lock(&mutex_);
    std::shared_ptr<UploadSlot>& entry = slots_[key];
    if (!entry) entry = std::make_shared<UploadSlot>();
    slot = entry;
    ticket = next_ticket_++;
  }
  // Whoever writes now finishes its chunk first.
  absl::MutexLock lock(&slot->mutex);
  slot->current = ticket;
  const int file = open(PartOf(key).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
  if (file < 0) return WriteError("an upload");
  std::unique_ptr<Upload> upload(
      new Upload(*this, key, std::string(principal), digest, file, slot, ticket));
  GQ_RETURN_IF_ERROR(upload->Resume());
  if (offset != upload->committed_size()) {
    return MakeError(
        Reason::kUploadOffset,
        StrCat("the upload has ", upload->committed_size(), " bytes, the data begins at ", offset),
        "go on from the committed size that QueryWriteStatus gives");
  }
  return upload;
}

absl::Status BlobStore::Commit(const std::string& key, const std::string& principal,
                               const gq::v1::Digest& digest) {
  const std::filesystem::path path = PathOf(digest);
  std::error_code error;
  absl::MutexLock lock(&commit_mutex_);
  std::filesystem::create_directories(path.parent_path(), error);
  std::filesystem::rename(PartOf(key), path, error);
  if (error) {
    errno = error.value();
    return WriteError("a blob");
  }
  GQ_RETURN_IF_ERROR(SyncFolder(path.parent_path()));
  GQ_RETURN_IF_ERROR(ledger_.RecordBlob(principal, digest));
  absl::MutexLock tickets_lock(&mutex_);
  slots_.erase(key);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<BlobReader>> BlobStore::Open(const gq::v1::Digest& digest,
                                                            int64_t offset) {
  GQ_RETURN_IF_ERROR(CheckDigest(digest));
  if (offset < 0 || offset > digest.size_bytes()) {
    return MakeError(Reason::kUploadOffset, StrCat("the blob has ", digest.size_bytes(),
                                                   " bytes, reading cannot begin at ", offset));
  }
  const int file = open(PathOf(digest).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return BlobMissing(digest);
  return std::make_unique<BlobReader>(file, digest, offset);
}

absl::StatusOr<BlobStore::Collected> BlobStore::CollectGarbage(absl::Duration age, bool dry_run) {
  Collected collected;
  GQ_ASSIGN_OR_RETURN(const auto unused, ledger_.ListUnusedBlobs(age));
  for (const gq::v1::Digest& digest : unused) {
    if (!dry_run) {
      // A new upload of the same content waits for the lock, and then makes file and row anew.
      absl::MutexLock lock(&commit_mutex_);
      GQ_ASSIGN_OR_RETURN(const bool forgotten, ledger_.ForgetBlob(digest, age));
      if (!forgotten) continue;
      std::error_code error;
      std::filesystem::remove(PathOf(digest), error);
    }
    ++collected.blobs;
    collected.bytes += digest.size_bytes();
  }
  if (dry_run) return collected;
  std::error_code error;
  const auto now = std::filesystem::file_time_type::clock::now();
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "incoming", error)) {
    const auto time = entry.last_write_time(error);
    if (!error && now - time > kPartAge) std::filesystem::remove(entry.path(), error);
  }
  return collected;
}

int64_t BlobStore::FreeBytes() const {
  struct statvfs info {};
  if (statvfs(folder_.c_str(), &info) != 0) return 0;
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

}  // namespace gq::server
