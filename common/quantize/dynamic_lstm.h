// LSTM layers whose weights are int8 and whose activations get their range at run time.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/quantize/context.h"

namespace gq::quantize {

// Empty where `node`, an LSTM, can be a DynamicQuantizeLSTM of com.microsoft; else why it stays
// float.
std::string WhyLstmStaysFloat(const onnx::NodeProto& node, const QuantizeContext& context);

// The node in that form; its weights are added to the context. One scale for each row of each gate,
// or with `per_channel` false one for each direction.
absl::StatusOr<onnx::NodeProto> DynamicLstm(const onnx::NodeProto& node, bool per_channel,
                                            QuantizeContext& context);

}  // namespace gq::quantize
