#include "common/base/status.h"
#include "common/quantize/clip_to_relu.h"
#include "common/quantize/dpu_simulation.h"
#include "common/quantize/fused_pairs.h"
#include "common/quantize/npu_alignment.h"
#include "common/quantize/pass.h"

namespace gq::quantize {

std::span<const QuantizePass* const> QuantizePasses() {
  static const RemoveFusedPairs kFusedPairs;
  static const SimulateDpu kSimulateDpu;
  static const AlignForNpu kAlignForNpu;
  static const RequantizeMoved kRequantizeMoved;
  static const ConvertClipToRelu kClipToRelu;
  static const QuantizePass* const kPasses[] = {
      &kFusedPairs, &kSimulateDpu, &kAlignForNpu, &kRequantizeMoved, &kClipToRelu,
  };
  return kPasses;
}

absl::Status RunPasses(QuantizeContext& context) {
  for (const QuantizePass* pass : QuantizePasses()) {
    if (!pass->IsOn(context.settings)) continue;
    GQ_ASSIGN_OR_RETURN(const int changed, pass->Run(context));
    context.passes.push_back({.name = std::string(pass->name()), .changed = changed});
  }
  return absl::OkStatus();
}

}  // namespace gq::quantize
