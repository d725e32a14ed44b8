#include "server/worker/foreground_reporter.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "server/worker/steps/step_log.h"

namespace gq::worker {
namespace {

using nlohmann::json;

volatile std::sig_atomic_t interrupted = 0;

constexpr std::chrono::milliseconds kLiveInterval(100);

bool UseColor(const job::LocalOptions& options) {
  return isatty(STDOUT_FILENO) != 0 && !options.no_color && std::getenv("NO_COLOR") == nullptr;
}

base::LogRenderOptions RenderOptions(const job::LocalOptions& options) {
  base::LogRenderOptions render;
  render.quiet = options.quiet;
  render.verbose = options.verbose;
  render.color = UseColor(options);
  if (options.utc) render.zone = absl::UTCTimeZone();
  return render;
}

std::string Dump(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

ForegroundReporter::ForegroundReporter(const job::LocalOptions& options)
    : json_(options.json),
      live_(!options.json && !options.quiet && isatty(STDOUT_FILENO) != 0),
      renderer_(RenderOptions(options)) {}

void ForegroundReporter::InstallSignalHandlers() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool ForegroundReporter::Cancelled() const { return interrupted != 0; }

void ForegroundReporter::Write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void ForegroundReporter::WriteJson(const json& object) { Write(Dump(object) + "\n"); }

void ForegroundReporter::ClearLiveLine() {
  if (live_line_) Write("\r\x1b[K");
  live_line_ = false;
}

void ForegroundReporter::Log(base::LogLevel level, std::string_view component,
                             std::string_view text) {
  const absl::Time now = absl::Now();
  std::lock_guard lock(mutex_);
  if (json_) {
    WriteJson({{"event", "log"},
               {"time", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", now, absl::UTCTimeZone())},
               {"level", base::LevelName(level)},
               {"component", component},
               {"text", base::StripControl(text)}});
    return;
  }
  const std::string shown = renderer_.Feed(base::FormatStoredLine(now, level, component, text));
  if (shown.empty()) return;
  ClearLiveLine();
  Write(shown);
}

void ForegroundReporter::Report(const base::Progress& progress) {
  if (!live_) return;
  std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  const bool over = progress.total > 0 && progress.done >= progress.total;
  if (!over && now - last_live_ < kLiveInterval) return;
  last_live_ = now;
  ClearLiveLine();
  if (over) return;
  Write(base::StrCat(progress.component, " ", ProgressText(progress, 0, 0)));
  live_line_ = true;
}

void ForegroundReporter::Finish(const std::string& text, json result) {
  std::lock_guard lock(mutex_);
  ClearLiveLine();
  if (json_) {
    result["event"] = "result";
    WriteJson(result);
    return;
  }
  std::string shown = renderer_.Finish();
  for (const std::string_view line : base::StrSplit(text, '\n')) {
    shown += base::StripControl(line) + "\n";
  }
  shown.pop_back();
  Write(shown);
}

int PrintError(const absl::Status& error, bool json_form) {
  const base::ReasonInfo& info = base::GetReasonInfo(base::GetReason(error));
  const std::string message = base::StripControl(base::FromAbsl(error.message()));
  const std::string hint = base::StripControl(base::GetHint(error));
  if (json_form) {
    json error_object = {{"message", message}, {"reason", info.name}};
    if (!hint.empty()) error_object["hint"] = hint;
    std::printf("%s\n", Dump({{"error", std::move(error_object)}}).c_str());
    std::fflush(stdout);
    return info.exit_code;
  }
  std::fflush(stdout);
  std::fprintf(stderr, "error: %s (%s)\n", message.c_str(), std::string(info.name).c_str());
  if (!hint.empty()) std::fprintf(stderr, "hint: %s\n", hint.c_str());
  return info.exit_code;
}

}  // namespace gq::worker
