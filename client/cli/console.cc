#include "client/cli/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "common/base/log_format.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

size_t TerminalWidth() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

// The first `width` characters of UTF-8 text.
std::string_view Cut(std::string_view text, size_t width) {
  size_t characters = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool starts_character = (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80;
    if (starts_character && ++characters > width) return text.substr(0, i);
  }
  return text;
}

}  // namespace

Console::Console()
    : output_is_terminal_(isatty(STDOUT_FILENO) == 1),
      interactive_(output_is_terminal_ && isatty(STDIN_FILENO) == 1) {}

void Console::Configure(const ShowOptions& options) {
  options_ = options;
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  color_ = output_is_terminal_ && !options.no_color && !options.json &&
           (no_color == nullptr || *no_color == '\0') &&
           (terminal == nullptr || std::string_view(terminal) != "dumb");
}

void Console::Print(std::string_view text) {
  if (!options_.json) PrintAlways(text);
}

void Console::PrintAlways(std::string_view text) {
  absl::MutexLock lock(&mutex_);
  WriteLocked(text);
}

void Console::PrintJson(const Json& object) { PrintAlways(Dump(object)); }

void Console::Note(std::string_view text) {
  std::string safe;
  for (std::string_view line : base::StrSplit(text, '\n')) {
    base::StrAppend(&safe, safe.empty() ? "" : "\n", base::StripControl(line));
  }
  if (options_.json) return PrintJson({{"note", safe}});
  absl::MutexLock lock(&mutex_);
  EraseProgressLocked();
  safe += "\n";
  std::fflush(stdout);
  std::fwrite(safe.data(), 1, safe.size(), stderr);
}

void Console::PrintError(const absl::Status& status) {
  const std::string message = base::StripControl(base::FromAbsl(status.message()));
  const std::string hint = base::StripControl(base::GetHint(status));
  const std::string_view reason = base::ReasonName(base::GetReason(status));
  if (options_.json) {
    Json error = {{"message", message}, {"reason", reason}};
    if (!hint.empty()) error["hint"] = hint;
    PrintJson({{"error", std::move(error)}});
    return;
  }
  SetProgress("");
  std::string text = base::StrCat("error: ", message, " (", reason, ")\n");
  if (!hint.empty()) base::StrAppend(&text, "hint: ", hint, "\n");
  absl::MutexLock lock(&mutex_);
  std::fflush(stdout);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void Console::SetProgress(std::string_view text) {
  if (!output_is_terminal_ || options_.json) return;
  absl::MutexLock lock(&mutex_);
  EraseProgressLocked();
  if (!at_line_start_) return;  // never tear a line of the log
  progress_ = Cut(base::StripControl(text), TerminalWidth() - 1);
  std::fwrite(progress_.data(), 1, progress_.size(), stdout);
  std::fflush(stdout);
}

void Console::WriteLocked(std::string_view text) {
  if (text.empty()) return;
  const std::string progress = progress_;
  EraseProgressLocked();
  std::fwrite(text.data(), 1, text.size(), stdout);
  at_line_start_ = text.back() == '\n';
  if (at_line_start_ && !progress.empty()) {
    progress_ = progress;
    std::fwrite(progress_.data(), 1, progress_.size(), stdout);
  }
  std::fflush(stdout);
}

void Console::EraseProgressLocked() {
  if (progress_.empty()) return;
  constexpr std::string_view kEraseLine = "\r\033[K";
  std::fwrite(kEraseLine.data(), 1, kEraseLine.size(), stdout);
  std::fflush(stdout);
  progress_.clear();
}

}  // namespace gq::cli
