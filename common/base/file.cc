#include "common/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::base {
namespace {

absl::Status WriteError(std::string_view name, int error) {
  if (error == ENOSPC || error == EDQUOT) {
    return MakeError(Reason::kDiskFull, StrCat(name, ": no space left on the disk"),
                     "Free some space and try again.");
  }
  return MakeError(Reason::kFileUnwritable, StrCat(name, ": ", std::strerror(error)),
                   "Check the path and its permissions.");
}

absl::Status SyncFolder(const std::filesystem::path& folder) {
  FileDescriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0) return WriteError(folder.string(), errno);
  return absl::OkStatus();
}

}  // namespace

void FileDescriptor::Close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path, size_t limit) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    const int error = errno;
    return MakeError(error == ENOENT ? Reason::kFileNotFound : Reason::kFileUnreadable,
                     StrCat(path.string(), ": ", std::strerror(error)));
  }
  struct stat info;
  if (::fstat(fd.get(), &info) != 0 || S_ISDIR(info.st_mode)) {
    return MakeError(Reason::kFileUnreadable, StrCat(path.string(), ": not a file"));
  }
  std::string content;
  content.reserve(static_cast<size_t>(info.st_size));
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return MakeError(Reason::kFileUnreadable, StrCat(path.string(), ": ", std::strerror(errno)));
    }
    if (n == 0) return content;
    if (content.size() + static_cast<size_t>(n) > limit) {
      return MakeError(Reason::kResourceLimit,
                       StrCat(path.string(), ": larger than the ", limit, " bytes allowed"));
    }
    content.append(buffer, static_cast<size_t>(n));
  }
}

absl::Status WriteAll(int fd, std::string_view bytes, std::string_view name) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return WriteError(name, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status WriteFileAtomically(const std::filesystem::path& path, std::string_view content,
                                 bool durable) {
  // The file takes the place of what is there: a device or a pipe would be lost.
  std::error_code error;
  const std::filesystem::file_status before = std::filesystem::status(path, error);
  if (std::filesystem::exists(before) && !std::filesystem::is_regular_file(before) &&
      !std::filesystem::is_directory(before)) {
    return MakeError(Reason::kFileUnwritable, StrCat(path.string(), ": this is no regular file"),
                     "Give the name of a file.");
  }
  std::string temporary = StrCat(path.string(), ".XXXXXX");
  FileDescriptor fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.valid()) return WriteError(path.string(), errno);
  absl::Status status = WriteAll(fd.get(), content, path.string());
  if (status.ok() && ::fchmod(fd.get(), 0644) != 0) status = WriteError(path.string(), errno);
  if (status.ok() && durable && ::fsync(fd.get()) != 0) status = WriteError(path.string(), errno);
  fd.Close();
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = WriteError(path.string(), errno);
  }
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  if (!durable) return absl::OkStatus();
  const std::filesystem::path folder = path.parent_path();
  return SyncFolder(folder.empty() ? "." : folder);
}

absl::Status MakeFolder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return WriteError(path.string(), error.value());
  return absl::OkStatus();
}

absl::StatusOr<FileDescriptor> LockFile(const std::filesystem::path& path) {
  FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return WriteError(path.string(), errno);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return WriteError(path.string(), errno);
    return MakeError(Reason::kDataFolderLocked,
                     StrCat(path.string(), ": in use by another process"),
                     "Stop the other process or choose another folder.");
  }
  return fd;
}

}  // namespace gq::base
