#include "server/worker/steps/step_log.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/time/time.h"
#include "common/base/log_format.h"
#include "common/base/text.h"

namespace gq::worker {
namespace {

using std::chrono::duration;

constexpr duration<double> kFirstLine(1);
constexpr duration<double> kBetweenLines(5);

}  // namespace

std::string ProgressText(const base::Progress& progress, int64_t counted, double seconds) {
  std::string text = base::StrCat(progress.done);
  if (progress.total > 0) base::StrAppend(&text, "/", progress.total);
  base::StrAppend(&text, " ", progress.unit);
  if (counted <= 0 || seconds <= 0) return text;
  const double rate = static_cast<double>(counted) / seconds;
  char number[32];
  std::snprintf(number, sizeof number, "%.1f", rate);
  base::StrAppend(&text, ", ", number, " ", progress.unit, "/s");
  if (progress.total > progress.done) {
    const double left = static_cast<double>(progress.total - progress.done) / rate;
    base::StrAppend(&text, ", ETA ", base::FormatDuration(absl::Seconds(std::ceil(left - 1e-6))));
  }
  return text;
}

void StepLog::Log(base::LogLevel level, std::string_view component, std::string_view given) {
  const std::string rewritten = rewrite_ ? rewrite_(given) : std::string();
  const std::string_view text = rewrite_ ? std::string_view(rewritten) : given;
  if (level == base::LogLevel::kWarn) {
    std::lock_guard lock(mutex_);
    if (std::find(warnings_.begin(), warnings_.end(), text) == warnings_.end()) {
      warnings_.emplace_back(text);
    }
  }
  next_.Log(level, component, text);
}

void StepLog::Report(const base::Progress& progress) {
  next_.Report(progress);
  std::string line;
  {
    std::lock_guard lock(mutex_);
    const auto now = clock_();
    if (component_ != progress.component || progress.done < last_done_) {
      component_ = std::string(progress.component);
      first_done_ = progress.done;
      begin_ = last_line_ = now;
      line_written_ = false;
    }
    last_done_ = progress.done;
    const bool over = progress.total > 0 && progress.done >= progress.total;
    const duration<double> pause = line_written_ ? kBetweenLines : kFirstLine;
    if (now - last_line_ >= pause || (over && line_written_)) {
      line = ProgressText(progress, progress.done - first_done_,
                          duration<double>(now - begin_).count());
      last_line_ = now;
      line_written_ = !over;
    }
    if (over) component_.clear();
  }
  if (!line.empty()) next_.Log(base::LogLevel::kInfo, progress.component, line);
}

std::vector<std::string> StepLog::warnings() const {
  std::lock_guard lock(mutex_);
  return warnings_;
}

}  // namespace gq::worker
