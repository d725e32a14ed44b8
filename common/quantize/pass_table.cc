#include "common/base/status.h"
#include "common/quantize/bf16_casts.h"
#include "common/quantize/clip_to_relu.h"
#include "common/quantize/contrib_domain.h"
#include "common/quantize/dpu_simulation.h"
#include "common/quantize/dual_pairs.h"
#include "common/quantize/extended_alignment.h"
#include "common/quantize/fused_pairs.h"
#include "common/quantize/graph_changes.h"
#include "common/quantize/int16_bias.h"
#include "common/quantize/npu_alignment.h"
#include "common/quantize/pass.h"

namespace gq::quantize {

std::span<const QuantizePass* const> QuantizePasses() {
  static const AddDualPairs kDualPairs;
  static const RemoveFusedPairs kFusedPairs;
  static const SimulateDpu kSimulateDpu;
  static const AlignForNpu kAlignForNpu;
  static const AlignExtended kAlignExtended;
  static const RequantizeMoved kRequantizeMoved;
  static const UseContribDomain kContribDomain;
  static const UseInt16Bias kInt16Bias;
  static const ConvertClipToRelu kClipToRelu;
  static const UseBFloat16Casts kBFloat16Casts;
  static const KeepRoundedWeights kRoundedWeights;
  static const ClipBeforeBFloat16 kBFloat16Clips;
  static const QuantizePass* const kPasses[] = {
      &kDualPairs,     &kFusedPairs,      &kSimulateDpu,    &kAlignForNpu,
      &kAlignExtended, &kRequantizeMoved, &kContribDomain,  &kInt16Bias,
      &kClipToRelu,    &kBFloat16Casts,   &kRoundedWeights, &kBFloat16Clips,
  };
  return kPasses;
}

absl::Status RunPasses(QuantizeContext& context) {
  for (const QuantizePass* pass : QuantizePasses()) {
    if (!pass->IsOn(context.settings)) continue;
    const GraphSnapshot before(context.model);
    GQ_ASSIGN_OR_RETURN(const int changed, pass->Run(context));
    context.passes.push_back({.name = std::string(pass->name()),
                              .summary = std::string(pass->summary()),
                              .changed = changed,
                              .details = before.ChangesTo(context.model)});
  }
  return absl::OkStatus();
}

}  // namespace gq::quantize
