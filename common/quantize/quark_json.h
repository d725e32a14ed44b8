// Quark's JSON configuration: global_config, specific_layer_config, layer_type_config, exclude,
// extra_options; and the keys that this product adds: scheme, compatibility, dynamic,
// float_precision, recovery, include_cle, force_extended, allow_unmatched.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/quantize/config.h"

namespace gq::quantize {

struct ParsedConfig {
  QuantizeConfig config;
  std::vector<std::string> warnings;
};

// Reads a configuration; `name` stands for the file in messages. With `quark` (or the file's own
// "compatibility": "quark") what Quark lets pass is a warning, where it otherwise is an error.
// CONFIG_INVALID and PATTERN_INVALID with line, column and path
// (specific_layer_config[2].layer_config.weight.spec).
absl::StatusOr<ParsedConfig> ParseQuarkJson(std::string_view text, std::string_view name,
                                            bool quark = false);

// Writes a configuration so that ParseQuarkJson gives the same one back.
std::string WriteQuarkJson(const QuantizeConfig& config);

// SHA-256 of WriteQuarkJson, in hexadecimal.
std::string ConfigDigest(const QuantizeConfig& config);

}  // namespace gq::quantize
