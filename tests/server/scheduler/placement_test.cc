#include "server/scheduler/placement.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gq::server {
namespace {

using testing::ElementsAre;

BoardRecord Board(const std::string& name, const std::string& device) {
  BoardRecord record;
  record.board.set_name(name);
  record.board.set_device(device);
  record.board.set_backend("sim");
  record.board.set_health(gq::v1::BOARD_HEALTH_GOOD);
  record.board.add_capabilities("compile:sim");
  record.board.add_capabilities("exec:" + device);
  record.online = true;
  return record;
}

StepNeed Exec(const std::string& device) {
  StepNeed need;
  need.kind = NeedKind::kExec;
  need.device = device;
  return need;
}

QueuedStep Queued(const std::string& job, const std::string& principal, int priority, int age_s,
                  StepNeed need = {}) {
  QueuedStep step;
  step.job_id = job;
  step.principal = principal;
  step.priority = priority;
  step.queued = absl::FromUnixSeconds(1'000'000 - age_s);
  step.need = std::move(need);
  return step;
}

std::vector<std::string> Order(const std::vector<QueuedStep>& steps,
                               const std::vector<Usage>& usage = {},
                               const std::vector<BoardRecord>& boards = {}) {
  std::vector<std::string> jobs;
  for (const QueuedStep* step : ServingOrder(steps, usage, boards)) jobs.push_back(step->job_id);
  return jobs;
}

TEST(Placement, FamilyIsServedByItsMembers) {
  EXPECT_TRUE(DeviceServes("ve2-sim", "ve2-sim"));
  EXPECT_TRUE(DeviceServes("ve2-xc2ve3858", "ve2"));
  EXPECT_TRUE(DeviceServes("ve2-sim", ""));
  EXPECT_FALSE(DeviceServes("ve2", "ve2-sim"));
  EXPECT_FALSE(DeviceServes("ve2-sim", "ve2-xc2ve3858"));
  EXPECT_FALSE(DeviceServes("ve22-sim", "ve2"));
}

TEST(Placement, BoardHasToFit) {
  BoardRecord board = Board("b", "ve2-sim");
  board.board.add_schemes("vint8");
  board.board.add_tags("fast");
  StepNeed need = Exec("ve2");
  EXPECT_TRUE(CouldRun(board, need));
  need.scheme = "W8-A8";
  EXPECT_FALSE(CouldRun(board, need));
  need.scheme = "vint8";
  need.tags = {"fast", "lab-2"};
  EXPECT_FALSE(CouldRun(board, need));
  need.tags = {"fast"};
  need.board = "c";
  EXPECT_FALSE(CouldRun(board, need));
  need.board = "b";
  EXPECT_TRUE(CouldRun(board, need));
  board.board.clear_capabilities();
  board.board.add_capabilities("compile:sim");
  EXPECT_FALSE(CouldRun(board, need)) << "it cannot execute";
  need.kind = NeedKind::kCompile;
  EXPECT_TRUE(CouldRun(board, need));
}

TEST(Placement, OnlyHealthyFreeBoardsTakeWork) {
  const StepNeed need = Exec("ve2");
  const auto takes = [&](auto change) {
    BoardRecord board = Board("b", "ve2-sim");
    change(board);
    return CanTakeNow(board, need, "alice");
  };
  EXPECT_TRUE(takes([](BoardRecord&) {}));
  EXPECT_TRUE(takes([](auto& b) { b.board.set_health(gq::v1::BOARD_HEALTH_UNKNOWN); }));
  EXPECT_FALSE(takes([](auto& b) { b.board.set_health(gq::v1::BOARD_HEALTH_BAD); }));
  EXPECT_FALSE(takes([](auto& b) { b.board.set_health(gq::v1::BOARD_HEALTH_LOOPING); }));
  EXPECT_FALSE(takes([](auto& b) { b.board.set_health(gq::v1::BOARD_HEALTH_MAINTENANCE); }));
  EXPECT_FALSE(takes([](auto& b) { b.online = false; }));
  EXPECT_FALSE(takes([](auto& b) { b.draining = true; }));
  EXPECT_FALSE(takes([](auto& b) { b.board.set_job_id("other"); }));
  EXPECT_FALSE(takes([](auto& b) { b.board.set_reserved_by("bob"); }));
  EXPECT_TRUE(takes([](auto& b) { b.board.set_reserved_by("alice"); }));
}

TEST(Placement, CompilingDoesNotUseTheBoard) {
  BoardRecord board = Board("b", "ve2-sim");
  board.board.set_job_id("other");
  board.board.set_reserved_by("bob");
  StepNeed need = Exec("ve2");
  need.kind = NeedKind::kCompile;
  EXPECT_TRUE(CanTakeNow(board, need, "alice"));
}

TEST(Placement, PriorityThenFairShareThenAge) {
  EXPECT_THAT(Order({Queued("young", "a", 0, 1), Queued("old", "a", 0, 9)}),
              ElementsAre("old", "young"));
  EXPECT_THAT(Order({Queued("old", "a", 0, 9), Queued("urgent", "a", 5, 1)}),
              ElementsAre("urgent", "old"));
  EXPECT_THAT(Order({Queued("busy", "a", 0, 9), Queued("idle", "b", 0, 1)}, {{"a", 1, 0}}),
              ElementsAre("idle", "busy"));
  EXPECT_THAT(Order({Queued("heavy", "a", 0, 9), Queued("light", "b", 0, 1)},
                    {{"a", 0, 500}, {"b", 0, 20}}),
              ElementsAre("light", "heavy"));
  EXPECT_THAT(Order({Queued("urgent", "a", 1, 1), Queued("idle", "b", 0, 9)}, {{"a", 9, 9}}),
              ElementsAre("urgent", "idle"))
      << "priority goes before fair share";
}

TEST(Placement, OwnerOfAReservationGoesFirst) {
  std::vector<BoardRecord> boards = {Board("b", "ve2-sim")};
  boards[0].board.set_reserved_by("bob");
  EXPECT_THAT(
      Order({Queued("urgent", "a", 100, 9, Exec("ve2")), Queued("owner", "bob", 0, 1, Exec("ve2"))},
            {}, boards),
      ElementsAre("owner", "urgent"));
}

TEST(Placement, WaitsAreExplained) {
  std::vector<BoardRecord> boards = {Board("b1", "ve2-xc2ve3858"), Board("b2", "ve2-xc2ve3858"),
                                     Board("b3", "ve2-xc2ve3858"), Board("x", "xnnpack-cpu")};
  for (int i : {0, 1}) {
    boards[i].board.set_reserved_by("team-a");
    boards[i].board.mutable_reserved_until()->set_seconds(18 * 3600);
  }
  boards[2].online = false;
  const std::vector<QueuedStep> steps = {Queued("j1", "a", 0, 9, Exec("ve2-xc2ve3858")),
                                         Queued("j2", "a", 0, 8, Exec("ve2-xc2ve3858")),
                                         Queued("j3", "a", 0, 7), Queued("j4", "a", 0, 6)};
  const auto order = ServingOrder(steps, {}, boards);
  EXPECT_EQ(WhyWaiting(steps[1], order, boards, {}),
            "1 of 3 boards with device ve2-xc2ve3858 is offline, 2 are reserved until 18:00 UTC by "
            "team-a; position 2");
  EXPECT_EQ(WhyWaiting(steps[3], order, boards, {2, 2}), "all 2 workers are busy; position 2");
  EXPECT_EQ(WhyWaiting(steps[2], order, boards, {0, 0}), "no worker is connected; position 1");
  EXPECT_EQ(WhyWaiting(steps[0], order, {}, {}),
            "no board with device ve2-xc2ve3858 that fits is registered; position 1");
}

TEST(Placement, StatesOfABoard) {
  BoardRecord board = Board("b", "ve2-sim");
  EXPECT_EQ(StateOf(board), gq::v1::BOARD_STATE_IDLE);
  board.board.set_reserved_by("bob");
  EXPECT_EQ(StateOf(board), gq::v1::BOARD_STATE_RESERVED);
  board.board.set_job_id("j");
  EXPECT_EQ(StateOf(board), gq::v1::BOARD_STATE_RUNNING);
  board.draining = true;
  EXPECT_EQ(StateOf(board), gq::v1::BOARD_STATE_DRAINING);
  board.online = false;
  EXPECT_EQ(StateOf(board), gq::v1::BOARD_STATE_OFFLINE);
}

TEST(Placement, ExistingDevicesAreListed) {
  EXPECT_EQ(DescribeBoards({}), "no board is registered");
  std::vector<BoardRecord> boards = {Board("b", "ve2-sim"), Board("x", "xnnpack-cpu")};
  boards[0].board.add_schemes("vint8");
  boards[0].board.add_schemes("bf16");
  EXPECT_EQ(DescribeBoards(boards), "registered devices: ve2-sim (vint8, bf16); xnnpack-cpu");
}

}  // namespace
}  // namespace gq::server
