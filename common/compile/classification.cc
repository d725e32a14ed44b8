#include "common/compile/classification.h"

#include "common/base/text.h"

namespace gq::compile {
namespace {

constexpr size_t kMostIslandsOfTwoIsland = 3;

// "com.amd.quark.MXQuantizeDequantize" and the like.
bool IsMx(std::string_view op) {
  return op.starts_with("com.amd.quark.MX") || op.starts_with("com.amd.quark.BFP");
}

}  // namespace

std::string_view ModelClassName(ModelClass model_class) {
  switch (model_class) {
    case ModelClass::kPureVint8:
      return "PURE_VINT8";
    case ModelClass::kTwoIsland:
      return "TWO_ISLAND";
    case ModelClass::kMultiIsland:
      return "MULTI_ISLAND";
    case ModelClass::kPureFloat:
      return "PURE_FLOAT";
    case ModelClass::kSpecialized:
      return "SPECIALIZED";
  }
  return "";
}

Classification Classify(const graph::Analysis& analysis, FloatForm float_form) {
  Classification result;
  result.float_form = float_form;
  const size_t islands = analysis.float_islands.size();
  result.float_islands = static_cast<int>(islands);
  auto& reasons = result.reasons;
  switch (analysis.state) {
    case graph::ModelState::kSpecialized:
      result.model_class = ModelClass::kSpecialized;
      for (const auto& [op, count] : analysis.operators) {
        if (!op.starts_with("com.amd.quark.") || op.find("Quantize") == std::string::npos) continue;
        result.has_mx |= IsMx(op);
        reasons.push_back(base::StrCat(count, " operators ", op));
      }
      break;
    case graph::ModelState::kQdq:
      reasons.push_back(base::StrCat(analysis.quantized_compute_layers, " of ",
                                     analysis.compute_layers, " compute layers are quantized"));
      if (islands == 0) {
        result.model_class = ModelClass::kPureVint8;
        break;
      }
      result.model_class =
          islands <= kMostIslandsOfTwoIsland ? ModelClass::kTwoIsland : ModelClass::kMultiIsland;
      reasons.push_back(base::StrCat(islands, islands == 1 ? " float island" : " float islands"));
      break;
    case graph::ModelState::kQOperator:
      reasons.push_back("quantized operators without QuantizeLinear and DequantizeLinear");
      break;
    case graph::ModelState::kFloat:
      reasons.push_back("no QuantizeLinear or DequantizeLinear");
      break;
  }
  if (float_form == FloatForm::kFp16) reasons.push_back("float layers run as FP16, as asked");
  return result;
}

}  // namespace gq::compile
