#include "common/quantize/scale_initializers.h"

#include "common/base/text.h"

#include <vector>

namespace gq::quantize {

InitializerMap::InitializerMap(graph::Model& model) : model_(model) {
  for (auto& initializer : *model.mutable_graph()->mutable_initializer()) {
    initializers_.emplace(initializer.name(), &initializer);
  }
}

onnx::TensorProto* InitializerMap::Find(std::string_view name) const {
  const auto it = initializers_.find(base::ToAbsl(name));
  return it == initializers_.end() ? nullptr : it->second;
}

float InitializerMap::Scale(std::string_view name) const {
  const onnx::TensorProto* tensor = Find(name);
  if (tensor == nullptr) return 0;
  const auto data = model_.Data(*tensor);
  return data.ok() && data->size() > 0 ? static_cast<float>(data->At(0)) : 0;
}

void InitializerMap::SetScale(std::string_view name, float scale) const {
  onnx::TensorProto* tensor = Find(name);
  if (tensor == nullptr) return;
  const std::vector<int64_t> dims(tensor->dims().begin(), tensor->dims().end());
  model_.SetData(graph::TensorView::Of<float>(dims, std::vector<float>{scale}), tensor);
}

}  // namespace gq::quantize
