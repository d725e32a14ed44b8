#include "common/graph/guarded_schemas.h"

#include <algorithm>
#include <cctype>
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

// Indices of one operand of an Einsum or of its result.
struct EinsumTerm {
  std::string letters;
  bool ellipsis = false;
};

EinsumTerm ReadTerm(std::string_view text) {
  EinsumTerm term;
  while (!text.empty()) {
    if (text.starts_with("...") && !term.ellipsis) {
      term.ellipsis = true;
      text.remove_prefix(3);
    } else if (std::isalpha(static_cast<unsigned char>(text[0])) != 0) {
      term.letters += text[0];
      text.remove_prefix(1);
    } else {
      fail_shape_inference("The equation has a part that is neither a letter nor an ellipsis");
    }
  }
  return term;
}

// The library takes an equation that does not fit its operands at its word.
void CheckEinsum(const onnx::InferenceContext& context) {
  const auto* attribute = context.getAttribute("equation");
  if (attribute == nullptr) return;
  std::string equation = attribute->s();
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  std::string_view operands = std::string_view(equation).substr(0, arrow);
  std::string known;
  bool ellipsis = false;
  for (size_t input = 0; input < context.getNumInputs(); ++input) {
    if (operands.data() == nullptr) fail_shape_inference("The equation has too few operands");
    const size_t comma = operands.find(',');
    const EinsumTerm term = ReadTerm(operands.substr(0, comma));
    operands = comma == std::string_view::npos ? std::string_view() : operands.substr(comma + 1);
    const int rank = Rank(context, input);
    const int letters = static_cast<int>(term.letters.size());
    if (rank >= 0 && (letters > rank || (letters < rank && !term.ellipsis))) {
      fail_shape_inference("The equation has ", letters, " indices for an input of rank ", rank);
    }
    known += term.letters;
    ellipsis |= term.ellipsis;
  }
  if (operands.data() != nullptr) fail_shape_inference("The equation has too many operands");
  if (arrow == std::string::npos) return;
  const EinsumTerm result = ReadTerm(std::string_view(equation).substr(arrow + 2));
  if (result.ellipsis && !ellipsis) fail_shape_inference("Only the result has an ellipsis");
  for (size_t i = 0; i < result.letters.size(); ++i) {
    if (known.find(result.letters[i]) == std::string::npos ||
        result.letters.find(result.letters[i]) != i) {
      fail_shape_inference("The index ", result.letters[i],
                           " of the result is in no operand, or twice in the result");
    }
  }
}

void Check(const onnx::InferenceContext& context, const onnx::OpSchema& schema) {
  CheckKinds(context, schema);
  CheckCounts(context);
  CheckAxis(context, schema.Name());
  if (schema.Name() == "Einsum") CheckEinsum(context);
  const auto window = WindowOps().find(schema.Name());
  if (window != WindowOps().end()) CheckWindow(context, window->second);
}

// Values of shapes have as many elements as a tensor has dimensions.
constexpr int64_t kMostShapeElements = 1024;

// False for an input of one dimension that is too long for a shape: the library makes a message for
// each of its elements.
bool MayBeShapes(const onnx::DataPropagationContext& context) {
  for (size_t i = 0; i < context.getNumInputs(); ++i) {
    const auto* type = context.getInputType(i);
    if (type == nullptr || !type->has_tensor_type()) continue;
    const auto& shape = type->tensor_type().shape();
    if (shape.dim_size() == 1 && shape.dim(0).dim_value() > kMostShapeElements) return false;
  }
  return true;
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
      if (schema->has_data_propagation_function()) {
        guarded->PartialDataPropagationFunction([propagate = schema->GetDataPropagationFunction()](
                                                    onnx::DataPropagationContext& context) {
          if (MayBeShapes(context)) propagate(context);
        });
      }
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
