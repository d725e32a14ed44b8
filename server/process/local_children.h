// Child processes of the server: local workers and the agent of the simulated boards. They die with
// the server, and are started again when they end.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"

namespace gq::server {

struct ChildCommand {
  std::string name;                    // as agent
  std::vector<std::string> arguments;  // the program first
};

struct ChildBackoff {
  absl::Duration first = absl::Milliseconds(500);
  absl::Duration longest = absl::Seconds(30);
  // A child that lived this long starts the count anew.
  absl::Duration healthy = absl::Seconds(60);
};

// Starts the children from one thread of its own, because a child's parent-death signal comes when
// that thread ends. Thread-safe.
class LocalChildren {
 public:
  // Called for every end of a child, before it is started again; `how` is e.g. `exit status 3`,
  // `signal 9 (Killed)`. `wanted` is true for children that were told to stop.
  using OnExit = std::function<void(const std::string& name, const std::string& how, bool wanted)>;

  LocalChildren(std::vector<ChildCommand> commands, OnExit on_exit, ChildBackoff backoff = {});
  // Kills what is left.
  ~LocalChildren();
  LocalChildren(const LocalChildren&) = delete;
  LocalChildren& operator=(const LocalChildren&) = delete;

  // Asks the children to finish (SIGTERM) and starts none any more.
  void Drain();
  // True when no child is left, waiting for at most `timeout`.
  bool WaitUntilGone(absl::Duration timeout);
  // Kills the children and waits for them.
  void Stop();

  // Process ids of the running children, by name; for tests and messages.
  std::vector<std::pair<std::string, int>> Running() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gq::server
