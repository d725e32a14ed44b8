// The program gq.
#pragma once

#include <string>
#include <vector>

namespace gq::cli {

// Runs one command line (without the program's name) and returns the exit code of the process.
// Called once, before any other thread exists.
int RunCli(std::vector<std::string> arguments);

}  // namespace gq::cli
