// Makes a model with operators of com.amd.quark or com.microsoft loadable for the vendor's compiler
// (VE2 workflow, section k). Without it the compile stops with `com.amd.quark:
// ExtendedDequantizeLinear(-1) is not a registered function/op`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/model.h"

namespace gq::compile {

struct VaipPatch {
  int retagged = 0;     // Q/DQ nodes of com.microsoft that went to the default domain
  int zero_points = 0;  // float32 zero points of extended Q/DQ that became bfloat16 or float16
  int attributed = 0;   // nodes of com.amd.quark that got `shape` and `data_type`
  std::vector<std::string> warnings;

  bool changed() const { return retagged + zero_points + attributed > 0; }
  // `2 Q/DQ nodes in the default domain, ...`, for log and report.
  std::string Describe() const;
};

// Whether the model imports one of the two domains.
bool NeedsVaipPatch(const graph::Model& model);

// In this order: com.microsoft Q/DQ of two or three inputs go to the default domain, where its
// version knows their types; extended Q/DQ get zero points of the type they stand for (bfloat16
// truncated, or float16 with `fp16`); shapes are inferred, those behind operators of com.amd.quark
// too (the shape of input 0; the type of the scale behind a dequantize, else of the zero point);
// nodes of com.amd.quark get the attributes `shape` and `data_type` where they have none. A model
// that needs nothing is left as it is. Fails as Model::Data does.
absl::StatusOr<VaipPatch> PatchForVaip(bool fp16, graph::Model& model);

}  // namespace gq::compile
