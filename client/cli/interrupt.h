// Ctrl-C as a stop token.
#pragma once

#include <stop_token>
#include <thread>

namespace gq::cli {

// Blocks SIGINT and SIGTERM in this thread and every thread started later, and turns the first of
// them into a stop request; a second one ends the process with status 1. Made once, before any
// other thread.
class Interrupt {
 public:
  Interrupt();

  std::stop_token token() const { return source_.get_token(); }
  bool raised() const { return source_.stop_requested(); }

 private:
  std::stop_source source_;
  std::jthread waiter_;
};

}  // namespace gq::cli
