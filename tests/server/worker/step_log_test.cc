#include "server/worker/steps/step_log.h"

#include <chrono>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gq::worker {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

class RecordingReporter : public base::Reporter {
 public:
  void Log(base::LogLevel, std::string_view component, std::string_view text) override {
    lines.push_back(std::string(component) + ": " + std::string(text));
  }
  void Report(const base::Progress&) override { ++reports; }
  bool Cancelled() const override { return false; }

  std::vector<std::string> lines;
  int reports = 0;
};

class StepLogTest : public testing::Test {
 protected:
  void Advance(int ms) { now_ += milliseconds(ms); }
  void Done(int64_t done, int64_t total) { log_.Report({"Calibrate", done, total, "samples"}); }

  std::chrono::steady_clock::time_point now_;
  RecordingReporter next_;
  StepLog log_{next_, [this] { return now_; }};
};

TEST(ProgressTextTest, SaysRateAndTimeLeft) {
  EXPECT_EQ(ProgressText({"Calibrate", 32, 128, "samples"}, 32, 32 / 11.2),
            "32/128 samples, 11.2 samples/s, ETA 9s");
  EXPECT_EQ(ProgressText({"Calibrate", 128, 128, "samples"}, 128, 16),
            "128/128 samples, 8.0 samples/s");
  EXPECT_EQ(ProgressText({"Explore", 3, 0, "candidates"}, 0, 0), "3 candidates");
}

TEST_F(StepLogTest, AShortPhaseHasNoLine) {
  for (int i = 1; i <= 10; ++i) {
    Advance(50);
    Done(i, 10);
  }
  EXPECT_EQ(next_.reports, 10);
  EXPECT_TRUE(next_.lines.empty());
}

TEST_F(StepLogTest, ALongPhaseHasALineNowAndThenAndOneAtItsEnd) {
  Done(0, 100);
  for (int i = 1; i <= 100; ++i) {
    Advance(100);
    Done(i, 100);
  }
  EXPECT_THAT(next_.lines, ElementsAre("Calibrate: 10/100 samples, 10.0 samples/s, ETA 9s",
                                       "Calibrate: 60/100 samples, 10.0 samples/s, ETA 4s",
                                       "Calibrate: 100/100 samples, 10.0 samples/s"));
}

TEST_F(StepLogTest, KeepsEachWarningOnce) {
  log_.Warn("A", "one");
  log_.Warn("B", "one");
  log_.Warn("B", "two");
  log_.Info("B", "three");
  EXPECT_THAT(log_.warnings(), ElementsAre("one", "two"));
  EXPECT_EQ(next_.lines.size(), 4u);
}

}  // namespace
}  // namespace gq::worker
