// What the client shows: text on standard output, errors on standard error, one live progress line
// on a terminal, or JSON lines instead of all of it.
#pragma once

#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace gq::cli {

// How the user wants things shown.
struct ShowOptions {
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  bool no_color = false;
  bool utc = false;
};

// Thread-safe.
class Console {
 public:
  Console();

  // Colours need a terminal, no --no-color and no NO_COLOR in the environment.
  void Configure(const ShowOptions& options);
  const ShowOptions& options() const { return options_; }
  bool color() const { return color_; }
  // Standard output and standard input are a terminal.
  bool interactive() const { return interactive_; }
  absl::TimeZone zone() const { return options_.utc ? absl::UTCTimeZone() : absl::LocalTimeZone(); }

  // Text for people, which may be cut anywhere; dropped with --json.
  void Print(std::string_view text);
  // Output that was asked for; printed with --json too.
  void PrintAlways(std::string_view text);
  // One line of JSON.
  void PrintJson(const nlohmann::ordered_json& object);
  // A remark beside the output, on standard error; with --json an object {"note": TEXT}.
  void Note(std::string_view text);
  // `error: MESSAGE (REASON)` and `hint: ...` on standard error; with --json an object {"error":
  // ...} on standard output.
  void PrintError(const absl::Status& status);

  // Replaces the live line; an empty text removes it. Does nothing unless standard output is a
  // terminal.
  void SetProgress(std::string_view text);

 private:
  void WriteLocked(std::string_view text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EraseProgressLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ShowOptions options_;
  bool output_is_terminal_ = false;
  bool interactive_ = false;
  bool color_ = false;
  absl::Mutex mutex_;
  std::string progress_ ABSL_GUARDED_BY(mutex_);
  bool at_line_start_ ABSL_GUARDED_BY(mutex_) = true;
};

}  // namespace gq::cli
