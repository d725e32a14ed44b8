#include "server/scheduler/placement.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "common/base/text.h"

namespace gq::server {
namespace {

using base::StrCat;

template <typename Range>
bool Contains(const Range& range, std::string_view text) {
  return std::any_of(range.begin(), range.end(), [&](const auto& item) { return item == text; });
}

bool HealthyEnough(const gq::v1::Board& board) {
  return board.health() == gq::v1::BOARD_HEALTH_GOOD ||
         board.health() == gq::v1::BOARD_HEALTH_UNKNOWN;
}

// Whether its probe found that nothing can run on it (`exec: no NPU on this host`).
bool LacksExec(const gq::v1::Board& board) {
  constexpr std::string_view kExec = "exec:";
  return std::any_of(board.absent().begin(), board.absent().end(), [&](const std::string& absent) {
    return std::string_view(absent).substr(0, kExec.size()) == kExec;
  });
}

// Steps compete when they need the same kind of place.
bool Compete(const StepNeed& a, const StepNeed& b) {
  return a.kind == b.kind && a.device == b.device;
}

std::string UntilText(const gq::v1::Board& board) {
  return absl::FormatTime("%H:%M UTC", absl::FromUnixSeconds(board.reserved_until().seconds()),
                          absl::UTCTimeZone());
}

// One reason for each group of boards: `2 are reserved until 18:00 UTC by team-a`.
std::string WhyNot(const BoardRecord& record, const StepNeed& need, std::string_view principal) {
  const gq::v1::Board& board = record.board;
  if (!record.online) return "offline";
  if (!HealthyEnough(board)) {
    std::string health = gq::v1::BoardHealth_Name(board.health()).substr(13);
    std::transform(health.begin(), health.end(), health.begin(), ::tolower);
    return StrCat("in health ", health);
  }
  if (record.draining) return "draining";
  if (need.kind != NeedKind::kExec) return "";
  if (!board.reserved_by().empty() && board.reserved_by() != principal) {
    return StrCat("reserved until ", UntilText(board), " by ", board.reserved_by());
  }
  if (!board.job_id().empty()) return "running another job";
  return "";
}

}  // namespace

bool DeviceServes(std::string_view registered, std::string_view wanted) {
  if (wanted.empty() || registered == wanted) return true;
  return registered.size() > wanted.size() && registered.substr(0, wanted.size()) == wanted &&
         registered[wanted.size()] == '-';
}

bool CouldRun(const BoardRecord& record, const StepNeed& need) {
  const gq::v1::Board& board = record.board;
  if (!DeviceServes(board.device(), need.device)) return false;
  if (!need.board.empty() && board.name() != need.board) return false;
  if (!need.scheme.empty() && board.schemes_size() > 0 && !Contains(board.schemes(), need.scheme)) {
    return false;
  }
  for (const std::string& tag : need.tags) {
    if (!Contains(board.tags(), tag)) return false;
  }
  if (need.kind != NeedKind::kExec) {
    return Contains(board.capabilities(), StrCat("compile:", board.backend()));
  }
  // The capability is the agent's; a board of it may lack what another has.
  return Contains(board.capabilities(), StrCat("exec:", board.device())) && !LacksExec(board);
}

bool CanTakeNow(const BoardRecord& record, const StepNeed& need, std::string_view principal) {
  return CouldRun(record, need) && WhyNot(record, need, principal).empty();
}

bool AnyBoardInSight(std::span<const BoardRecord> boards, const StepNeed& need) {
  return std::any_of(boards.begin(), boards.end(), [&](const BoardRecord& record) {
    return CouldRun(record, need) && record.online &&
           record.board.health() != gq::v1::BOARD_HEALTH_BAD &&
           record.board.health() != gq::v1::BOARD_HEALTH_LOOPING;
  });
}

gq::v1::BoardState StateOf(const BoardRecord& record) {
  if (!record.online) return gq::v1::BOARD_STATE_OFFLINE;
  if (record.draining) return gq::v1::BOARD_STATE_DRAINING;
  if (!record.board.job_id().empty()) return gq::v1::BOARD_STATE_RUNNING;
  if (!record.board.reserved_by().empty()) return gq::v1::BOARD_STATE_RESERVED;
  return gq::v1::BOARD_STATE_IDLE;
}

std::vector<const QueuedStep*> ServingOrder(std::span<const QueuedStep> steps,
                                            std::span<const Usage> usage,
                                            std::span<const BoardRecord> boards) {
  std::map<std::string_view, const Usage*> usage_of;
  for (const Usage& entry : usage) usage_of[entry.principal] = &entry;
  const auto key = [&](const QueuedStep& step) {
    const bool owner =
        step.need.kind == NeedKind::kExec &&
        std::any_of(boards.begin(), boards.end(), [&](const BoardRecord& board) {
          return board.board.reserved_by() == step.principal && CouldRun(board, step.need);
        });
    const auto found = usage_of.find(step.principal);
    const int running = found == usage_of.end() ? 0 : found->second->running;
    const double recent = found == usage_of.end() ? 0 : found->second->recent_seconds;
    return std::make_tuple(!owner, -step.priority, running, recent, step.queued);
  };
  using Entry = std::pair<decltype(key(steps.front())), const QueuedStep*>;
  std::vector<Entry> entries;
  entries.reserve(steps.size());
  for (const QueuedStep& step : steps) entries.emplace_back(key(step), &step);
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.first < b.first; });
  std::vector<const QueuedStep*> order;
  order.reserve(entries.size());
  for (const Entry& entry : entries) order.push_back(entry.second);
  return order;
}

std::string WhyWaiting(const QueuedStep& step, std::span<const QueuedStep* const> order,
                       std::span<const BoardRecord> boards, const WorkerCount& workers) {
  int position = 1;
  for (const QueuedStep* other : order) {
    if (other->job_id == step.job_id) break;
    if (Compete(other->need, step.need)) ++position;
  }
  const std::string place = StrCat("; position ", position);
  if (step.need.kind == NeedKind::kCpu) {
    if (workers.connected == 0) return StrCat("no worker is connected", place);
    if (workers.busy >= workers.connected) {
      return StrCat(workers.connected == 1 ? std::string("the worker is busy")
                                           : StrCat("all ", workers.connected, " workers are busy"),
                    place);
    }
    return StrCat("waits for a worker", place);
  }
  std::map<std::string, int> reasons;
  int fitting = 0;
  for (const BoardRecord& board : boards) {
    if (!CouldRun(board, step.need)) continue;
    ++fitting;
    const std::string reason = WhyNot(board, step.need, step.principal);
    ++reasons[reason.empty() ? "free" : reason];
  }
  const std::string device =
      step.need.device.empty() ? "" : StrCat(" with device ", step.need.device);
  if (fitting == 0) return StrCat("no board", device, " that fits is registered", place);
  std::string text;
  for (const auto& [reason, count] : reasons) {
    if (text.empty()) {
      text = StrCat(count, " of ", fitting, fitting == 1 ? " board" : " boards", device,
                    count == 1 ? " is " : " are ", reason);
    } else {
      text += StrCat(", ", count, count == 1 ? " is " : " are ", reason);
    }
  }
  return text + place;
}

std::string DescribeBoards(std::span<const BoardRecord> boards) {
  std::map<std::string, std::string> devices;
  for (const BoardRecord& board : boards) {
    std::vector<std::string> able(board.board.schemes().begin(), board.board.schemes().end());
    devices[board.board.device()] = base::StrJoin(able, ", ");
  }
  if (devices.empty()) return "no board is registered";
  std::vector<std::string> parts;
  parts.reserve(devices.size());
  for (const auto& [device, schemes] : devices) {
    parts.push_back(schemes.empty() ? device : StrCat(device, " (", schemes, ")"));
  }
  return StrCat("registered devices: ", base::StrJoin(parts, "; "));
}

}  // namespace gq::server
