// Output files that appear only when everything has succeeded.
#pragma once

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/temporary_folder.h"

namespace gq::worker {

// A folder beside the output in which files are written first. It disappears with the object, with
// all that is still in it.
class StagedOutput {
 public:
  // FILE_UNWRITABLE when the output's folder does not exist or cannot be written to, or the output
  // is a folder, a device, a pipe. Where it is a link to a file, that file is replaced.
  static absl::StatusOr<StagedOutput> Create(const std::filesystem::path& output);

  // Where to write the output for now; it has its final name, in another folder.
  std::filesystem::path path() const { return folder_.path() / output_.filename(); }
  const std::filesystem::path& output() const { return output_; }

  // Moves every file of the folder to the output's place, the output itself last. FILE_UNWRITABLE.
  absl::Status Commit();

 private:
  StagedOutput(std::filesystem::path output, base::TemporaryFolder folder)
      : output_(std::move(output)), folder_(std::move(folder)) {}

  std::filesystem::path output_;
  base::TemporaryFolder folder_;
};

}  // namespace gq::worker
