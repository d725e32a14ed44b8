// What rewrites of a float model share that move factors about: constants, and the operators that a
// factor passes through.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "common/graph/graph_index.h"
#include "common/graph/model.h"

namespace gq::quantize {

class ConstantReader {
 public:
  // Both must outlive this and stay as they are.
  ConstantReader(const graph::Model& model, const graph::GraphIndex& index)
      : model_(model), index_(index) {}

  const graph::GraphIndex& index() const { return index_; }
  // A float32 initializer.
  bool IsFloat(std::string_view tensor) const;
  // The value of a float initializer with one element.
  std::optional<double> Number(std::string_view tensor) const;
  // The elements of a float initializer; empty when it is none.
  std::vector<float> Values(std::string_view tensor) const;

 private:
  const graph::Model& model_;
  const graph::GraphIndex& index_;
};

// A Conv, ConvTranspose, Gemm or MatMul whose second input is a float constant, and which does not
// scale its result itself.
bool IsLinearLayer(const onnx::NodeProto& node, const ConstantReader& constants);

// f(factor * x) = factor * f(x) for the node's first input, the others as they are.
bool PassesFactors(const onnx::NodeProto& node, double factor);

// A constant input of a node is multiplied by `factor`.
struct ConstantEdit {
  int node = 0;  // position in the graph
  int input = 0;
  double factor = 1;
};

// A constant that others read as well is copied for the node first.
void ScaleConstants(const std::vector<ConstantEdit>& edits, graph::Model* model);

// Puts `values` in place of the node's constant input (same dims), copied as above.
void ReplaceConstant(int node, int input, const std::vector<float>& values, graph::Model* model);

}  // namespace gq::quantize
