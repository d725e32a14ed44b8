// The strategy for a transformer that nobody configured: attention and normalizations in bfloat16,
// the residual stream too where it has large peaks, feed-forward and projection layers in int8.
#pragma once

#include "absl/status/status.h"
#include "common/base/reporter.h"
#include "common/graph/model.h"
#include "common/runtime/data_set.h"
#include "server/worker/steps/strategy.h"

namespace gq::worker {

// Keeps attention MatMuls, their Softmax and LayerNormalizations in bfloat16 and sets
// strategy.judge_residuals. Changes nothing in a model without attention.
void KeepAttention(const graph::Model& model, Strategy& strategy);

// Measures the residual stream and keeps all of its Adds in bfloat16 where it has large peaks, or
// where the data is random and so says nothing. Adds what it found to strategy.sentences. Errors of
// quantize::MeasureResidualStream.
absl::Status KeepResidualStream(const graph::Model& float_model, runtime::DataSet& data,
                                bool allow_nonfinite, base::Reporter& reporter, Strategy& strategy);

}  // namespace gq::worker
