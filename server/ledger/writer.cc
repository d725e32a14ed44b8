#include "server/ledger/writer.h"

#include <sqlite3.h>

#include <algorithm>

#include "SQLiteCpp/Exception.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::server {
namespace {

constexpr size_t kMaxBatch = 64;
constexpr size_t kMaxQueue = 1000;
constexpr int kPrimaryCode = 0xff;  // of an extended result code

absl::Status LedgerError(const std::exception& error) {
  const auto* failure = dynamic_cast<const SQLite::Exception*>(&error);
  if (failure != nullptr && (failure->getErrorCode() & kPrimaryCode) == SQLITE_FULL) {
    return base::MakeError(base::Reason::kDiskFull,
                           "the disk of the data folder is full: nothing can be recorded",
                           "an administrator has to make room; `gq admin gc` removes old blobs");
  }
  return base::MakeError(base::Reason::kLedgerFailed,
                         base::StrCat("the ledger file cannot be written: ", error.what()),
                         "check the disk of the data folder (space, permissions, health)");
}

}  // namespace

Writer::Writer(std::unique_ptr<Connection> connection, FaultPoint fault_point)
    : connection_(std::move(connection)), fault_point_(std::move(fault_point)) {
  if (!fault_point_) fault_point_ = [](std::string_view) {};
  thread_ = std::thread([this] { Loop(); });
}

Writer::~Writer() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    work_arrived_.Signal();
  }
  thread_.join();
}

absl::Status Writer::Apply(const std::function<absl::Status(Connection&)>& change) {
  return Submit(change, /*alone=*/false);
}

absl::Status Writer::RunAlone(const std::function<absl::Status(Connection&)>& action) {
  return Submit(action, /*alone=*/true);
}

absl::Status Writer::Submit(const std::function<absl::Status(Connection&)>& work, bool alone) {
  Task task{.work = &work, .alone = alone};
  absl::MutexLock lock(&mutex_);
  if (stopping_ || queue_.size() >= kMaxQueue) {
    return base::MakeError(base::Reason::kOverloaded, "too many changes wait for the ledger",
                           "try again in a few seconds");
  }
  queue_.push_back(&task);
  work_arrived_.Signal();
  while (!task.done) work_done_.Wait(&mutex_);
  return task.status;
}

void Writer::Loop() {
  std::deque<Task*> batch;
  absl::MutexLock lock(&mutex_);
  while (true) {
    while (queue_.empty() && !stopping_) work_arrived_.Wait(&mutex_);
    if (queue_.empty()) return;
    // A task that runs alone is a batch of its own.
    while (!queue_.empty() && batch.size() < kMaxBatch) {
      if (queue_.front()->alone && !batch.empty()) break;
      batch.push_back(queue_.front());
      queue_.pop_front();
      if (batch.back()->alone) break;
    }
    mutex_.Unlock();
    RunBatch(batch);
    mutex_.Lock();
    for (Task* task : batch) task->done = true;
    batch.clear();
    work_done_.SignalAll();
  }
}

absl::Status Writer::RunOne(Task& task) {
  try {
    return (*task.work)(*connection_);
  } catch (const std::exception& error) {
    return LedgerError(error);
  }
}

void Writer::RunBatch(std::deque<Task*>& batch) {
  if (batch.front()->alone) {
    batch.front()->status = RunOne(*batch.front());
    return;
  }
  try {
    connection_->Execute("BEGIN IMMEDIATE");
    fault_point_("begin");
    for (Task* task : batch) {
      connection_->Execute("SAVEPOINT change");
      task->status = RunOne(*task);
      if (!task->status.ok()) connection_->Execute("ROLLBACK TO change");
      connection_->Execute("RELEASE change");
    }
    fault_point_("applied");
    connection_->Execute("COMMIT");
    fault_point_("committed");
  } catch (const SQLite::Exception& error) {
    for (Task* task : batch) task->status = LedgerError(error);
    try {
      connection_->Execute("ROLLBACK");
    } catch (const SQLite::Exception&) {
      // The failed statement has already ended the transaction.
    }
  }
}

}  // namespace gq::server
