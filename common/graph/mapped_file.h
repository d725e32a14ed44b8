// A file mapped into memory, read-only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "absl/status/statusor.h"

namespace gq::graph {

class MappedFile {
 public:
  // FILE_NOT_FOUND, or FILE_UNREADABLE for anything but a readable regular file.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::filesystem::path& path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // Valid as long as the object lives.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace gq::graph
