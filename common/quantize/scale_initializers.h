// Reading and changing the scale initializers of a graph that holds Q/DQ nodes.
#pragma once

#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "common/graph/model.h"

namespace gq::quantize {

// Look-up by name over a model whose initializers stay where they are meanwhile.
class InitializerMap {
 public:
  explicit InitializerMap(graph::Model& model);

  onnx::TensorProto* Find(std::string_view name) const;
  graph::Model& model() const { return model_; }

  // First element of a float initializer; 0 when there is none of that name.
  float Scale(std::string_view name) const;
  void SetScale(std::string_view name, float scale) const;

 private:
  graph::Model& model_;
  absl::flat_hash_map<std::string, onnx::TensorProto*> initializers_;
};

}  // namespace gq::quantize
