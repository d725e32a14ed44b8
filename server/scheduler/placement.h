// Which step goes where, and why a step waits: rules on facts, without side effects.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "server/ledger/records.h"

namespace gq::server {

// A registered device serves a wish for itself or for its family: `ve2-sim` serves `ve2-sim` and
// `ve2`. An empty wish is served by all.
bool DeviceServes(std::string_view registered, std::string_view wanted);

// Whether the board could ever do this work, whatever it is doing now: device, scheme, tags, name,
// and the capability of its agent.
bool CouldRun(const BoardRecord& board, const StepNeed& need);

// Online, healthy enough, not draining; for exclusive work also free and not reserved by another.
bool CanTakeNow(const BoardRecord& board, const StepNeed& need, std::string_view principal);

// Whether a board that could run this is there, busy or not: online, and neither bad nor looping.
bool AnyBoardInSight(std::span<const BoardRecord> boards, const StepNeed& need);

gq::v1::BoardState StateOf(const BoardRecord& board);

// Steps in the order in which they are served: owners of a reservation on one of the boards first,
// then priority, then the principal with the least running and recent work, then age.
std::vector<const QueuedStep*> ServingOrder(std::span<const QueuedStep> steps,
                                            std::span<const Usage> usage,
                                            std::span<const BoardRecord> boards);

struct WorkerCount {
  int connected = 0;  // workers with capability `cpu`
  int busy = 0;
};

// Why the step waits, in words, with its position in the order above among those that compete with
// it: `2 of 3 boards with device ve2-xc2ve3858 are reserved until 18:00 UTC by team-a, 1 is
// offline; position 3`.
std::string WhyWaiting(const QueuedStep& step, std::span<const QueuedStep* const> order,
                       std::span<const BoardRecord> boards, const WorkerCount& workers);

// What exists, for the message to somebody whose job nothing could run: `ve2-sim (vint8, bf16)`.
std::string DescribeBoards(std::span<const BoardRecord> boards);

}  // namespace gq::server
