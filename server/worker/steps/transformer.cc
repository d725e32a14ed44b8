#include "server/worker/steps/transformer.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/analysis.h"
#include "common/quantize/mixed_precision.h"
#include "common/quantize/residual_stream.h"

namespace gq::worker {
namespace {

using base::StrCat;

void Promote(const std::vector<std::string>& nodes, Strategy& strategy) {
  quantize::PromoteNodes(nodes, onnx::TensorProto::BFLOAT16, quantize::MixedForm::kFloat,
                         &strategy.config);
}

}  // namespace

void KeepAttention(const graph::Model& model, Strategy& strategy) {
  std::vector<std::string> kept = graph::AttentionNodes(model.graph());
  if (kept.empty()) return;
  const size_t attention = kept.size();
  for (const onnx::NodeProto& node : model.graph().node()) {
    if (node.op_type() == "LayerNormalization") kept.push_back(node.name());
  }
  Promote(kept, strategy);
  strategy.config.scheme = "vint8+bf16";
  strategy.judge_residuals = true;
  strategy.sentences.push_back(
      StrCat("transformer: ", attention, " attention nodes and ", kept.size() - attention,
             " LayerNormalizations in BF16 (float32 in the file, converted by the compiler); "
             "feed-forward and projection layers in int8"));
}

absl::Status KeepResidualStream(const graph::Model& float_model, runtime::DataSet& data,
                                bool allow_nonfinite, base::Reporter& reporter,
                                Strategy& strategy) {
  GQ_ASSIGN_OR_RETURN(
      const quantize::ResidualStream stream,
      quantize::MeasureResidualStream(float_model, data, allow_nonfinite, reporter));
  if (stream.adds.empty()) return absl::OkStatus();
  char figures[160];
  std::snprintf(
      figures, sizeof figures,
      "its peak of %.4g is %.1f times the median of the largest magnitudes of all tensors",
      stream.peak, stream.ratio());
  const std::string adds = StrCat("residual stream (", stream.adds.size(), " Adds)");
  if (data.random()) {
    Promote(stream.adds, strategy);
    strategy.sentences.push_back(
        StrCat(adds, " in BF16: without real data its peaks are not known"));
  } else if (stream.has_large_peaks()) {
    Promote(stream.adds, strategy);
    strategy.sentences.push_back(
        StrCat(adds, " in BF16: ", figures, " (", stream.peak_tensor, ")"));
  } else {
    strategy.sentences.push_back(StrCat(adds, " in int8: ", figures));
  }
  return absl::OkStatus();
}

}  // namespace gq::worker
