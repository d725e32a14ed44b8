// run.detail.yaml: the parameters of the steps in run.yaml.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/job/run_file.h"
#include "common/job/run_file_reader.h"

namespace gq::job {

// Reads `root` into `result->detail`, and limits of the search and the number of samples into
// `result->settings`. `scheme` is that of graph_quantize, whose presence `quantizes` says.
// CONFIG_INVALID with file, line and path.
absl::Status ReadRunDetail(const YamlPlace& root, const std::string& scheme, bool quantizes,
                           RunFile* result);

}  // namespace gq::job
