// What an evaluation found out about one output.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/accuracy/class_metrics.h"
#include "common/accuracy/output_metrics.h"

namespace gq::accuracy {

struct OutputReport {
  std::string name;
  std::string dtype;           // graph::DTypeName
  std::vector<int64_t> shape;  // of one run of the reference
  // Integer and bool outputs are compared for equality: pass_rate is the percentage of equal
  // elements, and no goal but the per-pixel one of a segmentation rests on them.
  bool is_float = true;
  // Step of the quantizer the output comes out of; 0 for none.
  double quantization_step = 0;
  // Samples of an output of open shape whose shapes differ, which have no part in the figures. When
  // those are all samples, is_float is false.
  int64_t samples_of_other_shape = 0;
  OutputFigures figures;
  std::optional<ClassFigures> classes;
  std::vector<ScatterPoint> scatter;

  // The pass rate decides only where the output's own step allows it (workflow.md, "Verdict").
  bool PassRateDecides() const { return figures.step_allows_pass_rate >= 99.9; }
  // The candidate holds a NaN or an infinity where the reference does not.
  bool Broken() const { return figures.mse > std::numeric_limits<double>::max(); }
};

}  // namespace gq::accuracy
