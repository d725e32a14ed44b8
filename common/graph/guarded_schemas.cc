#include "common/graph/guarded_schemas.h"

#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "onnx/defs/shape_inference.h"

namespace gq::graph {
namespace {

// The library's macro throws onnx::InferenceError by an unqualified name.
using onnx::InferenceError;
using onnx::MakeString;

// Number of elements of a list attribute, -1 when it is absent; fails for an element below `least`.
int ListSize(const onnx::InferenceContext& context, const std::string& name, int64_t least) {
  const auto* attribute = context.getAttribute(name);
  if (attribute == nullptr) return -1;
  for (const int64_t element : attribute->ints()) {
    if (element < least) {
      fail_shape_inference("Attribute ", name, " has the element ", element);
    }
  }
  return attribute->ints_size();
}

// Rank of an input, -1 when it is not known.
int Rank(const onnx::InferenceContext& context, size_t input) {
  if (input >= context.getNumInputs()) return -1;
  const auto* type = context.getInputType(input);
  if (type == nullptr || !type->has_tensor_type() || !type->tensor_type().has_shape()) return -1;
  return type->tensor_type().shape().dim_size();
}

void CheckWindow(const onnx::InferenceContext& context, int weight_input) {
  const int rank = Rank(context, 0);
  if (rank >= 0 && rank < 3)
    fail_shape_inference("The input has rank ", rank, ", at least 3 is needed");
  const int weight_rank = weight_input < 0 ? -1 : Rank(context, weight_input);
  if (rank >= 0 && weight_rank >= 0 && rank != weight_rank) {
    fail_shape_inference("The input has rank ", rank, ", the weights ", weight_rank);
  }
  const auto* group = context.getAttribute("group");
  if (group != nullptr && group->i() < 1) fail_shape_inference("Attribute group is ", group->i());
  const struct {
    const char* name;
    int64_t least;
    int per_axis;
  } lists[] = {{"strides", 1, 1},
               {"dilations", 1, 1},
               {"kernel_shape", 1, 1},
               {"pads", std::numeric_limits<int64_t>::min(), 2},
               {"output_padding", 0, 1}};
  for (const auto& list : lists) {
    const int size = ListSize(context, list.name, list.least);
    if (rank >= 0 && size >= 0 && size != list.per_axis * (rank - 2)) {
      fail_shape_inference("Attribute ", list.name, " has ", size, " elements, the input rank ",
                           rank);
    }
  }
  const int output_shape = ListSize(context, "output_shape", 0);
  if (rank >= 0 && output_shape >= 0 && output_shape != rank - 2 && output_shape != rank) {
    fail_shape_inference("Attribute output_shape has ", output_shape, " elements, the input rank ",
                         rank);
  }
}

// Windowed operators and the input that holds their weights, -1 for none.
const std::map<std::string, int, std::less<>>& WindowOps() {
  static const std::map<std::string, int, std::less<>> ops = {
      {"Conv", 1},         {"ConvTranspose", 1}, {"ConvInteger", 1},
      {"DeformConv", 1},   {"QLinearConv", 3},   {"MaxPool", -1},
      {"AveragePool", -1}, {"LpPool", -1},       {"MaxUnpool", -1}};
  return ops;
}

class Registry : public onnx::ISchemaRegistry {
 public:
  // NOLINTNEXTLINE(google-default-arguments): as the interface has it.
  const onnx::OpSchema* GetSchema(const std::string& key, const int max_version,
                                  const std::string& domain = onnx::ONNX_DOMAIN) const override {
    const auto* schema = onnx::OpSchemaRegistry::Schema(key, max_version, domain);
    const auto window = WindowOps().find(key);
    if (schema == nullptr || window == WindowOps().end() || !domain.empty()) return schema;
    const std::lock_guard lock(mutex_);
    auto& guarded = guarded_[{key, schema->SinceVersion()}];
    if (guarded == nullptr) {
      guarded = std::make_unique<onnx::OpSchema>(*schema);
      guarded->TypeAndShapeInferenceFunction(
          [inference = schema->GetTypeAndShapeInferenceFunction(),
           weight = window->second](onnx::InferenceContext& context) {
            CheckWindow(context, weight);
            inference(context);
          });
    }
    return guarded.get();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::pair<std::string, int>, std::unique_ptr<onnx::OpSchema>> guarded_;
};

}  // namespace

const onnx::ISchemaRegistry& GuardedSchemas() {
  static const Registry* const registry = new Registry;
  return *registry;
}

}  // namespace gq::graph
