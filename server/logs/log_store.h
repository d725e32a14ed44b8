// Logs of attempts: one append-only file each, `<folder>/<job>/<attempt>.log`, that anybody may
// read while it grows (docs/formats.md). Offsets count stored bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"

namespace gq::server {

struct LogChunk {
  std::string data;   // empty at the end
  int64_t size = 0;   // of the log at the time of reading
  bool open = false;  // more may come
};

// Thread-safe. Calls block on the disk.
class LogStore {
 public:
  // The folder is made when it is missing. A log that reaches `cap` bytes ends there, at the end of
  // a line, with a line that says so; what is sent later is accepted and dropped. `clock` outlives
  // the store.
  LogStore(std::filesystem::path folder, int64_t cap, const base::Clock& clock);
  ~LogStore();

  // Writes `data` at `offset`; bytes below the present size are dropped. Returns the size from then
  // on. Readers see the bytes at once; they survive a crash of the machine after Sync. Fails with
  // kLogGap when bytes before `offset` are missing, kLeaseLost when the log is sealed, kDiskFull,
  // kFileUnwritable.
  absl::StatusOr<int64_t> Append(std::string_view job_id, int attempt, int64_t offset,
                                 std::string_view data);
  absl::Status Sync(std::string_view job_id, int attempt);

  // At most `limit` bytes from `offset`; a log that does not exist is empty.
  absl::StatusOr<LogChunk> Read(std::string_view job_id, int attempt, int64_t offset,
                                int64_t limit);

  // Nothing more is accepted; the final size.
  int64_t Seal(std::string_view job_id, int attempt);
  int64_t Size(std::string_view job_id, int attempt);
  // Deletes the logs of a job.
  void Remove(std::string_view job_id);

 private:
  struct OpenLog;
  using Key = std::pair<std::string, int>;

  std::filesystem::path PathOf(const Key& key) const;
  absl::StatusOr<std::shared_ptr<OpenLog>> OpenForAppend(const Key& key);
  std::shared_ptr<OpenLog> FindOpen(const Key& key);

  const std::filesystem::path folder_;
  const int64_t cap_;
  const base::Clock& clock_;
  absl::Mutex mutex_;
  std::map<Key, std::shared_ptr<OpenLog>> open_ ABSL_GUARDED_BY(mutex_);
  // The latest sealed ones, so that a call under way cannot open one again.
  std::set<Key> sealed_ ABSL_GUARDED_BY(mutex_);
  std::deque<Key> sealed_order_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gq::server
