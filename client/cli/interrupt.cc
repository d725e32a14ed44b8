#include "client/cli/interrupt.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

namespace gq::cli {
namespace {

constexpr long kPollNanoseconds = 100'000'000;

}  // namespace

Interrupt::Interrupt() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  waiter_ = std::jthread([this, signals](std::stop_token ended) {
    while (!ended.stop_requested()) {
      const timespec timeout{.tv_sec = 0, .tv_nsec = kPollNanoseconds};
      if (sigtimedwait(&signals, nullptr, &timeout) < 0) continue;
      if (!source_.request_stop()) _exit(1);
    }
  });
}

}  // namespace gq::cli
