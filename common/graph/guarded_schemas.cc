#include "common/graph/guarded_schemas.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

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

// Counts that shape inference divides by.
void CheckCounts(const onnx::InferenceContext& context) {
  for (const char* name : {"group", "blocksize", "num_groups", "num_heads", "q_num_heads",
                           "kv_num_heads", "num_outputs"}) {
    const auto* attribute = context.getAttribute(name);
    if (attribute != nullptr && attribute->i() < 1) {
      fail_shape_inference("Attribute ", name, " is ", attribute->i());
    }
  }
}

// Values that are no tensors only where the operator takes such.
void CheckKinds(const onnx::InferenceContext& context, const onnx::OpSchema& schema) {
  for (size_t i = 0; i < context.getNumInputs() && !schema.inputs().empty(); ++i) {
    const auto* type = context.getInputType(i);
    if (type == nullptr || type->has_tensor_type()) continue;
    if (type->value_case() == onnx::TypeProto::VALUE_NOT_SET) continue;
    const auto& formal = schema.inputs()[std::min(i, schema.inputs().size() - 1)];
    const auto& allowed = formal.GetTypes();
    const bool tensors_only = std::all_of(allowed.begin(), allowed.end(), [](const auto& name) {
      return name->starts_with("tensor(");
    });
    if (tensors_only) fail_type_inference("Input ", i, " is no tensor");
  }
}

// An axis of the first input. Operators that add an axis count one more.
void CheckAxis(const onnx::InferenceContext& context, std::string_view op) {
  const auto* axis = context.getAttribute("axis");
  const int rank = Rank(context, 0);
  if (axis == nullptr || rank < 0 || op.find("Sequence") != std::string_view::npos) return;
  if (op == "QuantizeLinear" || op == "DequantizeLinear")
    return;  // without meaning for a scalar scale
  const int64_t least = op == "OneHot" ? -rank - 1 : -rank;
  if (axis->i() < least || axis->i() > rank) {
    fail_shape_inference("Attribute axis is ", axis->i(), ", the input has rank ", rank);
  }
}

constexpr int kNoWeights = -1;

// Windowed operators and the input that holds their weights.
const std::map<std::string, int, std::less<>>& WindowOps() {
  static const std::map<std::string, int, std::less<>> ops = {{"Conv", 1},
                                                              {"ConvTranspose", 1},
                                                              {"ConvInteger", 1},
                                                              {"DeformConv", 1},
                                                              {"QLinearConv", 3},
                                                              {"MaxPool", kNoWeights},
                                                              {"AveragePool", kNoWeights},
                                                              {"LpPool", kNoWeights},
                                                              {"MaxUnpool", kNoWeights}};
  return ops;
}

void Check(const onnx::InferenceContext& context, const onnx::OpSchema& schema) {
  CheckKinds(context, schema);
  CheckCounts(context);
  CheckAxis(context, schema.Name());
  const auto window = WindowOps().find(schema.Name());
  if (window != WindowOps().end()) CheckWindow(context, window->second);
}

class Registry : public onnx::ISchemaRegistry {
 public:
  // NOLINTNEXTLINE(google-default-arguments): as the interface has it.
  const onnx::OpSchema* GetSchema(const std::string& key, const int max_version,
                                  const std::string& domain = onnx::ONNX_DOMAIN) const override {
    const auto* schema = onnx::OpSchemaRegistry::Schema(key, max_version, domain);
    if (schema == nullptr || !schema->has_type_and_shape_inference_function()) return schema;
    const std::lock_guard lock(mutex_);
    auto& guarded = guarded_[schema];
    if (guarded == nullptr) {
      guarded = std::make_unique<onnx::OpSchema>(*schema);
      guarded->TypeAndShapeInferenceFunction(
          [schema, inference = schema->GetTypeAndShapeInferenceFunction()](
              onnx::InferenceContext& context) {
            Check(context, *schema);
            inference(context);
          });
    }
    return guarded.get();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::map<const onnx::OpSchema*, std::unique_ptr<onnx::OpSchema>> guarded_;
};

}  // namespace

const onnx::ISchemaRegistry& GuardedSchemas() {
  static const Registry* const registry = new Registry;
  return *registry;
}

}  // namespace gq::graph
