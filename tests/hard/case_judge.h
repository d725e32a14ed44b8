// Judges a run of gq-worker on a case of ../shared/cases as its check.py does, without Python.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/hard/program_run.h"

namespace gq::hard {

struct CaseRun {
  std::filesystem::path root;    // the folder that holds cases.json
  nlohmann::json test_case;      // an entry of cases.json
  nlohmann::json expect;         // runs[i].expect
  std::filesystem::path output;  // where the program was told to write the model
};

// One sentence for each check that fails; empty when the run is as the case wants it. A kind of
// check that is not known here is a failure.
std::vector<std::string> JudgeCase(const CaseRun& run, const ProgramRun& program);

}  // namespace gq::hard
