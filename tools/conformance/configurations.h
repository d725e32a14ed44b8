// The configurations of the golden vectors by name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/quantize/config.h"

namespace gq::conformance {

// What a configuration takes from its case.
struct CaseTargets {
  std::vector<std::string> exclude;
  std::vector<std::string> mixed_pattern;
};

// CONFIG_INVALID for a name that the table does not have. Compatibility is kQuark.
absl::StatusOr<quantize::QuantizeConfig> ConfigurationNamed(std::string_view name,
                                                            const CaseTargets& targets);

// How closely float results must agree.
enum class Closeness {
  kInteger,   // outputs within one step on 1 % of the elements
  kBFloat16,  // outputs within one bfloat16 step on 1 % of the elements
};
Closeness ClosenessOf(std::string_view configuration);

}  // namespace gq::conformance
