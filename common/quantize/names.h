// Names that the quantizer derives from a tensor's name. They equal Quark's, since people and tools
// refer to them.
#pragma once

#include <string>
#include <string_view>

#include "common/base/text.h"

namespace gq::quantize {

inline constexpr std::string_view kQuarkDomain = "com.amd.quark";
inline constexpr std::string_view kMicrosoftDomain = "com.microsoft";
inline constexpr std::string_view kExtendedQuantize = "ExtendedQuantizeLinear";
inline constexpr std::string_view kExtendedDequantize = "ExtendedDequantizeLinear";

inline std::string QuantizeNodeName(std::string_view tensor) {
  return base::StrCat(tensor, "_QuantizeLinear");
}
inline std::string DequantizeNodeName(std::string_view tensor) {
  return base::StrCat(tensor, "_DequantizeLinear");
}
inline std::string QuantizeOutputName(std::string_view tensor) {
  return base::StrCat(tensor, "_QuantizeLinear_Output");
}
inline std::string DequantizeOutputName(std::string_view tensor) {
  return base::StrCat(tensor, "_DequantizeLinear_Output");
}
// The float form of a tensor whose own name is that of a graph output.
inline std::string QuantizeInputName(std::string_view tensor) {
  return base::StrCat(tensor, "_QuantizeLinear_Input");
}
inline std::string ScaleName(std::string_view tensor) { return base::StrCat(tensor, "_scale"); }
inline std::string ZeroPointName(std::string_view tensor) {
  return base::StrCat(tensor, "_zero_point");
}
inline std::string QuantizedName(std::string_view tensor) {
  return base::StrCat(tensor, "_quantized");
}

}  // namespace gq::quantize
