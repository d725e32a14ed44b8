// `gq-agent step WORKDIR`: the work of one lease, in a process of its own.
#pragma once

#include <filesystem>

namespace gq::agent {

// Returns the exit status of the program (common/rpc/step_program.h).
int RunStep(const std::filesystem::path& work_dir);

}  // namespace gq::agent
