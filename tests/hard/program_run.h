// Runs one program to its end and measures it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gq::hard {

struct ProgramRun {
  int code = -1;     // exit code, or 128 + signal
  std::string text;  // standard output and standard error, as they came
  double seconds = 0;
  double peak_mib = 0;  // largest resident set of the program and its children
};

// `arguments[0]` is looked up on PATH. Standard input is empty. Runs in `folder` when it is not
// empty.
ProgramRun RunProgram(const std::vector<std::string>& arguments,
                      const std::filesystem::path& folder = {});

}  // namespace gq::hard
