// Log lines in their two forms: as they are stored, and as a person sees them (docs/formats.md).
//
// Stored:    2026-08-21T14:08:25.120Z INFO Calibrate 32/128 samples, 11.2 samples/s, ETA 9s
// Rendered:  2026-08-21 16:08.25 [INFO ] [Calibrate] 32/128 samples, 11.2 samples/s, ETA 9s
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "common/base/reporter.h"

namespace gq::base {

// Component of the lines that open a step: `[2/4] Graph Quantize`, and in a repeated step a second
// one
// `(attempt 2 of 3: REASON)`.
inline constexpr std::string_view kBannerComponent = "Banner";
// Component of the lines that say that a step started, completed or failed.
inline constexpr std::string_view kWorkflowComponent = "Workflow";

struct LogLine {
  absl::Time time;
  LogLevel level = LogLevel::kInfo;
  std::string component;  // one word
  std::string text;       // one line
};

// `DEBUG`, `INFO`, `DONE`, `WARN` or `ERROR`.
std::string_view LevelName(LogLevel level);
std::optional<LogLevel> LevelFromName(std::string_view name);

// The stored form, with its newline. A text of several lines becomes several stored lines; spaces
// in the component become `-`, an empty one becomes `Log`. Other bytes are kept as they are.
std::string FormatStoredLine(absl::Time time, LogLevel level, std::string_view component,
                             std::string_view text);

// Reads a stored line, given without its newline. Nothing when it does not have that form.
std::optional<LogLine> ParseStoredLine(std::string_view line);

// `850ms`, `9s`, `1m 52s`, `2h 03m 10s`, rounded down to the last unit shown. Negative durations
// count as 0.
std::string FormatDuration(absl::Duration duration);

// The same text as valid UTF-8 in which no byte can act on a terminal: escape sequences, control
// characters (but tab) and the characters that change the direction of writing are left out,
// invalid bytes become U+FFFD.
std::string StripControl(std::string_view text);

struct LogRenderOptions {
  bool quiet = false;    // of a step's messages, show warnings and errors only
  bool verbose = false;  // show DEBUG lines
  bool color = false;    // colour levels and banners with ANSI sequences
  absl::TimeZone zone = absl::LocalTimeZone();
};

// Turns stored lines into what a person sees: banners of 60 `=`, local time, padded levels, and
// blank lines between steps and before the line that ends a step. Output is plain text that is safe
// for a terminal. Not thread-safe.
class LogRenderer {
 public:
  explicit LogRenderer(LogRenderOptions options) : options_(options) {}

  // Takes stored bytes as they come, cut anywhere, and returns the text they complete. A line that
  // has not the stored form is shown as it is, stripped.
  std::string Feed(std::string_view bytes);

  // The same for one line. The closing rule of a banner comes with the line after the banner.
  std::string RenderLine(const LogLine& line);

  // What is left at the end of the log: the closing rule of a banner, an incomplete last line.
  std::string Finish();

 private:
  std::string CloseBanner();
  bool EndsStep(const LogLine& line) const;

  LogRenderOptions options_;
  std::string pending_;       // an incomplete line
  std::string step_title_;    // of the step that is open; empty between steps
  bool banner_open_ = false;  // the closing rule is still due
  bool after_rule_ = false;   // nothing was shown since the closing rule
  bool any_output_ = false;
};

}  // namespace gq::base
