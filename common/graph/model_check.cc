#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/guarded_schemas.h"
#include "common/graph/model.h"
#include "onnx/checker.h"
#include "onnx/shape_inference/implementation.h"

namespace gq::graph {
namespace {

// The onnx library breaks its messages over several lines and marks nested contexts with arrows.
std::string OneLine(std::string text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == '\t') {
      if (!line.empty() && line.back() != ' ') line += ' ';
    } else {
      line += c;
    }
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

bool LacksShape(const onnx::ValueInfoProto& info) {
  return info.type().has_tensor_type() && !info.type().tensor_type().has_shape();
}

}  // namespace

absl::Status CheckModel(const Model& model) {
  for (const auto& input : model.graph().input()) {
    if (!LacksShape(input)) continue;
    return base::MakeError(
        base::Reason::kModelInvalid,
        base::StrCat("the input '", input.name(), "' of the model has no shape, not even a rank"),
        "Export the model with shapes of its inputs; dimensions may be symbols.");
  }
  onnx::ModelProto proto = model.ToProtoWithStoredAsInputs();
  // The checker demands a shape of every output, also where it depends on the data. Runtimes do
  // not.
  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> outputs;
  for (auto& output : *proto.mutable_graph()->mutable_output()) {
    if (!LacksShape(output)) outputs.Add(std::move(output));
  }
  proto.mutable_graph()->mutable_output()->Swap(&outputs);
  try {
    onnx::checker::check_model(proto, /*full_check=*/false);
    // What the full check does besides.
    const onnx::ShapeInferenceOptions strict(/*check_type=*/true, /*error_mode=*/1,
                                             /*data_prop=*/false);
    onnx::shape_inference::InferShapes(proto, &GuardedSchemas(), strict);
  } catch (const std::exception& error) {
    return base::MakeError(base::Reason::kModelInvalid,
                           base::StrCat("the ONNX checker says: ", OneLine(error.what())),
                           "Export the model again, or check it with onnx.checker.check_model.");
  }
  return absl::OkStatus();
}

}  // namespace gq::graph
