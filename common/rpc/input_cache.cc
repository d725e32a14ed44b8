#include "common/rpc/input_cache.h"

#include <algorithm>
#include <system_error>
#include <tuple>
#include <vector>

#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::rpc {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;

absl::Status Provide(const fs::path& cached, const fs::path& target) {
  std::error_code error;
  fs::remove(target, error);
  fs::create_hard_link(cached, target, error);
  if (!error) return absl::OkStatus();
  fs::copy_file(cached, target, error);
  if (!error) return absl::OkStatus();
  return MakeError(Reason::kFileUnwritable, base::StrCat(target.string(), ": ", error.message()));
}

}  // namespace

absl::Status InputCache::Fetch(const gq::v1::Digest& digest, const fs::path& target,
                               BlobClient& blobs) {
  GQ_RETURN_IF_ERROR(base::MakeFolder(target.parent_path()));
  if (!base::IsSha256Hex(digest.sha256())) {
    return MakeError(Reason::kDataInvalid,
                     base::StrCat(target.filename().string(), ": the request names no content"));
  }
  if (digest.size_bytes() > limit_) return blobs.Download(digest, target);
  GQ_RETURN_IF_ERROR(base::MakeFolder(folder_));
  const fs::path cached = folder_ / digest.sha256();

  {
    absl::MutexLock lock(&mutex_);
    const auto free = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !loading_.contains(digest.sha256());
    };
    mutex_.Await(absl::Condition(&free));
    loading_.insert(digest.sha256());
  }
  const auto load = [&]() -> absl::Status {
    std::error_code error;
    if (!fs::is_regular_file(cached, error)) {
      Evict(digest.size_bytes());
      GQ_RETURN_IF_ERROR(blobs.Download(digest, cached));
      fs::permissions(cached, fs::perms::owner_read | fs::perms::group_read, error);
    }
    fs::last_write_time(cached, fs::file_time_type::clock::now(), error);
    return Provide(cached, target);
  };
  const absl::Status status = load();
  absl::MutexLock lock(&mutex_);
  loading_.erase(digest.sha256());
  return status;
}

void InputCache::Evict(int64_t room) {
  std::vector<std::tuple<fs::file_time_type, int64_t, fs::path>> files;
  int64_t total = room;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    std::error_code unreadable;
    const auto time = entry.last_write_time(unreadable);
    const auto size = static_cast<int64_t>(entry.file_size(unreadable));
    if (unreadable || !base::IsSha256Hex(entry.path().filename().string())) continue;
    files.emplace_back(time, size, entry.path());
    total += size;
  }
  std::sort(files.begin(), files.end());
  for (const auto& [time, size, path] : files) {
    if (total <= limit_) return;
    absl::MutexLock lock(&mutex_);
    if (loading_.contains(path.filename().string())) continue;
    if (fs::remove(path, error)) total -= size;
  }
}

}  // namespace gq::rpc
