#include "board_agent/step_options.h"

#include <cctype>
#include <filesystem>
#include <string>

#include "common/base/status.h"
#include "common/compile/device.h"

namespace gq::agent {

std::string CompileKey(const gq::v1::JobSpec& spec) {
  constexpr size_t kLongest = 100;
  std::string key = std::filesystem::path(spec.model().file().name()).stem().string();
  for (char& c : key) {
    const bool safe = std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
    if (!safe) c = '_';
  }
  return key.empty() ? "model" : key.substr(0, kLongest);
}

compile::FloatForm FloatFormOf(const gq::v1::JobSpec& spec) {
  const bool fp16 = spec.scheme() == "fp16" || spec.scheme() == "vint8+fp16" ||
                    spec.config_name().starts_with("full_fp16") || spec.fp_precision() == "fp16";
  return fp16 ? compile::FloatForm::kFp16 : compile::FloatForm::kBf16;
}

absl::StatusOr<compile::CompilerOptions> OptionsFor(const gq::v1::JobSpec& spec,
                                                    const BoardSpec& board,
                                                    const compile::Classification& classification) {
  const bool names_device = compile::FindDevice(spec.device()) && spec.device() != "ve2";
  compile::CompilerOptions options =
      compile::DefaultOptions(classification, names_device ? spec.device() : board.device);
  for (const std::string& text : spec.compiler_option()) {
    GQ_RETURN_IF_ERROR(compile::ApplyOption(text, spec.consent(), options));
  }
  GQ_RETURN_IF_ERROR(compile::CheckOptions(options));
  return options;
}

}  // namespace gq::agent
