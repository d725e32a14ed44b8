// Names of the JSON dialect: specifications, element types, methods.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/quantize/config.h"

namespace gq::quantize {

struct SpecRow {
  std::string_view name;  // "XInt8Spec"
  TensorSpec (*make)();
};
std::span<const SpecRow> SpecTable();

// True for Quark's block formats (MX*, BFP16), which this engine does not write.
bool IsBlockSpec(std::string_view name);

// The specification whose defaults are closest to `spec` (same type and scale form).
std::string_view SpecNameOf(const TensorSpec& spec);

std::optional<CalibrationMethod> MethodFromName(std::string_view name);  // "MinMSE"
std::string_view MethodNameOf(CalibrationMethod method);
std::optional<ScaleType> ScaleTypeFromName(std::string_view name);  // "PowerOf2"
std::string_view ScaleTypeNameOf(ScaleType type);
std::optional<Granularity> GranularityFromName(std::string_view name);  // "Channel"
std::string_view GranularityNameOf(Granularity granularity);
// "Int8", "QInt8", "BFloat16", ...
std::optional<ElementType> ElementTypeFromName(std::string_view name);
std::string_view ElementTypeNameOf(ElementType type);

}  // namespace gq::quantize
