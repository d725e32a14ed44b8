// What starting a child process needs, whoever starts it: words for exec, a clean slate of signals,
// and the error of an exec that failed.
#pragma once

#include <string>
#include <vector>

namespace gq::base {

// How a child ends that could not become its program.
inline constexpr int kExecFailed = 127;

// The texts as exec wants them: pointers into `texts`, which must outlive them, and a null.
std::vector<char*> PointersTo(const std::vector<std::string>& texts);

// In the child, between fork and exec: a process group of its own, no signal blocked, and the usual
// ones at their defaults. Async-signal-safe.
void BecomeGroupLeader();

// In the child, when exec has failed: sends errno to the descriptor and ends. Async-signal-safe.
[[noreturn]] void ReportExecError(int descriptor);

// In the parent: waits until the other end closes (which exec does, as it is close-on-exec) or
// ReportExecError has sent its errno. 0 when the program runs.
int ReadExecError(int descriptor);

// "ended with status 3", "was ended by signal SIGSEGV"; for a wait status.
std::string DescribeWaitStatus(int status);

}  // namespace gq::base
