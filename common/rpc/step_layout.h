// Where the files of a step lie. WORKDIR holds
//   lease.pb                     the lease (gq.v1.Lease)
//   in/model/FILE                the model, its external data beside it at their relative paths
//   in/reference/FILE            the FP32 reference, likewise
//   in/calibration/I_NAME        calibration files, I counts from 0
//   in/evaluation/I_NAME         evaluation files
//   in/labels/NAME               labels
//   in/artifacts/PATH            results of earlier steps
//   out/PATH                     results of this step
//   tmp/                         for temporary files; also TMPDIR of the child
//   result.pb                    outcome (gq.v1.StepResult, artifacts only with their path), last
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gq/v1/agent_service.pb.h"

namespace gq::rpc {

struct StepInput {
  std::filesystem::path path;  // relative to WORKDIR
  gq::v1::Digest digest;
};

// Every input of a lease: results of earlier steps, the model, and for steps that run models also
// the reference, data and labels. Fails with kDataInvalid when a name is not a plain file name or a
// path leaves its folder.
absl::StatusOr<std::vector<StepInput>> StepInputs(const gq::v1::Lease& lease);

// True for a path that stays in its folder: relative, no empty, `.` or `..` part, no control
// characters.
bool IsSafeRelativePath(std::string_view path);

// The places a step program asks for. Paths are absolute when `work_dir` is. Nothing when the job
// has no such file.
class StepFiles {
 public:
  StepFiles(std::filesystem::path work_dir, const gq::v1::Lease& lease);

  const std::filesystem::path& work_dir() const { return work_dir_; }
  std::filesystem::path model() const;
  std::optional<std::filesystem::path> reference() const;
  std::optional<std::filesystem::path> labels() const;
  std::vector<std::filesystem::path> calibration() const;
  std::vector<std::filesystem::path> evaluation() const;
  // The same files as links below WORKDIR/tmp under the names that the user gave them, since a name
  // may say which input a file is for. Fails with kFileUnwritable.
  absl::StatusOr<std::vector<std::filesystem::path>> NamedCalibration() const;
  absl::StatusOr<std::vector<std::filesystem::path>> NamedEvaluation() const;
  // Result of an earlier step.
  std::optional<std::filesystem::path> artifact(std::string_view path) const;
  // Where to write a result of this step; makes its folder.
  absl::StatusOr<std::filesystem::path> output(std::string_view path) const;

 private:
  std::filesystem::path work_dir_;
  const gq::v1::Lease& lease_;
};

}  // namespace gq::rpc
