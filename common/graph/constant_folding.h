// Replaces what does not depend on the inputs by its value.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/reporter.h"
#include "common/graph/constant_evaluator.h"
#include "common/graph/model.h"

namespace gq::graph {

struct FoldingReport {
  int folded_nodes = 0;
  int shapes = 0;    // Shape and Size nodes of static tensors
  int branches = 0;  // If nodes with a constant condition
  int rounds = 0;
  std::vector<std::string> warnings;
};

// Alternates shape inference and folding until nothing changes: Shape and Size of static tensors,
// If with a constant condition (its branch takes its place), and every deterministic node whose
// inputs are constants. Kept as they are: quantization operators, control flow, custom operators
// that the evaluator does not know, and results that are larger than 16 MiB and larger than twice
// their inputs. Shapes are inferred afterwards.
absl::StatusOr<FoldingReport> FoldConstants(ConstantEvaluator& evaluator, base::Reporter& reporter,
                                            Model* model);

}  // namespace gq::graph
