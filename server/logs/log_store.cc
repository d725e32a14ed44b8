#include "server/logs/log_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "common/base/log_format.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::server {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

constexpr size_t kSealedRemembered = 10'000;

absl::Status WriteError(const std::filesystem::path& path) {
  const bool full = errno == ENOSPC || errno == EDQUOT;
  return MakeError(full ? Reason::kDiskFull : Reason::kFileUnwritable,
                   StrCat("the log ", path.string(), " cannot be written: ", std::strerror(errno)),
                   "check the disk of the data folder");
}

absl::Status WriteAll(int file, const std::filesystem::path& path, std::string_view data,
                      int64_t offset) {
  while (!data.empty()) {
    const ssize_t written = pwrite(file, data.data(), data.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return WriteError(path);
    data.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
  return absl::OkStatus();
}

std::string ReadAt(int file, int64_t offset, int64_t limit) {
  std::string data(static_cast<size_t>(limit), '\0');
  size_t done = 0;
  while (done < data.size()) {
    const ssize_t count =
        pread(file, data.data() + done, data.size() - done, offset + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  data.resize(done);
  return data;
}

}  // namespace

struct LogStore::OpenLog {
  ~OpenLog() {
    if (file >= 0) close(file);
  }
  int file = -1;
  std::atomic<int64_t> size = 0;
  absl::Mutex append_mutex;
  bool truncated ABSL_GUARDED_BY(append_mutex) = false;
  bool sealed ABSL_GUARDED_BY(append_mutex) = false;
};

LogStore::LogStore(std::filesystem::path folder, int64_t cap, const base::Clock& clock)
    : folder_(std::move(folder)), cap_(cap), clock_(clock) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
}

LogStore::~LogStore() = default;

std::filesystem::path LogStore::PathOf(const Key& key) const {
  return folder_ / key.first / StrCat(key.second, ".log");
}

std::shared_ptr<LogStore::OpenLog> LogStore::FindOpen(const Key& key) {
  absl::MutexLock lock(&mutex_);
  const auto found = open_.find(key);
  return found == open_.end() ? nullptr : found->second;
}

absl::StatusOr<std::shared_ptr<LogStore::OpenLog>> LogStore::OpenForAppend(const Key& key) {
  absl::MutexLock lock(&mutex_);
  if (sealed_.count(key) > 0) {
    return MakeError(Reason::kLeaseLost, "the log of this attempt is complete",
                     "stop the work and drop its results");
  }
  std::shared_ptr<OpenLog>& entry = open_[key];
  if (entry) return entry;
  const std::filesystem::path path = PathOf(key);
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  auto log = std::make_shared<OpenLog>();
  log->file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
  struct stat info {};
  if (log->file < 0 || fstat(log->file, &info) != 0) {
    open_.erase(key);
    return WriteError(path);
  }
  log->size = info.st_size;
  log->append_mutex.Lock();
  log->truncated = info.st_size >= cap_;
  log->append_mutex.Unlock();
  entry = std::move(log);
  return entry;
}

absl::StatusOr<int64_t> LogStore::Append(std::string_view job_id, int attempt, int64_t offset,
                                         std::string_view data) {
  const Key key(job_id, attempt);
  absl::StatusOr<std::shared_ptr<OpenLog>> opened = OpenForAppend(key);
  if (!opened.ok()) return opened.status();
  OpenLog& log = **opened;
  absl::MutexLock lock(&log.append_mutex);
  if (log.sealed) {
    return MakeError(Reason::kLeaseLost, "the log of this attempt is complete",
                     "stop the work and drop its results");
  }
  // Beyond the cap the sender's offsets go on without being stored.
  const auto end = offset + static_cast<int64_t>(data.size());
  if (log.truncated) return std::max(end, log.size.load());
  const int64_t size = log.size;
  if (offset > size) {
    return MakeError(Reason::kLogGap,
                     StrCat("the log has ", size, " bytes, the data begins at ", offset),
                     "send again from the committed size");
  }
  if (end <= size) return size;
  data.remove_prefix(static_cast<size_t>(size - offset));
  std::string shortened;
  if (end > cap_) {
    const size_t room = static_cast<size_t>(std::max<int64_t>(0, cap_ - size));
    const size_t line_end = data.substr(0, room).rfind('\n');
    shortened = data.substr(0, line_end == std::string_view::npos ? 0 : line_end + 1);
    shortened += base::FormatStoredLine(
        clock_.Now(), base::LogLevel::kWarn, "Log",
        StrCat("the log of this attempt is longer than ", cap_ >> 20, " MiB and ends here"));
    // Padded so that the size alone tells that the log was cut.
    if (const auto total = size + static_cast<int64_t>(shortened.size()); total < cap_) {
      shortened.insert(shortened.size() - 1, static_cast<size_t>(cap_ - total), ' ');
    }
    data = shortened;
    log.truncated = true;
  }
  GQ_RETURN_IF_ERROR(WriteAll(log.file, PathOf(key), data, size));
  log.size = size + static_cast<int64_t>(data.size());
  return log.truncated ? std::max(end, log.size.load()) : log.size.load();
}

absl::Status LogStore::Sync(std::string_view job_id, int attempt) {
  const Key key(job_id, attempt);
  const std::shared_ptr<OpenLog> log = FindOpen(key);
  if (log && fdatasync(log->file) != 0) return WriteError(PathOf(key));
  return absl::OkStatus();
}

absl::StatusOr<LogChunk> LogStore::Read(std::string_view job_id, int attempt, int64_t offset,
                                        int64_t limit) {
  const Key key(job_id, attempt);
  LogChunk chunk;
  if (const std::shared_ptr<OpenLog> log = FindOpen(key)) {
    chunk.open = true;
    chunk.size = log->size;
    chunk.data =
        ReadAt(log->file, offset, std::min(limit, std::max<int64_t>(0, chunk.size - offset)));
    return chunk;
  }
  const int file = open(PathOf(key).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return chunk;
  struct stat info {};
  if (fstat(file, &info) == 0) chunk.size = info.st_size;
  chunk.data = ReadAt(file, offset, std::min(limit, std::max<int64_t>(0, chunk.size - offset)));
  close(file);
  return chunk;
}

int64_t LogStore::Seal(std::string_view job_id, int attempt) {
  const Key key(job_id, attempt);
  std::shared_ptr<OpenLog> log;
  {
    absl::MutexLock lock(&mutex_);
    if (sealed_.insert(key).second) {
      sealed_order_.push_back(key);
      if (sealed_order_.size() > kSealedRemembered) {
        sealed_.erase(sealed_order_.front());
        sealed_order_.pop_front();
      }
    }
    if (const auto found = open_.find(key); found != open_.end()) log = found->second;
  }
  if (log) {
    {
      absl::MutexLock lock(&log->append_mutex);
      log->sealed = true;
      fdatasync(log->file);
    }
    // Only now does a reader who finds everything read know that nothing more comes.
    absl::MutexLock lock(&mutex_);
    open_.erase(key);
  }
  return Size(job_id, attempt);
}

int64_t LogStore::Size(std::string_view job_id, int attempt) {
  const Key key(job_id, attempt);
  if (const std::shared_ptr<OpenLog> log = FindOpen(key)) return log->size;
  std::error_code error;
  const auto size = std::filesystem::file_size(PathOf(key), error);
  return error ? 0 : static_cast<int64_t>(size);
}

void LogStore::Remove(std::string_view job_id) {
  if (job_id.empty()) return;
  std::error_code error;
  std::filesystem::remove_all(folder_ / job_id, error);
}

}  // namespace gq::server
