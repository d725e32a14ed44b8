// The boards of this agent: what they are, and how they are.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "board_agent/backends/backend.h"
#include "common/base/reporter.h"
#include "common/rpc/agent_session.h"

namespace gq::agent {

// Checks every board at the start, when asked, and on a period, one at a time in a thread of its
// own. Thread-safe.
class BoardPool : public rpc::BoardSource {
 public:
  // Probes the boards. Fails with kInvalidFlag or kDeviceUnknown for a board that cannot be driven
  // at all, and for a name that is used twice.
  static absl::StatusOr<std::unique_ptr<BoardPool>> Create(std::vector<BoardSpec> boards,
                                                           absl::Duration period,
                                                           base::Reporter& reporter);
  ~BoardPool() override;

  // Called (from the pool's thread) after every check; set before Start.
  void set_on_change(std::function<void()> on_change) { on_change_ = std::move(on_change); }
  void Start();

  std::vector<gq::v1::BoardReport> Boards() override;
  void StartHealthCheck(const std::string& board) override;

  // Of all boards, each once.
  std::vector<std::string> Capabilities() const;

 private:
  struct Entry {
    BoardSpec spec;
    const Backend* backend = nullptr;
    gq::v1::BoardReport report;  // guarded by mutex_
    std::vector<std::string> capabilities;
  };

  BoardPool(std::vector<Entry> entries, absl::Duration period, base::Reporter& reporter);
  void CheckBoards(std::stop_token stop);
  void Check(Entry& entry);

  std::vector<Entry> entries_;
  const absl::Duration period_;
  base::Reporter& reporter_;
  std::function<void()> on_change_;
  absl::Mutex mutex_;
  std::set<std::string> wanted_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace gq::agent
