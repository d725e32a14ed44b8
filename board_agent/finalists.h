// Finalists of an exploration: models of its Pareto set that meet the goal. The board decides among
// them (engine.md 10).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "board_agent/board_measurement.h"
#include "common/rpc/step_program.h"

namespace gq::agent {

// Compiles and runs of real boards take minutes each.
inline constexpr size_t kMostFinalists = 4;

struct Finalist {
  int number = 0;     // of its row in the search
  int layers = 0;     // promoted compute layers
  bool best = false;  // the one that the search ended with: its files are those of the job
  std::filesystem::path model;
  std::filesystem::path config;  // Quark JSON
  // The parts `graph_quantize` of the report about it; empty for the best.
  std::filesystem::path report;

  // `candidate 12`
  std::string Name() const;
  // Where Compile leaves its files among the results: `finalists/12`.
  std::string Folder() const;
};

// The best of the search first, then by promoted layers. Empty for a job that does not run on a
// board, or without a search, and when the goal was missed or could not be judged: then there is
// nothing to choose from.
std::vector<Finalist> FinalistsOf(const rpc::StepContext& context);

// What the board decided.
struct Choice {
  Finalist winner;
  BoardModel model;
  Measured measured;
  // Part `board_run` of the report about the winner, with `finalists` and `winner`.
  nlohmann::ordered_json report;
  // Whether the winner met the goal with the outputs that the board computed.
  bool goal_met = false;
};

// Runs the finalists and judges each by what the board computed for the evaluation samples: those
// that miss the goal drop out, of the rest the one with the lowest latency wins (p50; the mean
// where the tool tells no more). When all miss it, the search's best stays. Every try is an
// iteration before the next begins. Errors: kBoardFailed (the board computes something else than
// the CPU) and those of the search's best; another finalist that cannot be run drops out.
absl::StatusOr<Choice> ChooseOnBoard(BoardMeasurement& measurement,
                                     const std::vector<Finalist>& finalists);

// The number that the next iteration of a step gets: they are counted through over the job, and
// those of earlier tries of this step count too.
int NextIteration(const rpc::StepContext& context);

}  // namespace gq::agent
