#include "common/base/log_format.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/str_format.h"
#include "common/base/text.h"

namespace gq::base {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"DEBUG", "INFO", "DONE", "WARN", "ERROR"};
// Dim, none, green, yellow, red.
constexpr std::array<std::string_view, 5> kLevelColors = {"\033[2m", "", "\033[32m", "\033[33m",
                                                          "\033[31m"};
constexpr std::string_view kBold = "\033[1m";
constexpr std::string_view kReset = "\033[0m";

const std::string& Rule() {
  static const auto& rule = *new std::string(std::string(60, '=') + "\n");
  return rule;
}

std::string ComponentWord(std::string_view component) {
  std::string word(component);
  for (char& c : word) {
    if (static_cast<unsigned char>(c) <= ' ') c = '-';
  }
  return word.empty() ? "Log" : word;
}

// Takes the text up to the next space off `rest`.
std::string_view TakeWord(std::string_view& rest) {
  const size_t end = rest.find(' ');
  std::string_view word = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return word;
}

std::string Colored(std::string_view text, std::string_view color) {
  return color.empty() ? std::string(text) : StrCat(color, text, kReset);
}

}  // namespace

std::string_view LevelName(LogLevel level) { return kLevelNames[static_cast<size_t>(level)]; }

std::optional<LogLevel> LevelFromName(std::string_view name) {
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == name) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

std::string FormatStoredLine(absl::Time time, LogLevel level, std::string_view component,
                             std::string_view text) {
  const std::string head =
      StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone()), " ",
             LevelName(level), " ", ComponentWord(component), " ");
  std::string result;
  for (std::string_view line : StrSplit(text, '\n')) {
    StrAppend(&result, head, line, "\n");
  }
  return result;
}

std::optional<LogLine> ParseStoredLine(std::string_view line) {
  std::string_view rest = line;
  const std::string_view time = TakeWord(rest);
  LogLine result;
  std::string error;
  if (!time.ends_with("Z") ||
      !absl::ParseTime(absl::RFC3339_full, ToAbsl(time), &result.time, &error)) {
    return std::nullopt;
  }
  const std::optional<LogLevel> level = LevelFromName(TakeWord(rest));
  if (!level) return std::nullopt;
  result.level = *level;
  result.component = TakeWord(rest);
  if (result.component.empty()) return std::nullopt;
  result.text = rest;
  return result;
}

std::string FormatDuration(absl::Duration duration) {
  const int64_t ms = std::max<int64_t>(0, absl::ToInt64Milliseconds(duration));
  if (ms < 1000) return StrCat(ms, "ms");
  const int64_t s = ms / 1000;
  if (s < 60) return StrCat(s, "s");
  if (s < 3600) return absl::StrFormat("%dm %02ds", s / 60, s % 60);
  return absl::StrFormat("%dh %02dm %02ds", s / 3600, s / 60 % 60, s % 60);
}

std::string LogRenderer::Feed(std::string_view bytes) {
  std::string result;
  pending_.append(bytes);
  size_t begin = 0;
  for (size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line = std::string_view(pending_).substr(begin, end - begin);
    if (std::optional<LogLine> parsed = ParseStoredLine(line)) {
      result += RenderLine(*parsed);
    } else {
      StrAppend(&result, CloseBanner(), StripControl(line), "\n");
      any_output_ = true;
    }
  }
  pending_.erase(0, begin);
  return result;
}

std::string LogRenderer::RenderLine(const LogLine& line) {
  const std::string text = StripControl(line.text);
  if (line.component == kBannerComponent) {
    const bool attempt = banner_open_ && text.starts_with("(");
    std::string result;
    if (!attempt) {
      result = CloseBanner();
      if (any_output_) result += "\n";
      result += Rule();
      const size_t bracket = text.find("] ");
      step_title_ = bracket == std::string::npos ? text : text.substr(bracket + 2);
    }
    StrAppend(&result, Colored(text, options_.color ? kBold : ""), "\n");
    banner_open_ = true;
    any_output_ = true;
    return result;
  }
  const bool ends_step = EndsStep(line);
  const bool started =
      line.component == kWorkflowComponent && text == StrCat(step_title_, " started");
  if (line.level == LogLevel::kDebug && !options_.verbose) return "";
  if (options_.quiet && !ends_step && !started && line.level != LogLevel::kWarn &&
      line.level != LogLevel::kError) {
    return "";
  }
  std::string result = CloseBanner();
  if (ends_step) {
    if (!after_rule_) result += "\n";
    step_title_.clear();
  }
  after_rule_ = false;
  any_output_ = true;
  const std::string level = absl::StrFormat("[%-5s]", ToAbsl(LevelName(line.level)));
  const std::string_view color =
      options_.color ? kLevelColors[static_cast<size_t>(line.level)] : std::string_view();
  StrAppend(&result, absl::FormatTime("%Y-%m-%d %H:%M.%S", line.time, options_.zone), " ",
            Colored(level, color), " [", StripControl(line.component), "] ", text, "\n");
  return result;
}

std::string LogRenderer::Finish() {
  std::string result = CloseBanner();
  if (!pending_.empty()) StrAppend(&result, StripControl(pending_), "\n");
  pending_.clear();
  return result;
}

std::string LogRenderer::CloseBanner() {
  if (!banner_open_) return "";
  banner_open_ = false;
  after_rule_ = true;
  return Rule();
}

bool LogRenderer::EndsStep(const LogLine& line) const {
  return !step_title_.empty() && line.component == kWorkflowComponent &&
         (line.level == LogLevel::kDone || line.level == LogLevel::kError) &&
         line.text.starts_with(StrCat(step_title_, " "));
}

}  // namespace gq::base
