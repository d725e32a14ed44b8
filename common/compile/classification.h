// What kind of model the compiler gets, from which its options follow (reference: VE2 workflow,
// section f.1).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/graph/analysis.h"

namespace gq::compile {

enum class ModelClass {
  kPureVint8,    // quantized, and no compute layer is left in float
  kTwoIsland,    // quantized with at most three float islands
  kMultiIsland,  // quantized with more than three
  kPureFloat,    // not quantized
  kSpecialized,  // operators of com.amd.quark that quantize
};
// `PURE_VINT8`, `TWO_ISLAND`, `MULTI_ISLAND`, `PURE_FLOAT`, `SPECIALIZED`.
std::string_view ModelClassName(ModelClass model_class);

// What float layers become on the NPU.
enum class FloatForm { kBf16, kFp16 };

struct Classification {
  ModelClass model_class = ModelClass::kPureFloat;
  FloatForm float_form = FloatForm::kBf16;
  int float_islands = 0;
  // Of a specialized model: it holds MX operators.
  bool has_mx = false;
  // Why, one sentence each.
  std::vector<std::string> reasons;
};

// `float_form` is the job's choice (schemes fp16 and vint8+fp16 ask for kFp16).
Classification Classify(const graph::Analysis& analysis, FloatForm float_form = FloatForm::kBf16);

}  // namespace gq::compile
