#include "common/quantize/spec_names.h"

#include <algorithm>

namespace gq::quantize {
namespace {

using onnx::TensorProto;

template <typename Value>
struct NameRow {
  std::string_view name;
  Value value;
};

constexpr NameRow<CalibrationMethod> kMethods[] = {
    {"MinMax", CalibrationMethod::kMinMax},
    {"MinMSE", CalibrationMethod::kMinMse},
    {"Percentile", CalibrationMethod::kPercentile},
    {"Entropy", CalibrationMethod::kEntropy},
    {"LayerwisePercentile", CalibrationMethod::kLayerwisePercentile},
    {"Distribution", CalibrationMethod::kDistribution},
};
constexpr NameRow<ScaleType> kScaleTypes[] = {{"Float32", ScaleType::kFloat32},
                                              {"PowerOf2", ScaleType::kPowerOfTwo}};
constexpr NameRow<Granularity> kGranularities[] = {{"Tensor", Granularity::kTensor},
                                                   {"Channel", Granularity::kChannel},
                                                   {"Group", Granularity::kGroup}};
constexpr NameRow<ElementType> kTypes[] = {
    {"Int4", TensorProto::INT4},         {"Int8", TensorProto::INT8},
    {"UInt8", TensorProto::UINT8},       {"Int16", TensorProto::INT16},
    {"UInt16", TensorProto::UINT16},     {"Float16", TensorProto::FLOAT16},
    {"BFloat16", TensorProto::BFLOAT16},
};

template <typename Value, size_t N>
std::optional<Value> ValueOf(const NameRow<Value> (&rows)[N], std::string_view name) {
  // "CalibMethod.MinMax" means MinMax.
  if (const size_t dot = name.rfind('.'); dot != std::string_view::npos)
    name = name.substr(dot + 1);
  for (const auto& row : rows) {
    if (row.name == name) return row.value;
  }
  return std::nullopt;
}

template <typename Value, size_t N>
std::string_view NameOf(const NameRow<Value> (&rows)[N], Value value) {
  for (const auto& row : rows) {
    if (row.value == value) return row.name;
  }
  return "";
}

TensorSpec UInt16Spec() {
  TensorSpec spec = UInt8Spec();
  spec.type = TensorProto::UINT16;
  return spec;
}

constexpr SpecRow kSpecs[] = {
    {"XInt8Spec", XInt8Spec},     {"Int8Spec", Int8Spec},     {"UInt8Spec", UInt8Spec},
    {"Int16Spec", Int16Spec},     {"UInt16Spec", UInt16Spec}, {"BFloat16Spec", BFloat16Spec},
    {"Float16Spec", Float16Spec},
};

}  // namespace

std::span<const SpecRow> SpecTable() { return kSpecs; }

bool IsBlockSpec(std::string_view name) {
  return name.starts_with("MX") || name.starts_with("BFP");
}

std::string_view SpecNameOf(const TensorSpec& spec) {
  for (const auto& row : kSpecs) {
    const TensorSpec known = row.make();
    if (known.type == spec.type && known.scale_type == spec.scale_type) return row.name;
  }
  for (const auto& row : kSpecs) {
    if (row.make().type == spec.type) return row.name;
  }
  return "Int8Spec";
}

std::optional<CalibrationMethod> MethodFromName(std::string_view name) {
  return ValueOf(kMethods, name);
}
std::string_view MethodNameOf(CalibrationMethod method) { return NameOf(kMethods, method); }
std::optional<ScaleType> ScaleTypeFromName(std::string_view name) {
  return ValueOf(kScaleTypes, name);
}
std::string_view ScaleTypeNameOf(ScaleType type) { return NameOf(kScaleTypes, type); }
std::optional<Granularity> GranularityFromName(std::string_view name) {
  return ValueOf(kGranularities, name);
}
std::string_view GranularityNameOf(Granularity granularity) {
  return NameOf(kGranularities, granularity);
}
std::optional<ElementType> ElementTypeFromName(std::string_view name) {
  if (name.starts_with("Q")) name = name.substr(1);
  if (const size_t dot = name.rfind(".Q"); dot != std::string_view::npos) {
    name = name.substr(dot + 2);
  }
  return ValueOf(kTypes, name);
}
std::string_view ElementTypeNameOf(ElementType type) { return NameOf(kTypes, type); }

}  // namespace gq::quantize
