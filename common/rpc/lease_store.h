// Leases of a session on disk (layout in agent_session.h).
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/file.h"
#include "gq/v1/agent_service.pb.h"

namespace gq::rpc {

struct StoredLease {
  gq::v1::Lease lease;
  // When the work began.
  absl::Time start;
  // Set when the work had ended.
  std::optional<gq::v1::StepResult> result;
};

// Thread-safe as far as different leases are concerned.
class LeaseStore {
 public:
  // Locks `state_dir`. Fails with kDataFolderLocked or kFileUnwritable.
  static absl::StatusOr<LeaseStore> Open(const std::filesystem::path& state_dir);

  // What an earlier process left; damaged entries are deleted.
  std::vector<StoredLease> Load();

  // Durable when it returns. Fails with kDiskFull or kFileUnwritable.
  absl::Status Add(const gq::v1::Lease& lease);
  absl::Status SaveResult(const gq::v1::Lease& lease, const gq::v1::StepResult& result);
  void RemoveWork(const gq::v1::Lease& lease);
  void Remove(const gq::v1::Lease& lease);

  std::filesystem::path WorkFolder(const gq::v1::Lease& lease) const;
  std::filesystem::path LogFile(const gq::v1::Lease& lease) const;
  std::filesystem::path CacheFolder() const { return state_dir_ / "cache"; }

 private:
  LeaseStore(std::filesystem::path state_dir, base::FileDescriptor lock);
  std::filesystem::path Folder(const gq::v1::Lease& lease) const;

  std::filesystem::path state_dir_;
  base::FileDescriptor lock_;
};

}  // namespace gq::rpc
