// The named schemes and presets, and which device takes which.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/quantize/config.h"

namespace gq::quantize {

struct SchemeInfo {
  std::string_view name;     // "vint8", "W8-A8", ...
  std::string_view weights;  // "int8, power-of-two scale", for help and report
  std::string_view activations;
  std::string_view choose_when;   // one sentence for help texts
  bool needs_calibration = true;  // false: no data is asked for
  std::span<const std::string_view> devices;
};

// All schemes in the order of help texts.
std::span<const SchemeInfo> AllSchemes();
const SchemeInfo* FindScheme(std::string_view name);

// Names of the schemes that `device` takes ("ve2", "stx", "xnnpack-cpu", "ethos-u55", ...), best
// first; empty for an unknown device.
std::vector<std::string_view> SchemesOf(std::string_view device);

// SCHEME_ILLEGAL with the legal names when `device` does not take `scheme` or one of them is not
// known.
absl::Status CheckScheme(std::string_view scheme, std::string_view device);

// The configuration that a scheme stands for. `form` matters for the mixed schemes only.
// CONFIG_INVALID for an unknown name.
absl::StatusOr<QuantizeConfig> ConfigOfScheme(std::string_view scheme,
                                              MixedForm form = MixedForm::kFloat);

// Named configurations for --config: full_vint8, xint8, xint8_legacy, full_bf16, ... CONFIG_INVALID
// with the known names for another.
absl::StatusOr<QuantizeConfig> ConfigOfPreset(std::string_view preset);
std::span<const std::string_view> AllPresets();

}  // namespace gq::quantize
