// The only thread that writes the ledger file. Changes that wait together are committed together.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/ledger/sqlite_connection.h"

namespace gq::server {

// Called by the writer at named points (`begin`, `applied`, `committed`); fault tests end the
// process there.
using FaultPoint = std::function<void(std::string_view)>;

// Thread-safe.
class Writer {
 public:
  Writer(std::unique_ptr<Connection> connection, FaultPoint fault_point);
  // Finishes what is queued.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Runs `change` in a transaction and returns when it is durable. When `change` fails, what it did
  // is undone and its error returned; the changes of others are not affected. Blocks. Fails with
  // kOverloaded when too much is waiting.
  absl::Status Apply(const std::function<absl::Status(Connection&)>& change);

  // The same for a change with a value.
  template <typename T>
  absl::StatusOr<T> Apply(const std::function<absl::StatusOr<T>(Connection&)>& change) {
    absl::StatusOr<T> value = absl::UnknownError("not run");
    absl::Status status = Apply([&](Connection& connection) {
      value = change(connection);
      return value.status();
    });
    if (!status.ok()) return status;
    return value;
  }

  // Runs `action` outside any transaction (backup, checkpoint).
  absl::Status RunAlone(const std::function<absl::Status(Connection&)>& action);

 private:
  struct Task {
    const std::function<absl::Status(Connection&)>* work;
    bool alone = false;
    absl::Status status;
    bool done = false;
  };

  absl::Status Submit(const std::function<absl::Status(Connection&)>& work, bool alone);
  void Loop();
  void RunBatch(std::deque<Task*>& batch);
  absl::Status RunOne(Task& task);

  std::unique_ptr<Connection> connection_;
  FaultPoint fault_point_;
  absl::Mutex mutex_;
  absl::CondVar work_arrived_;
  absl::CondVar work_done_;
  std::deque<Task*> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace gq::server
