// run.yaml and run.detail.yaml: a job from files (docs/config.md).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/job/flags.h"
#include "gq/v1/job_service.pb.h"

namespace gq::job {

// A flag that the files give.
struct RunSetting {
  std::string flag;  // without dashes
  std::vector<std::string> values;
  bool on = true;     // of a switch
  std::string where;  // `run.yaml:5:9: device`, for messages
};

struct RunFile {
  std::string path;
  std::vector<RunSetting> settings;  // a flag at most once; those of run.detail.yaml have won
  std::vector<std::string> steps;    // of JobSpec.step
  bool profile = false;              // compile, and run on the board with stage `exec`
  gq::v1::QuantizeDetail detail;
  bool search = false;  // automatic_mixed_precision: the search runs inside Graph Quantize
  std::string scheme_where;
  std::vector<std::string> notes;  // for the log, one sentence each
};

// Reads `path`, and `detail_path` or, when that is empty, run.detail.yaml beside it where it
// exists. Paths in the files are relative to the folder of run.yaml. FILE_NOT_FOUND,
// FILE_UNREADABLE; CONFIG_INVALID and SCHEME_ILLEGAL with file, line, column and the path of the
// key: `run.yaml:4:13: steps[1].graph_quantize[0].scheme 'W9': expected one of ...`.
absl::StatusOr<RunFile> ReadRunFile(const std::string& path, const std::string& detail_path);

// The same from text; file names for messages, folder for relative paths.
absl::StatusOr<RunFile> ParseRunFile(std::string_view text, const std::string& file,
                                     std::string_view detail_text, const std::string& detail_file,
                                     const std::string& folder);

// Puts everything into `request` that no flag of the command line gave. Errors of ApplyFlag with
// the place in the file in front; SCHEME_ILLEGAL when the device does not take the scheme.
absl::Status ApplyRunFile(const RunFile& file, const std::function<bool(std::string_view)>& given,
                          JobRequest& request);

// Schemes of a device; empty for one that is not known here, which takes all.
std::vector<std::string_view> SchemesOfDevice(std::string_view device);

// What `gq init` writes: every key with its default and legal values in comments.
std::string RunFileTemplate();
std::string RunDetailTemplate();

}  // namespace gq::job
