#include "server/ledger/data_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstring>
#include <system_error>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::server {

using base::MakeError;
using base::Reason;
using base::StrCat;

absl::StatusOr<DataFolder> DataFolder::Open(const std::filesystem::path& path) {
  std::error_code error;
  const bool existed = std::filesystem::exists(path, error);
  std::filesystem::create_directories(path, error);
  if (error) {
    return MakeError(
        Reason::kFileUnwritable,
        StrCat("the data folder '", path.string(), "' cannot be made: ", error.message()),
        "give another one with --data or GQ_DATA");
  }
  if (!existed) {
    using std::filesystem::perms;
    std::filesystem::permissions(path, perms::owner_all | perms::group_read | perms::group_exec,
                                 error);
  }
  const int lock = open((path / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) {
    return MakeError(
        Reason::kFileUnwritable,
        StrCat("the data folder '", path.string(), "' cannot be written: ", std::strerror(errno)),
        "give another one with --data or GQ_DATA");
  }
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    close(lock);
    return MakeError(Reason::kDataFolderLocked,
                     StrCat("another gq-server uses the data folder '", path.string(), "'"),
                     "stop it first, or give another folder with --data or GQ_DATA");
  }
  return DataFolder(std::filesystem::absolute(path, error), lock);
}

DataFolder::~DataFolder() {
  if (lock_ >= 0) close(lock_);
}

DataFolder::DataFolder(DataFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

}  // namespace gq::server
