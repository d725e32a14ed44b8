// A folder of its own for work on the way to a result.
#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace gq::base {

// Removes the folder with all that is in it when it goes.
class TemporaryFolder {
 public:
  // Makes PARENT/PREFIX and six characters that make the name unique, for the user alone (0700).
  // Without a parent it lies in the system's folder for temporary files (TMPDIR). FILE_UNWRITABLE.
  static absl::StatusOr<TemporaryFolder> Make(std::string_view prefix,
                                              const std::filesystem::path& parent = {});

  TemporaryFolder(TemporaryFolder&& other) noexcept
      : path_(std::exchange(other.path_, std::filesystem::path())) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;  // empty after a move
};

}  // namespace gq::base
