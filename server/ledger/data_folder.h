// The folder that holds everything a server keeps.
//   ledger.db        the ledger (docs/decisions/ledger.md)
//   backups/         copies made before a migration
//   blobs/ logs/     content and logs
//   admin.token      bearer token of the administrator, mode 0600
//   gq.sock          local socket
//   lock             held by the running server
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"

namespace gq::server {

// Owns the lock of a data folder.
class DataFolder {
 public:
  // Makes the folder (mode 0750) when it is missing and locks it. Fails with kDataFolderLocked when
  // another server uses it, kFileUnwritable.
  static absl::StatusOr<DataFolder> Open(const std::filesystem::path& path);

  ~DataFolder();
  DataFolder(DataFolder&& other) noexcept;
  DataFolder& operator=(DataFolder&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path Ledger() const { return path_ / "ledger.db"; }
  std::filesystem::path Blobs() const { return path_ / "blobs"; }
  std::filesystem::path Logs() const { return path_ / "logs"; }

 private:
  DataFolder(std::filesystem::path path, int lock) : path_(std::move(path)), lock_(lock) {}

  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace gq::server
