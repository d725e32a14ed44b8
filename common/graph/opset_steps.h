// What changed between operator sets: one entry for each operator and version whose nodes must be
// rewritten. Operators that are not listed kept their meaning (more types, more optional inputs).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"
#include "common/graph/tensor_view.h"
#include "onnx/onnx_pb.h"

namespace gq::graph {

// What a step may see and do while it rewrites one node of `graph`.
class OpsetRewrite {
 public:
  OpsetRewrite(const GraphIndex& shapes, NameScope* names, onnx::GraphProto* graph)
      : shapes_(shapes), names_(names), graph_(graph) {}

  // Adds a constant and returns its name.
  std::string Constant(std::string_view base, const TensorView& value);
  std::string Constant(std::string_view base, const std::vector<int64_t>& values);
  std::string Constant(std::string_view base, float value, int32_t dtype);

  // Rank of a tensor, -1 when it is not known.
  int Rank(std::string_view tensor) const;
  const GraphIndex& shapes() const { return shapes_; }
  NameScope* names() { return names_; }
  const onnx::GraphProto& graph() const { return *graph_; }

  // Nodes that have to stand before and after the node that is rewritten.
  std::vector<onnx::NodeProto> before;
  std::vector<onnx::NodeProto> after;

 private:
  const GraphIndex& shapes_;
  NameScope* names_;
  onnx::GraphProto* graph_;
};

struct OpsetStep {
  int64_t version;           // the opset that brought the change
  std::string_view op_type;  // as it is called before
  std::string_view what;     // for the report
  absl::Status (*rewrite)(onnx::NodeProto* node, OpsetRewrite* context);
};

// Ordered by version.
std::span<const OpsetStep> OpsetSteps();

}  // namespace gq::graph
