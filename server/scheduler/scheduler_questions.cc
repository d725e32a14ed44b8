// What people ask the scheduler.
#include <algorithm>
#include <map>

#include "common/base/status.h"
#include "common/base/text.h"
#include "server/scheduler/placement.h"
#include "server/scheduler/scheduler.h"

namespace gq::server {

using base::MakeError;
using base::Reason;
using base::StrCat;

absl::Status Scheduler::CheckRunnable(const std::vector<StepPlan>& steps) {
  const bool needs_board = std::any_of(steps.begin(), steps.end(), [](const StepPlan& step) {
    return step.need.kind != NeedKind::kCpu;
  });
  if (!needs_board) return absl::OkStatus();
  GQ_ASSIGN_OR_RETURN(const auto boards, ledger_.ListBoards(times_.online_within));
  for (const StepPlan& step : steps) {
    if (step.need.kind == NeedKind::kCpu) continue;
    const auto could = [&](const BoardRecord& board) { return CouldRun(board, step.need); };
    if (std::any_of(boards.begin(), boards.end(), could)) continue;
    const bool known = std::any_of(boards.begin(), boards.end(), [&](const BoardRecord& board) {
      return DeviceServes(board.board.device(), step.need.device);
    });
    std::string wish = step.need.device.empty() ? "" : StrCat(" for device ", step.need.device);
    if (!step.need.scheme.empty()) wish += StrCat(", scheme ", step.need.scheme);
    if (!step.need.board.empty()) wish += StrCat(", board ", step.need.board);
    if (!step.need.tags.empty()) wish += StrCat(", tags ", base::StrJoin(step.need.tags, " "));
    return MakeError(Reason::kNoEligibleBoard,
                     StrCat(known ? "no registered board could run the step "
                                  : "nothing is registered that could "
                                    "run the step ",
                            step.title, wish, "; ", DescribeBoards(boards)),
                     "choose another device, use --stage quantize, or queue it all the same with "
                     "--wait-for-board");
  }
  return absl::OkStatus();
}

bool Scheduler::LocalAgentsStarting() {
  absl::MutexLock lock(&mutex_);
  return !starting_.empty() && clock_.Now() < starting_until_;
}

std::string Scheduler::DeviceForScheme(std::string_view scheme) {
  const auto boards = ledger_.ListBoards(times_.online_within);
  if (!boards.ok()) return "";
  for (const BoardRecord& board : *boards) {
    const auto& schemes = board.board.schemes();
    if (std::find(schemes.begin(), schemes.end(), scheme) != schemes.end()) {
      return board.board.device();
    }
  }
  return "";
}

void Scheduler::EnrichWithProgress(gq::v1::Job* job) {
  int step_index = 0;
  gq::v1::StepProgress progress;
  if (Progress(job->id(), &step_index, &progress) && step_index < job->steps_size() &&
      job->steps(step_index).state() == gq::v1::STEP_STATE_RUNNING) {
    *job->mutable_steps(step_index)->mutable_progress() = progress;
  }
  for (gq::v1::Step& step : *job->mutable_steps()) {
    for (gq::v1::Attempt& attempt : *step.mutable_attempts()) {
      if (attempt.log_size() == 0) attempt.set_log_size(logs_.Size(job->id(), attempt.number()));
    }
  }
}

void Scheduler::EnrichAll(std::span<gq::v1::Job> jobs) {
  std::map<std::string_view, gq::v1::Job*> waiting;
  for (gq::v1::Job& job : jobs) {
    EnrichWithProgress(&job);
    for (const gq::v1::Step& step : job.steps()) {
      if (step.state() == gq::v1::STEP_STATE_QUEUED) waiting[job.id()] = &job;
    }
  }
  if (waiting.empty()) return;
  const auto steps = ledger_.ListQueuedSteps();
  const auto usage = ledger_.ListUsage(clock_.Now() - times_.fair_share_window);
  const auto boards = ledger_.ListBoards(times_.online_within);
  const auto agents = ledger_.ListAgents();
  const auto leases = ledger_.ListLeases("");
  if (!steps.ok() || !usage.ok() || !boards.ok() || !agents.ok() || !leases.ok()) return;
  WorkerCount workers;
  for (const Agent& agent : *agents) {
    if (!agent.connected || agent.last_seen + times_.online_within < clock_.Now()) continue;
    const auto& can = agent.capabilities;
    if (std::find(can.begin(), can.end(), "cpu") == can.end()) continue;
    ++workers.connected;
    workers.busy += std::any_of(leases->begin(), leases->end(),
                                [&](const LeaseRecord& lease) { return lease.agent == agent.id; });
  }
  const auto order = ServingOrder(*steps, *usage, *boards);
  for (const QueuedStep& step : *steps) {
    const auto job = waiting.find(step.job_id);
    if (job == waiting.end()) continue;
    job->second->set_waiting_reason(WhyWaiting(step, order, *boards, workers));
  }
}

bool Scheduler::Progress(std::string_view job_id, int* step_index, gq::v1::StepProgress* progress) {
  absl::MutexLock lock(&mutex_);
  const auto entry = progress_.find(job_id);
  if (entry == progress_.end()) return false;
  *step_index = entry->second.step_index;
  *progress = entry->second.progress;
  return true;
}

absl::StatusOr<std::vector<BoardRecord>> Scheduler::Boards() {
  GQ_ASSIGN_OR_RETURN(std::vector<BoardRecord> boards, ledger_.ListBoards(times_.online_within));
  for (BoardRecord& board : boards) board.board.set_state(StateOf(board));
  return boards;
}

absl::StatusOr<std::vector<gq::v1::Capability>> Scheduler::Capabilities() {
  GQ_ASSIGN_OR_RETURN(const std::vector<BoardRecord> boards, Boards());
  std::map<std::pair<std::string, std::string>, gq::v1::Capability> table;
  for (const BoardRecord& record : boards) {
    const gq::v1::Board& board = record.board;
    gq::v1::Capability& entry = table[{board.device(), board.backend()}];
    entry.set_device(board.device());
    entry.set_backend(board.backend());
    for (const std::string& scheme : board.schemes()) {
      if (std::find(entry.schemes().begin(), entry.schemes().end(), scheme) ==
          entry.schemes().end()) {
        entry.add_schemes(scheme);
      }
    }
    entry.set_boards_total(entry.boards_total() + 1);
    StepNeed any;
    any.kind = NeedKind::kCompile;
    if (board.state() == gq::v1::BOARD_STATE_IDLE && CanTakeNow(record, any, "")) {
      entry.set_boards_free(entry.boards_free() + 1);
    }
  }
  std::vector<gq::v1::Capability> capabilities;
  for (auto& [key, entry] : table) capabilities.push_back(std::move(entry));
  return capabilities;
}

}  // namespace gq::server
