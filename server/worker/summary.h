// What a run in the foreground says at its end.
#pragma once

#include <string>

#include "nlohmann/json.hpp"
#include "server/worker/pipeline.h"

namespace gq::worker {

struct SummaryFiles {
  std::string model;  // empty when none was written
  std::string report;
};

// Verdict, figures of every output, sizes, all warnings again, and where the files are.
std::string SummaryText(const Pipeline& pipeline, const SummaryFiles& files);

// The same for programs.
nlohmann::json SummaryJson(const Pipeline& pipeline, const SummaryFiles& files, int exit_code);

}  // namespace gq::worker
