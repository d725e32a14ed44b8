#include "common/base/log_format.h"

#include <string>

#include "common/base/text.h"
#include "gtest/gtest.h"

namespace gq::base {
namespace {

absl::TimeZone Zone() { return absl::FixedTimeZone(2 * 3600); }

absl::Time At(const char* text) {
  absl::Time time;
  std::string error;
  EXPECT_TRUE(absl::ParseTime(absl::RFC3339_full, text, &time, &error)) << error;
  return time;
}

TEST(FormatStoredLine, HasMillisecondsInUtc) {
  EXPECT_EQ(
      FormatStoredLine(At("2026-08-21T16:08:25.12+02:00"), LogLevel::kInfo, "Calibrate", "a b"),
      "2026-08-21T14:08:25.120Z INFO Calibrate a b\n");
}

TEST(FormatStoredLine, GivesEveryLineOfATextItsOwnHead) {
  EXPECT_EQ(FormatStoredLine(At("2026-08-21T14:08:25Z"), LogLevel::kWarn, "my tool",
                             "one\n2026-01-01T00:00:00.000Z DONE Workflow faked"),
            "2026-08-21T14:08:25.000Z WARN my-tool one\n"
            "2026-08-21T14:08:25.000Z WARN my-tool 2026-01-01T00:00:00.000Z DONE Workflow faked\n");
}

TEST(ParseStoredLine, ReadsWhatFormatWrites) {
  const auto line = ParseStoredLine("2026-08-21T14:08:25.120Z ERROR Tool text  with spaces ");
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->time, At("2026-08-21T14:08:25.120Z"));
  EXPECT_EQ(line->level, LogLevel::kError);
  EXPECT_EQ(line->component, "Tool");
  EXPECT_EQ(line->text, "text  with spaces ");
}

TEST(ParseStoredLine, RefusesEverythingElse) {
  for (const char* text :
       {"", "hello", "2026-08-21T14:08:25.120Z", "2026-08-21T14:08:25.120Z LOUD A b",
        "2026-08-21T14:08:25.120+02:00 INFO A b", "yesterdayZ INFO A b",
        "2026-08-21T14:08:25.120Z INFO", "2026-08-21T14:08:25.120Z INFO  b"}) {
    EXPECT_FALSE(ParseStoredLine(text).has_value()) << text;
  }
}

TEST(FormatDuration, RoundsDownToTheLastUnit) {
  EXPECT_EQ(gq::base::FormatDuration(absl::Milliseconds(-4)), "0ms");
  EXPECT_EQ(gq::base::FormatDuration(absl::Milliseconds(850)), "850ms");
  EXPECT_EQ(gq::base::FormatDuration(absl::Microseconds(999999)), "999ms");
  EXPECT_EQ(gq::base::FormatDuration(absl::Milliseconds(9999)), "9s");
  EXPECT_EQ(gq::base::FormatDuration(absl::Seconds(112)), "1m 52s");
  EXPECT_EQ(gq::base::FormatDuration(absl::Seconds(62)), "1m 02s");
  EXPECT_EQ(gq::base::FormatDuration(absl::Seconds(3599)), "59m 59s");
  EXPECT_EQ(gq::base::FormatDuration(absl::Seconds(2 * 3600 + 3 * 60 + 10)), "2h 03m 10s");
}

std::string Render(LogRenderer& renderer, std::initializer_list<std::string_view> pieces) {
  std::string result;
  for (std::string_view piece : pieces) result += renderer.Feed(piece);
  return result + renderer.Finish();
}

constexpr char kStep[] =
    "2026-08-21T14:08:22.000Z INFO Banner [2/4] Graph Quantize\n"
    "2026-08-21T14:08:22.001Z INFO Workflow Graph Quantize started\n"
    "2026-08-21T14:08:25.000Z INFO Calibrate 32/128 samples, 11.2 samples/s, ETA 9s\n"
    "2026-08-21T14:08:26.000Z DEBUG Calibrate detail\n"
    "2026-08-21T14:10:15.000Z DONE Workflow Graph Quantize completed (1m 52s)\n";

// The example of the documentation.
constexpr char kRenderedStep[] =
    "============================================================\n"
    "[2/4] Graph Quantize\n"
    "============================================================\n"
    "2026-08-21 16:08.22 [INFO ] [Workflow] Graph Quantize started\n"
    "2026-08-21 16:08.25 [INFO ] [Calibrate] 32/128 samples, 11.2 samples/s, ETA 9s\n"
    "\n"
    "2026-08-21 16:10.15 [DONE ] [Workflow] Graph Quantize completed (1m 52s)\n";

TEST(LogRenderer, ShowsTheDocumentedForm) {
  LogRenderer renderer({.zone = Zone()});
  EXPECT_EQ(Render(renderer, {kStep}), kRenderedStep);
}

TEST(LogRenderer, DoesNotCareHowTheBytesAreCut) {
  for (size_t size : {1u, 2u, 7u, 64u}) {
    LogRenderer renderer({.zone = Zone()});
    std::string result;
    const std::string text(kStep);
    for (size_t i = 0; i < text.size(); i += size) result += renderer.Feed(text.substr(i, size));
    EXPECT_EQ(result + renderer.Finish(), kRenderedStep);
  }
}

TEST(LogRenderer, QuietStepHasSixLines) {
  LogRenderer renderer({.quiet = true, .zone = Zone()});
  EXPECT_EQ(Render(renderer, {kStep}),
            "============================================================\n"
            "[2/4] Graph Quantize\n"
            "============================================================\n"
            "2026-08-21 16:08.22 [INFO ] [Workflow] Graph Quantize started\n"
            "\n"
            "2026-08-21 16:10.15 [DONE ] [Workflow] Graph Quantize completed (1m 52s)\n");
}

TEST(LogRenderer, SeparatesStepsAndShowsAttempts) {
  LogRenderer renderer({.zone = Zone()});
  const std::string text =
      Render(renderer, {kStep,
                        "2026-08-21T14:11:00.000Z INFO Banner [3/4] Evaluate\n"
                        "2026-08-21T14:11:00.000Z INFO Banner (attempt 2 of 3: WORKER_LOST)\n"
                        "2026-08-21T14:11:00.000Z INFO Workflow Evaluate started\n"
                        "2026-08-21T14:11:12.000Z ERROR Workflow Evaluate failed (12s): no data "
                        "(DATA_EMPTY)\n"});
  EXPECT_EQ(text, std::string(kRenderedStep) +
                      "\n"
                      "============================================================\n"
                      "[3/4] Evaluate\n"
                      "(attempt 2 of 3: WORKER_LOST)\n"
                      "============================================================\n"
                      "2026-08-21 16:11.00 [INFO ] [Workflow] Evaluate started\n"
                      "\n"
                      "2026-08-21 16:11.12 [ERROR] [Workflow] Evaluate failed (12s): no data "
                      "(DATA_EMPTY)\n");
}

TEST(LogRenderer, ColoursLevels) {
  LogRenderer renderer({.color = true, .zone = Zone()});
  EXPECT_EQ(renderer.Feed("2026-08-21T14:08:22.000Z WARN Data one sample\n"),
            "2026-08-21 16:08.22 \033[33m[WARN ]\033[0m [Data] one sample\n");
}

TEST(LogRenderer, ShowsForeignLinesStripped) {
  LogRenderer renderer({.zone = Zone()});
  EXPECT_EQ(renderer.Feed("plain \033[31mred\033[0m text\n"), "plain red text\n");
  EXPECT_EQ(Render(renderer, {"cut"}), "cut\n");
}

TEST(StripControl, LeavesNothingThatActsOnATerminal) {
  EXPECT_EQ(StripControl("a\033[2Jb"), "ab");
  EXPECT_EQ(StripControl("a\033]0;title\ab"), "ab");
  EXPECT_EQ(StripControl("a\033]8;;http://x\033\\b"), "ab");
  EXPECT_EQ(StripControl("a\033]never closed"), "a");
  EXPECT_EQ(StripControl("a\033"), "a");
  EXPECT_EQ(StripControl("a\rb\bc\x7f"
                         "d\te"),
            "abcd\te");
  EXPECT_EQ(StripControl("\xc2\x9b"
                         "31m"),
            "31m");                                   // C1 control
  EXPECT_EQ(StripControl("a\xe2\x80\xae z"), "a z");  // right-to-left override
  EXPECT_EQ(StripControl("caf\xc3\xa9 \xe2\x9c\x93"), "caf\xc3\xa9 \xe2\x9c\x93");
  EXPECT_EQ(StripControl("\xff\xc3("), "\xef\xbf\xbd\xef\xbf\xbd(");
  EXPECT_EQ(StripControl("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");  // surrogate
}

TEST(ClosestNames, PutsTheClosestFirst) {
  EXPECT_EQ(ClosestNames("shceme", {"schema", "scheme", "seed"}).front(), "scheme");
  EXPECT_TRUE(ClosestNames("zzzzzz", {"scheme", "seed"}).empty());
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
}

TEST(StrCat, TakesEveryKindOfPiece) {
  EXPECT_EQ(
      StrCat(std::string_view("a"), "b", std::string("c"), 1, 2.5, 'd', absl::string_view("e")),
      "abc12.5de");
  EXPECT_EQ(StrJoin(std::vector<int>{1, 2, 3}, ", "), "1, 2, 3");
  EXPECT_EQ(StrSplit("a,,b", ',').size(), 3u);
  EXPECT_EQ(StripSpace(" \ta b\n"), "a b");
}

}  // namespace
}  // namespace gq::base
