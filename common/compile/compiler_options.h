// Options of the VAIML compiler: derived from the class of the model, overridden one by one
// (reference: VE2 workflow, sections f.2 to f.5).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/compile/classification.h"

namespace gq::compile {

enum class EdgeQuant { kNone, kInput, kOutput, kBoth };

struct CompilerOptions {
  std::string device = "ve2-xc2ve3858";
  bool keep_outputs = true;  // the partition analysis reads them
  int optimize_level = 2;
  // Not written when absent: a specialized model needs neither.
  std::optional<bool> f32_to_bf16;
  std::optional<bool> f32_to_f16;
  std::string logging_level = "info";
  // Arguments of the front end, in the order in which they were asked for.
  std::vector<std::string> fe_args;
  // Written only when they differ from the tool's own default.
  int dp_size = 1;
  int tp_size = 0;  // 0: the compiler chooses
  double threshold_gops_percent = 20;
  std::string preferred_data_storage = "auto";
};

// The flags of the class. PURE_VINT8 says `false` to the conversion explicitly, because the tool's
// own default is true.
CompilerOptions DefaultOptions(const Classification& classification, std::string_view device);

// The legal keys of --compiler-option, for messages and help.
std::vector<std::string> OptionKeys();

// Applies `key=value` (or `fe_args+=value`). Fails with kInvalidFlag for an unknown key or a value
// out of range, and with kConsentRequired for a front-end argument that alters numerics or the
// runtime contract, unless `consent`.
absl::Status ApplyOption(std::string_view text, bool consent, CompilerOptions& options);

// Adds the arguments of an edge quantization; kConsentRequired without `consent`, because inputs or
// outputs change their type.
absl::Status ApplyEdgeQuant(EdgeQuant edge, bool consent, CompilerOptions& options);

// `none`, `input`, `output`, `both`; kInvalidFlag otherwise (`auto` is the caller's).
absl::StatusOr<EdgeQuant> ParseEdgeQuant(std::string_view text);

// Checks what hangs together: the device exists (kDeviceUnknown) and tp * dp * 4 columns fit it.
absl::Status CheckOptions(const CompilerOptions& options);

// The text of vitisai_config.json. The same options give the same bytes.
std::string FormatVitisaiConfig(const CompilerOptions& options);

}  // namespace gq::compile
