#include "common/rpc/agent_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "common/base/log_format.h"
#include "common/base/text.h"
#include "common/rpc/backoff.h"
#include "common/rpc/blob_client.h"
#include "common/rpc/step_layout.h"
#include "tests/common/rpc/fake_server.h"
#include "tests/temporary_folder.h"

namespace gq::rpc {
namespace {

using gq::v1::AttemptState;
using gq::v1::Lease;
using gq::v1::StepResult;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

using State = FakeAgentService::State;

class FunctionRunner : public StepRunner {
 public:
  using Function = std::function<absl::StatusOr<StepResult>(
      const Lease&, const std::filesystem::path&, StepEvents&, std::stop_token)>;
  explicit FunctionRunner(Function function) : function_(std::move(function)) {}

  absl::StatusOr<StepResult> Run(const Lease& lease, const std::filesystem::path& work_dir,
                                 StepEvents& events, std::stop_token stop) override {
    ++runs;
    return function_(lease, work_dir, events, std::move(stop));
  }

  std::atomic<int> runs = 0;

 private:
  const Function function_;
};

Lease MakeLease(const std::string& id) {
  Lease lease;
  lease.set_lease_id(id);
  lease.set_generation(7);
  lease.set_step_index(1);
  lease.set_step_count(4);
  lease.set_try_number(1);
  lease.set_max_tries(3);
  lease.set_title("Graph Quantize");
  return lease;
}

StepResult Succeeded() {
  StepResult result;
  result.set_state(AttemptState::ATTEMPT_STATE_SUCCEEDED);
  return result;
}

absl::StatusOr<StepResult> RunUntilStopped(const Lease&, const std::filesystem::path&, StepEvents&,
                                           std::stop_token stop) {
  SleepFor(absl::Seconds(30), stop);
  return Succeeded();
}

std::string Line(int number) {
  return base::FormatStoredLine(absl::UnixEpoch(), base::LogLevel::kInfo, "Test",
                                base::StrCat("line ", number));
}

// The texts of a stored log.
std::vector<std::string> Texts(const std::string& log) {
  std::vector<std::string> texts;
  for (const absl::string_view line : absl::StrSplit(log, '\n', absl::SkipEmpty())) {
    const auto parsed = base::ParseStoredLine({line.data(), line.size()});
    texts.push_back(parsed ? parsed->text : "NOT A STORED LINE");
  }
  return texts;
}

// The log of one step that said `line 0` to `line COUNT - 1`: banner and start before them, the end
// behind.
void ExpectLines(const std::string& log, size_t count) {
  const std::vector<std::string> texts = Texts(log);
  ASSERT_EQ(texts.size(), count + 3);
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(texts[i + 2], base::StrCat("line ", i));
}

class AgentSessionTest : public testing::Test {
 protected:
  void TearDown() override {
    if (session_) session_->Stop();
    if (thread_.joinable()) thread_.join();
  }

  AgentSessionOptions Options() {
    AgentSessionOptions options;
    options.agent_id = "worker-1";
    options.capabilities = {"cpu"};
    options.state_dir = folder_.path() / "state";
    options.grace = absl::Milliseconds(300);
    options.progress_interval = absl::Milliseconds(50);
    return options;
  }
  void Start(FunctionRunner::Function function,
             std::optional<AgentSessionOptions> options = std::nullopt) {
    runner_ = std::make_unique<FunctionRunner>(std::move(function));
    session_ = std::make_unique<AgentSession>(options.value_or(Options()), server_.Connect(),
                                              runner_.get());
    thread_ = std::thread([this] { status_ = session_->Run(); });
  }
  // Ends the session and waits for it.
  void Finish() {
    session_->Drain();
    thread_.join();
    session_.reset();
  }
  // The process goes away without a word.
  void Crash() {
    server_.Stop();
    session_->Stop();
    thread_.join();
    session_.reset();
    server_.Start();
  }

  tests::TemporaryFolder folder_;
  FakeServer server_{folder_.path()};
  std::unique_ptr<FunctionRunner> runner_;
  std::unique_ptr<AgentSession> session_;
  std::thread thread_;
  absl::Status status_;
};

TEST_F(AgentSessionTest, RunsALeaseAndDeliversLogArtifactsAndResult) {
  server_.blobs.Put("the model");
  Lease lease = MakeLease("a");
  lease.mutable_spec()->mutable_model()->mutable_file()->set_name("m.onnx");
  *lease.mutable_spec()->mutable_model()->mutable_file()->mutable_digest() =
      DigestOfBytes("the model");
  server_.agents.Add(lease);
  Start([](const Lease& l, const std::filesystem::path& work, StepEvents& events,
           std::stop_token) -> absl::StatusOr<StepResult> {
    const StepFiles files(work, l);
    events.Log(Line(1));
    StepResult result = Succeeded();
    GQ_ASSIGN_OR_RETURN(const std::string model, base::ReadFile(files.model()));
    GQ_ASSIGN_OR_RETURN(const std::filesystem::path out, files.output("sub/copy.onnx"));
    GQ_RETURN_IF_ERROR(base::WriteFileAtomically(out, model + "!"));
    result.add_artifacts()->set_path("sub/copy.onnx");
    return result;
  });
  ASSERT_TRUE(server_.agents.WaitForResult("a"));
  const State state = server_.agents.Get("a");
  EXPECT_THAT(Texts(state.log), ElementsAre("[2/4] Graph Quantize", "Graph Quantize started",
                                            "line 1", StartsWith("Graph Quantize completed (")));
  ASSERT_EQ(state.results.size(), 1);
  EXPECT_EQ(state.results[0].state(), AttemptState::ATTEMPT_STATE_SUCCEEDED);
  ASSERT_EQ(state.results[0].artifacts_size(), 1);
  EXPECT_EQ(state.results[0].artifacts(0).step_index(), 1);
  EXPECT_EQ(server_.blobs.Get(state.results[0].artifacts(0).digest().sha256()), "the model!");
  Finish();
  EXPECT_TRUE(status_.ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() / "state/leases"));
}

TEST_F(AgentSessionTest, StatesWhoItIsAndHowMuchItTakes) {
  AgentSessionOptions options = Options();
  options.slots = 2;
  server_.agents.Add(MakeLease("a"));
  Start(RunUntilStopped, options);
  ASSERT_TRUE(server_.agents.WaitFor("a", [](const State& state) { return state.reported; }));
  const gq::v1::SynchronizeRequest request = server_.agents.last_request();
  EXPECT_EQ(request.agent_id(), "worker-1");
  EXPECT_EQ(request.session_id().size(), 36);
  EXPECT_THAT(request.capabilities(), ElementsAre("cpu"));
  EXPECT_EQ(request.free_slots(), 1);
  ASSERT_EQ(request.leases_size(), 1);
  EXPECT_EQ(request.leases(0).generation(), 7);
}

TEST_F(AgentSessionTest, ALostAssignmentIsTakenWhenItIsRepeated) {
  server_.agents.LoseAnswers(/*synchronize=*/1, /*append_log=*/0);
  server_.agents.Add(MakeLease("a"));
  Start([](auto&&...) { return Succeeded(); });
  ASSERT_TRUE(server_.agents.WaitForResult("a"));
  EXPECT_EQ(runner_->runs, 1);
}

TEST_F(AgentSessionTest, AResultIsReportedAgainUntilItIsAcknowledged) {
  std::atomic<bool> go = false;
  server_.agents.Add(MakeLease("a"));
  Start([&](const Lease&, const std::filesystem::path&, StepEvents&, std::stop_token stop) {
    while (!go && SleepFor(absl::Milliseconds(5), stop)) {
    }
    return Succeeded();
  });
  ASSERT_TRUE(server_.agents.WaitFor("a", [](const State& state) { return state.reported; }));
  server_.agents.LoseAnswers(/*synchronize=*/3, /*append_log=*/0);
  go = true;
  ASSERT_TRUE(server_.agents.WaitForResult("a"));
  Finish();
  EXPECT_EQ(runner_->runs, 1);
  EXPECT_GE(server_.agents.Get("a").results.size(), 2U);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() / "state/leases"));
}

TEST_F(AgentSessionTest, NoLogByteIsLostOrDoubledWhenAnswersAreLost) {
  server_.agents.LoseAnswers(0, /*append_log=*/3);
  server_.agents.Add(MakeLease("a"));
  Start([](const Lease&, const std::filesystem::path&, StepEvents& events, std::stop_token) {
    for (int i = 0; i < 20000; ++i) events.Log(Line(i));
    return Succeeded();
  });
  ASSERT_TRUE(server_.agents.WaitForResult("a"));
  ExpectLines(server_.agents.Get("a").log, 20000);
}

TEST_F(AgentSessionTest, SendsAgainWhatTheServerHasForgotten) {
  std::atomic<bool> go = false;
  server_.agents.Add(MakeLease("a"));
  Start([&](const Lease&, const std::filesystem::path&, StepEvents& events, std::stop_token stop) {
    events.Log(Line(1));
    while (!go && SleepFor(absl::Milliseconds(5), stop)) {
    }
    events.Log(Line(2));
    return Succeeded();
  });
  ASSERT_TRUE(server_.agents.WaitFor(
      "a", [](const State& s) { return s.log.find("line 1\n") != std::string::npos; }));
  server_.agents.TruncateLog("a", 10);
  go = true;
  ASSERT_TRUE(server_.agents.WaitForResult("a"));
  EXPECT_THAT(Texts(server_.agents.Get("a").log),
              ElementsAre("[2/4] Graph Quantize", "Graph Quantize started", "line 1", "line 2",
                          StartsWith("Graph Quantize completed")));
}

TEST_F(AgentSessionTest, WorkGoesOnWhileTheServerRestarts) {
  std::atomic<int> lines = 0;
  server_.agents.Add(MakeLease("a"));
  Start([&](const Lease&, const std::filesystem::path&, StepEvents& events, std::stop_token stop) {
    while (lines < 200 && SleepFor(absl::Milliseconds(5), stop)) events.Log(Line(lines++));
    return Succeeded();
  });
  ASSERT_TRUE(
      server_.agents.WaitFor("a", [](const State& state) { return state.log.size() > 500; }));
  server_.Stop();
  const int before = lines;
  while (lines < before + 50) SleepFor(absl::Milliseconds(5), {});
  server_.Start();
  ASSERT_TRUE(server_.agents.WaitForResult("a"));
  EXPECT_EQ(runner_->runs, 1);
  const State state = server_.agents.Get("a");
  EXPECT_EQ(state.results[0].state(), AttemptState::ATTEMPT_STATE_SUCCEEDED);
  ExpectLines(state.log, 200);
}

TEST_F(AgentSessionTest, StopsAndDropsWorkWhoseGenerationIsStale) {
  std::atomic<bool> stopped = false;
  server_.agents.Add(MakeLease("a"));
  Start([&](const Lease&, const std::filesystem::path&, StepEvents& events, std::stop_token stop) {
    while (SleepFor(absl::Milliseconds(10), stop)) events.Log(Line(1));
    stopped = true;
    return Succeeded();
  });
  ASSERT_TRUE(
      server_.agents.WaitFor("a", [](const State& state) { return state.log.size() > 300; }));
  server_.agents.Revoke("a");
  while (!stopped) SleepFor(absl::Milliseconds(5), {});
  Finish();
  EXPECT_TRUE(server_.agents.Get("a").results.empty());
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() / "state/leases"));
}

TEST_F(AgentSessionTest, ACancelledLeaseEndsAsCancelled) {
  server_.agents.Add(MakeLease("a"));
  Start(RunUntilStopped);
  ASSERT_TRUE(server_.agents.WaitFor("a", [](const State& state) { return state.reported; }));
  server_.agents.Cancel("a");
  ASSERT_TRUE(server_.agents.WaitForResult("a"));
  const State state = server_.agents.Get("a");
  EXPECT_EQ(state.results[0].state(), AttemptState::ATTEMPT_STATE_CANCELLED);
  EXPECT_EQ(state.results[0].failure().reason(), "CANCELLED");
  EXPECT_THAT(Texts(state.log).back(), HasSubstr("(CANCELLED)"));
}

TEST_F(AgentSessionTest, AStepThatRunsTooLongFailsWithATimeout) {
  Lease lease = MakeLease("a");
  lease.mutable_run_timeout()->set_nanos(200000000);
  server_.agents.Add(lease);
  Start(RunUntilStopped);
  ASSERT_TRUE(server_.agents.WaitForResult("a"));
  const StepResult result = server_.agents.Get("a").results[0];
  EXPECT_EQ(result.state(), AttemptState::ATTEMPT_STATE_FAILED);
  EXPECT_EQ(result.failure().reason(), "TIMEOUT");
  EXPECT_EQ(result.failure().failure_class(), gq::v1::FAILURE_CLASS_TIMEOUT);
  EXPECT_THAT(result.failure().message(), HasSubstr("200ms"));
}

TEST_F(AgentSessionTest, StopsItsWorkWhenTheServerIsOutOfReachForTooLong) {
  std::atomic<bool> stopped = false;
  server_.agents.set_time_to_live(absl::Milliseconds(400));
  server_.agents.Add(MakeLease("a"));
  Start([&](const Lease&, const std::filesystem::path&, StepEvents&, std::stop_token stop) {
    SleepFor(absl::Seconds(30), stop);
    stopped = true;
    return Succeeded();
  });
  ASSERT_TRUE(server_.agents.WaitFor("a", [](const State& state) { return state.reported; }));
  server_.Stop();
  const absl::Time start = absl::Now();
  while (!stopped && absl::Now() < start + absl::Seconds(10)) SleepFor(absl::Milliseconds(5), {});
  EXPECT_TRUE(stopped);
  server_.Start();
  ASSERT_TRUE(server_.agents.WaitForResult("a"));
  EXPECT_EQ(server_.agents.Get("a").results[0].state(), AttemptState::ATTEMPT_STATE_LOST);
}

TEST_F(AgentSessionTest, ALeaseCutShortByARestartIsReportedLost) {
  server_.agents.Add(MakeLease("a"));
  // What a process that was killed in the middle of its work leaves behind.
  const std::string bytes = MakeLease("a").SerializeAsString();
  const std::string name = base::Sha256Hex(base::StrCat("a", "\n", 7)).substr(0, 32);
  const std::filesystem::path lease_dir = folder_.path() / "state/leases" / name;
  ASSERT_TRUE(base::MakeFolder(lease_dir / "work").ok());
  ASSERT_TRUE(base::WriteFileAtomically(lease_dir / "lease.pb", bytes).ok());
  ASSERT_TRUE(base::WriteFileAtomically(lease_dir / "log", Line(1) + Line(2)).ok());
  Start([](auto&&...) { return Succeeded(); });
  ASSERT_TRUE(server_.agents.WaitForResult("a"));
  const State state = server_.agents.Get("a");
  EXPECT_EQ(runner_->runs, 0);
  EXPECT_EQ(state.results[0].state(), AttemptState::ATTEMPT_STATE_LOST);
  EXPECT_EQ(state.results[0].failure().reason(), "WORKER_LOST");
  EXPECT_THAT(Texts(state.log), ElementsAre("line 1", "line 2", HasSubstr("(WORKER_LOST)")));
}

TEST_F(AgentSessionTest, AFinishedResultSurvivesARestart) {
  std::atomic<bool> go = false;
  server_.agents.Add(MakeLease("a"));
  Start([&](const Lease&, const std::filesystem::path&, StepEvents& events, std::stop_token stop) {
    while (!go && SleepFor(absl::Milliseconds(5), stop)) {
    }
    events.Log(Line(1));
    StepResult result = Succeeded();
    result.set_report_json("{\"kept\":true}");
    return result;
  });
  ASSERT_TRUE(server_.agents.WaitFor("a", [](const State& state) { return state.reported; }));
  server_.Stop();
  go = true;
  const std::string name = base::Sha256Hex(base::StrCat("a", "\n", 7)).substr(0, 32);
  while (!std::filesystem::exists(folder_.path() / "state/leases" / name / "result.pb")) {
    SleepFor(absl::Milliseconds(5), {});
  }
  Crash();
  Start([](auto&&...) { return Succeeded(); });
  ASSERT_TRUE(server_.agents.WaitForResult("a"));
  const State state = server_.agents.Get("a");
  EXPECT_EQ(runner_->runs, 0);
  EXPECT_EQ(state.results[0].report_json(), "{\"kept\":true}");
  EXPECT_THAT(Texts(state.log), ElementsAre("[2/4] Graph Quantize", "Graph Quantize started",
                                            "line 1", StartsWith("Graph Quantize completed")));
}

TEST_F(AgentSessionTest, IterationsAreRecordedBeforeTheWorkGoesOn) {
  server_.agents.Add(MakeLease("a"));
  Start([&](const Lease&, const std::filesystem::path&, StepEvents& events,
            std::stop_token) -> absl::StatusOr<StepResult> {
    for (int i = 1; i <= 3; ++i) {
      gq::v1::Iteration iteration;
      iteration.set_number(i);
      GQ_RETURN_IF_ERROR(events.Iteration(iteration));
      if (static_cast<int>(server_.agents.Get("a").iterations.size()) != i) {
        return base::MakeError(base::Reason::kInternal, "not recorded");
      }
    }
    return Succeeded();
  });
  ASSERT_TRUE(server_.agents.WaitForResult("a"));
  EXPECT_EQ(server_.agents.Get("a").results[0].state(), AttemptState::ATTEMPT_STATE_SUCCEEDED);
  EXPECT_THAT(server_.agents.Get("a").iterations, ElementsAre(1, 2, 3));
}

TEST_F(AgentSessionTest, ProgressReachesTheServerWhileTheWorkGoesOn) {
  server_.agents.Add(MakeLease("a"));
  Start([](const Lease&, const std::filesystem::path&, StepEvents& events, std::stop_token stop) {
    gq::v1::StepProgress progress;
    progress.set_total(1000);
    for (int i = 0; SleepFor(absl::Milliseconds(10), stop); ++i) {
      progress.set_done(i);
      events.Progress(progress);
    }
    return Succeeded();
  });
  EXPECT_TRUE(
      server_.agents.WaitFor("a", [](const State& state) { return state.progress.size() >= 5; }));
}

TEST_F(AgentSessionTest, LostWorkNamesItsCause) {
  server_.agents.Add(MakeLease("a"));
  Start([](auto&&...) -> absl::StatusOr<StepResult> {
    return base::MakeError(base::Reason::kWorkerLost, "the process was ended by signal SIGSEGV");
  });
  ASSERT_TRUE(server_.agents.WaitForResult("a"));
  const StepResult result = server_.agents.Get("a").results[0];
  EXPECT_EQ(result.state(), AttemptState::ATTEMPT_STATE_LOST);
  EXPECT_THAT(result.failure().message(), HasSubstr("SIGSEGV"));
}

TEST_F(AgentSessionTest, AMissingInputIsSaidInTheResult) {
  Lease lease = MakeLease("a");
  lease.mutable_spec()->mutable_model()->mutable_file()->set_name("m.onnx");
  *lease.mutable_spec()->mutable_model()->mutable_file()->mutable_digest() =
      DigestOfBytes("never uploaded");
  server_.agents.Add(lease);
  Start([](auto&&...) { return Succeeded(); });
  ASSERT_TRUE(server_.agents.WaitForResult("a"));
  EXPECT_EQ(runner_->runs, 0);
  EXPECT_EQ(server_.agents.Get("a").results[0].failure().reason(), "BLOB_MISSING");
}

TEST_F(AgentSessionTest, AFileNameThatLeavesItsFolderIsRefused) {
  Lease lease = MakeLease("a");
  lease.mutable_spec()->mutable_model()->mutable_file()->set_name("../../m.onnx");
  server_.agents.Add(lease);
  Start([](auto&&...) { return Succeeded(); });
  ASSERT_TRUE(server_.agents.WaitForResult("a"));
  const StepResult result = server_.agents.Get("a").results[0];
  EXPECT_EQ(result.state(), AttemptState::ATTEMPT_STATE_FAILED);
  EXPECT_EQ(result.failure().reason(), "DATA_INVALID");
}

TEST_F(AgentSessionTest, ADrainLetsTheWorkEnd) {
  std::atomic<bool> go = false;
  server_.agents.Add(MakeLease("a"));
  Start([&](const Lease&, const std::filesystem::path&, StepEvents&, std::stop_token stop) {
    while (!go && SleepFor(absl::Milliseconds(5), stop)) {
    }
    return Succeeded();
  });
  ASSERT_TRUE(server_.agents.WaitFor("a", [](const State& state) { return state.reported; }));
  session_->Drain();
  server_.agents.Add(MakeLease("b"));
  SleepFor(absl::Milliseconds(100), {});
  EXPECT_EQ(server_.agents.last_request().free_slots(), 0);
  go = true;
  thread_.join();
  session_.reset();
  EXPECT_EQ(server_.agents.Get("a").results[0].state(), AttemptState::ATTEMPT_STATE_SUCCEEDED);
  EXPECT_EQ(server_.agents.Get("b").assignments, 0);
}

TEST_F(AgentSessionTest, AStopReportsItsWorkAsLost) {
  server_.agents.Add(MakeLease("a"));
  Start(RunUntilStopped);
  ASSERT_TRUE(server_.agents.WaitFor("a", [](const State& state) { return state.reported; }));
  session_->Stop();
  thread_.join();
  session_.reset();
  ASSERT_EQ(server_.agents.Get("a").results.size(), 1);
  EXPECT_EQ(server_.agents.Get("a").results[0].state(), AttemptState::ATTEMPT_STATE_LOST);
}

TEST_F(AgentSessionTest, ASecondSessionInTheSameFolderIsRefused) {
  server_.agents.Add(MakeLease("a"));
  Start(RunUntilStopped);
  ASSERT_TRUE(server_.agents.WaitFor("a", [](const State& state) { return state.reported; }));
  AgentSession second(Options(), server_.Connect(), runner_.get());
  EXPECT_EQ(base::GetReason(second.Run()), base::Reason::kDataFolderLocked);
}

TEST_F(AgentSessionTest, ARepeatedTrySaysSoInTheLog) {
  Lease lease = MakeLease("a");
  lease.set_try_number(2);
  lease.set_last_failure("WORKER_LOST");
  server_.agents.Add(lease);
  Start([](auto&&...) { return Succeeded(); });
  ASSERT_TRUE(server_.agents.WaitForResult("a"));
  EXPECT_EQ(Texts(server_.agents.Get("a").log)[1], "(attempt 2 of 3: WORKER_LOST)");
}

TEST_F(AgentSessionTest, ARepetitionThatCountsAgainstNobodyIsToldToo) {
  Lease lease = MakeLease("a");
  lease.set_last_failure("DRAINING");
  server_.agents.Add(lease);
  Start([](auto&&...) { return Succeeded(); });
  ASSERT_TRUE(server_.agents.WaitForResult("a"));
  EXPECT_EQ(Texts(server_.agents.Get("a").log)[1], "(attempt 1 of 3, begun again: DRAINING)");
}

TEST_F(AgentSessionTest, AnIdleAgentGetsNewWorkAtOnce) {
  std::atomic<int64_t> started = 0;
  Start([&](auto&&...) {
    started = absl::GetCurrentTimeNanos();
    return Succeeded();
  });
  SleepFor(absl::Milliseconds(400), {});
  const int64_t submitted = absl::GetCurrentTimeNanos();
  server_.agents.Add(MakeLease("a"));
  ASSERT_TRUE(server_.agents.WaitForResult("a"));
  EXPECT_LT(absl::Nanoseconds(started - submitted), absl::Milliseconds(500));
}

}  // namespace
}  // namespace gq::rpc
