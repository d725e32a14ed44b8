// The command line of gq-worker.
#pragma once

#include <string>
#include <vector>

namespace gq::worker {

// Runs one command line (without the program's name) and returns the exit code of the process.
// Called once, before any other thread exists.
int RunCommandLine(std::vector<std::string> arguments);

}  // namespace gq::worker
