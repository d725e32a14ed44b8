// Small files as a whole, and the few file operations that everything durable rests on.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gq::base {

// Owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() { Close(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void Close();

 private:
  int fd_ = -1;
};

// The content of a regular file. Fails with kFileNotFound, kFileUnreadable, or kResourceLimit when
// it has more than `limit` bytes.
absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path,
                                     size_t limit = size_t{1} << 30);

// Replaces a file in one step: writes a temporary file beside it and renames it. With `durable` the
// content and the name survive a power cut. Fails with kFileUnwritable or kDiskFull; then the old
// file is untouched and nothing is left behind.
absl::Status WriteFileAtomically(const std::filesystem::path& path, std::string_view content,
                                 bool durable = false);

// Writes all bytes to a descriptor. Fails with kFileUnwritable or kDiskFull; `name` is for the
// message.
absl::Status WriteAll(int fd, std::string_view bytes, std::string_view name);

// Makes a folder and its parents; no error when it is there. Fails with kFileUnwritable.
absl::Status MakeFolder(const std::filesystem::path& path);

// Takes an exclusive lock on a file (made when missing), held until the descriptor is closed or the
// process ends. Fails with kDataFolderLocked when another process holds it.
absl::StatusOr<FileDescriptor> LockFile(const std::filesystem::path& path);

}  // namespace gq::base
