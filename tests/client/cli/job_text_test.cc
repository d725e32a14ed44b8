#include "client/cli/job_text.h"

#include <string>

#include "client/cli/table.h"
#include "gtest/gtest.h"

namespace gq::cli {
namespace {

gq::v1::Job Failed(const std::string& reason,
                   gq::v1::FailureClass failure_class = gq::v1::FAILURE_CLASS_USER) {
  gq::v1::Job job;
  job.set_state(gq::v1::JOB_STATE_FAILED);
  job.mutable_failure()->set_reason(reason);
  job.mutable_failure()->set_failure_class(failure_class);
  return job;
}

// The documented exit codes (docs/user-guide.md).
TEST(ExitCodeOf, TellsHowTheJobEnded) {
  gq::v1::Job job;
  job.set_state(gq::v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(ExitCodeOf(job), 0);
  job.set_verdict(gq::v1::VERDICT_GOAL_MET);
  EXPECT_EQ(ExitCodeOf(job), 0);
  job.set_verdict(gq::v1::VERDICT_NOT_JUDGED);
  EXPECT_EQ(ExitCodeOf(job), 0);
  job.set_verdict(gq::v1::VERDICT_GOAL_NOT_MET);
  EXPECT_EQ(ExitCodeOf(job), 10);
  job.set_state(gq::v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(ExitCodeOf(job), 8);
  job.set_state(gq::v1::JOB_STATE_RUNNING);
  EXPECT_EQ(ExitCodeOf(job), 1);
  EXPECT_EQ(ExitCodeOf(Failed("MODEL_INVALID")), 2);
  EXPECT_EQ(ExitCodeOf(Failed("NO_ELIGIBLE_BOARD")), 7);
  EXPECT_EQ(ExitCodeOf(Failed("COMPILE_FAILED")), 5);
  EXPECT_EQ(ExitCodeOf(Failed("INTERNAL")), 5);
  EXPECT_EQ(ExitCodeOf(Failed("A_REASON_OF_THE_FUTURE")), 5);
  EXPECT_EQ(ExitCodeOf(Failed("TIMEOUT", gq::v1::FAILURE_CLASS_TIMEOUT)), 9);
}

TEST(JobText, UsesTheWordsOfTheContract) {
  EXPECT_EQ(StateText(gq::v1::JOB_STATE_CANCELLING), "CANCELLING");
  EXPECT_EQ(KindText(gq::v1::JOB_KIND_DRY_RUN), "dry-run");
  EXPECT_EQ(VerdictText(gq::v1::VERDICT_GOAL_NOT_MET), "goal not met");
  gq::v1::StepProgress progress;
  progress.set_component("Calibrate");
  progress.set_done(3);
  EXPECT_EQ(ProgressText(progress), "Calibrate 3");
  progress.set_total(8);
  progress.set_unit("samples");
  EXPECT_EQ(ProgressText(progress), "Calibrate 3/8 samples");
}

TEST(Table, AlignsColumnsAndStripsCells) {
  Table table({"ID", "NAME"});
  table.Add({"1", "a\033[31mb"});
  table.Add({"long-id", ""});
  EXPECT_EQ(table.Render(),
            "ID       NAME\n"
            "1        ab\n"
            "long-id\n");
}

}  // namespace
}  // namespace gq::cli
