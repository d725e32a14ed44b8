#include "server/worker/crash_note.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <string_view>

namespace gq::worker {
namespace {

constexpr std::array kFaults = {SIGSEGV, SIGFPE, SIGBUS, SIGILL, SIGABRT};
constexpr std::string_view kNote =
    "error: the program crashed while it worked on the model\n"
    "hint: ONNX Runtime computes the model in this program, and some models make it crash, for\n"
    "instance by a division of integers that overflows: check that the model runs there on the\n"
    "same data. If it does, please report the model. Folders named .OUTPUT.* beside the output\n"
    "are left over and can be removed.\n";

extern "C" void SayAndDie(int signal) {
  // Only what a signal handler may do. The default action comes back with SA_RESETHAND.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kNote.data(), kNote.size());
  raise(signal);
}

}  // namespace

void SayWhatACrashMeans() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // An overflow of the stack needs another one to be told.
  alignas(16) static std::array<char, 65536> memory;
  const stack_t stack = {.ss_sp = memory.data(), .ss_flags = 0, .ss_size = memory.size()};
  sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_handler = SayAndDie;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (const int fault : kFaults) sigaction(fault, &action, nullptr);
#endif
}

}  // namespace gq::worker
