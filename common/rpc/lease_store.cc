#include "common/rpc/lease_store.h"

#include <sys/stat.h>

#include <string>
#include <system_error>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::rpc {
namespace {

namespace fs = std::filesystem;

// Lease ids come from the server; any text is good for a folder name this way.
std::string FolderName(const gq::v1::Lease& lease) {
  return base::Sha256Hex(base::StrCat(lease.lease_id(), "\n", lease.generation())).substr(0, 32);
}

template <typename Message>
bool Parse(const fs::path& path, Message& message) {
  const absl::StatusOr<std::string> bytes = base::ReadFile(path);
  return bytes.ok() && message.ParseFromString(*bytes);
}

// When the file was written; now when that is not known.
absl::Time TimeOf(const fs::path& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 ? absl::TimeFromTimespec(info.st_mtim) : absl::Now();
}

}  // namespace

absl::StatusOr<LeaseStore> LeaseStore::Open(const fs::path& state_dir) {
  GQ_RETURN_IF_ERROR(base::MakeFolder(state_dir / "leases"));
  std::error_code error;
  fs::permissions(state_dir, fs::perms::owner_all, error);
  GQ_ASSIGN_OR_RETURN(base::FileDescriptor lock, base::LockFile(state_dir / "lock"));
  return LeaseStore(fs::absolute(state_dir), std::move(lock));
}

LeaseStore::LeaseStore(fs::path state_dir, base::FileDescriptor lock)
    : state_dir_(std::move(state_dir)), lock_(std::move(lock)) {}

std::vector<StoredLease> LeaseStore::Load() {
  std::vector<StoredLease> leases;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(state_dir_ / "leases", error)) {
    StoredLease stored;
    if (!Parse(entry.path() / "lease.pb", stored.lease) ||
        FolderName(stored.lease) != entry.path().filename()) {
      fs::remove_all(entry.path(), error);
      continue;
    }
    stored.start = TimeOf(entry.path() / "lease.pb");
    if (gq::v1::StepResult result; Parse(entry.path() / "result.pb", result)) {
      stored.result = std::move(result);
    }
    leases.push_back(std::move(stored));
  }
  return leases;
}

absl::Status LeaseStore::Add(const gq::v1::Lease& lease) {
  Remove(lease);
  GQ_RETURN_IF_ERROR(base::MakeFolder(WorkFolder(lease)));
  return base::WriteFileAtomically(Folder(lease) / "lease.pb", lease.SerializeAsString(),
                                   /*durable=*/true);
}

absl::Status LeaseStore::SaveResult(const gq::v1::Lease& lease, const gq::v1::StepResult& result) {
  return base::WriteFileAtomically(Folder(lease) / "result.pb", result.SerializeAsString(),
                                   /*durable=*/true);
}

void LeaseStore::RemoveWork(const gq::v1::Lease& lease) {
  std::error_code error;
  fs::remove_all(WorkFolder(lease), error);
}

void LeaseStore::Remove(const gq::v1::Lease& lease) {
  std::error_code error;
  fs::remove_all(Folder(lease), error);
}

fs::path LeaseStore::Folder(const gq::v1::Lease& lease) const {
  return state_dir_ / "leases" / FolderName(lease);
}
fs::path LeaseStore::WorkFolder(const gq::v1::Lease& lease) const { return Folder(lease) / "work"; }
fs::path LeaseStore::LogFile(const gq::v1::Lease& lease) const { return Folder(lease) / "log"; }

}  // namespace gq::rpc
