// Steps that wait: who could take them, and when they are given up.
#include <map>

#include "common/base/status.h"
#include "common/base/text.h"
#include "nlohmann/json.hpp"
#include "server/ledger/failure.h"
#include "server/ledger/job_rows.h"
#include "server/ledger/sqlite_ledger.h"

namespace gq::server {
namespace {

using base::Reason;
using base::StrCat;

// Ends the job of a queued step that cannot be had. False when the step is not queued.
bool GiveUp(Connection& db, absl::Time now, std::string_view job_id, int step,
            const gq::v1::Failure& failure) {
  bool board_run = false;
  {
    Query query =
        db.Prepare("SELECT kind FROM step WHERE job_id = ? AND idx = ? AND state = 'QUEUED'");
    query.Bind(job_id, step);
    if (!query.Next()) return false;
    board_run = query.Int(0) == gq::v1::STEP_KIND_BOARD_RUN;
  }
  if (board_run) {
    SkipStep(db, job_id, step, failure.message());
  } else {
    SetStepState(db, job_id, step, gq::v1::STEP_STATE_FAILED);
  }
  CancelOpenSteps(db, job_id);
  SetJobFailure(db, job_id, failure);
  SetJobState(db, now, job_id, gq::v1::JOB_STATE_FAILED);
  AppendEvent(db, now, job_id,
              {step, board_run ? gq::v1::STEP_STATE_SKIPPED : gq::v1::STEP_STATE_FAILED, 0,
               board_run ? StrCat("not run: ", failure.message()) : failure.message()});
  return true;
}

}  // namespace

absl::StatusOr<std::vector<QueuedStep>> SqliteLedger::ListQueuedSteps() {
  return Read<std::vector<QueuedStep>>(
      [](Connection& db) -> absl::StatusOr<std::vector<QueuedStep>> {
        Query query = db.Prepare(
            "SELECT job_id, idx, need, device, scheme, board, tags, principal, priority, queued_us,"
            " failures + losses, last_board, waits_for_board FROM step WHERE state = 'QUEUED' "
            "ORDER BY queued_us");
        std::vector<QueuedStep> steps;
        while (query.Next()) {
          QueuedStep& step = steps.emplace_back();
          step.job_id = query.Text(0);
          step.step_index = static_cast<int>(query.Int(1));
          const std::string need = query.Text(2);
          step.need.kind = need == "cpu"       ? NeedKind::kCpu
                           : need == "compile" ? NeedKind::kCompile
                                               : NeedKind::kExec;
          step.need.device = query.Text(3);
          step.need.scheme = query.Text(4);
          step.need.board = query.Text(5);
          if (const std::string tags = query.Text(6); tags != "[]") {
            step.need.tags = nlohmann::json::parse(tags).get<std::vector<std::string>>();
          }
          step.principal = query.Text(7);
          step.priority = static_cast<int>(query.Int(8));
          step.queued = FromMicros(query.Int(9));
          step.tries = static_cast<int>(query.Int(10));
          step.last_board = query.Text(11);
          step.waits_for_board = query.Int(12) != 0;
        }
        return steps;
      });
}

absl::StatusOr<std::vector<Usage>> SqliteLedger::ListUsage(absl::Time since) {
  return Read<std::vector<Usage>>([&](Connection& db) -> absl::StatusOr<std::vector<Usage>> {
    std::map<std::string, Usage> usage;
    {
      Query query = db.Prepare(
          "SELECT principal, COUNT(*) FROM attempt WHERE state = 'RUNNING' GROUP BY principal");
      while (query.Next()) usage[query.Text(0)].running = static_cast<int>(query.Int(1));
    }
    {
      Query query = db.Prepare(
          "SELECT principal, SUM(ended_us - started_us) FROM attempt WHERE ended_us > ?"
          " GROUP BY principal");
      query.Bind(ToMicros(since));
      while (query.Next()) {
        usage[query.Text(0)].recent_seconds = static_cast<double>(query.Int(1)) * 1e-6;
      }
    }
    std::vector<Usage> result;
    for (auto& [principal, entry] : usage) {
      entry.principal = principal;
      result.push_back(std::move(entry));
    }
    return result;
  });
}

absl::Status SqliteLedger::PlanSkip(std::string_view job_id, int step_index,
                                    std::string_view reason) {
  return writer_.Apply([&](Connection& db) {
    db.Prepare("UPDATE step SET skip_reason = ? WHERE job_id = ? AND idx = ? AND state = 'WAITING'")
        .Bind(reason, job_id, step_index)
        .Run();
    return absl::OkStatus();
  });
}

absl::StatusOr<bool> SqliteLedger::GiveUpStep(std::string_view job_id, int step_index,
                                              const gq::v1::Failure& failure) {
  return Write<bool>([&](Connection& db) -> absl::StatusOr<bool> {
    return GiveUp(db, Now(), job_id, step_index, failure);
  });
}

absl::StatusOr<std::vector<std::string>> SqliteLedger::ExpireQueuedSteps() {
  const int64_t now_us = ToMicros(Now());
  using Late = std::pair<std::string, int>;
  const auto find = [&](Connection& db) {
    Query query = db.Prepare(
        "SELECT job_id, idx FROM step WHERE state = 'QUEUED' AND queue_limit_us > 0 AND"
        " queued_us + queue_limit_us < ?");
    query.Bind(now_us);
    std::vector<Late> late;
    while (query.Next()) late.emplace_back(query.Text(0), static_cast<int>(query.Int(1)));
    return late;
  };
  absl::StatusOr<std::vector<Late>> some = Read<std::vector<Late>>(
      [&](Connection& db) -> absl::StatusOr<std::vector<Late>> { return find(db); });
  if (!some.ok()) return some.status();
  if (some->empty()) return std::vector<std::string>();
  return Write<std::vector<std::string>>(
      [&](Connection& db) -> absl::StatusOr<std::vector<std::string>> {
        const gq::v1::Failure failure = MakeFailure(
            Reason::kTimeout, "the step waited longer than its queue time-out",
            "allow more with --queue-timeout, or `gq jobs retry` when the boards are free");
        std::vector<std::string> jobs;
        for (const auto& [job_id, step] : find(db)) {
          if (GiveUp(db, FromMicros(now_us), job_id, step, failure)) jobs.push_back(job_id);
        }
        return jobs;
      });
}

}  // namespace gq::server
