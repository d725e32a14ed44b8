#include "board_agent/step_options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/compile/device.h"
#include "common/graph/model.h"
#include "common/graph/pinning.h"
#include "common/graph/shape_inference.h"

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

std::filesystem::path CompiledFolder(const rpc::StepContext& context, std::string_view name) {
  std::filesystem::path folder = context.files.work_dir() / "in/artifacts" / name;
  std::error_code error;
  if (!std::filesystem::is_directory(folder / CompileKey(context.lease.spec()), error)) return {};
  return folder;
}

nlohmann::ordered_json EarlierPart(const gq::v1::Lease& lease,
                                   std::initializer_list<const char*> keys) {
  nlohmann::ordered_json found;
  for (const std::string& text : lease.earlier_reports()) {
    auto part = nlohmann::ordered_json::parse(text, nullptr, false);
    const bool fits =
        part.is_object() &&
        std::all_of(keys.begin(), keys.end(), [&](const char* key) { return part.contains(key); });
    if (fits) found = std::move(part);
  }
  return found;
}

absl::StatusOr<std::filesystem::path> PinnedModel(const gq::v1::JobSpec& spec,
                                                  const std::filesystem::path& model,
                                                  const std::filesystem::path& folder) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const std::string& text : spec.input_shape()) {
    const size_t equals = text.find('=');
    std::vector<int64_t>& shape = shapes[text.substr(0, equals)];
    const std::string dims = equals == std::string::npos ? "" : text.substr(equals + 1);
    for (const std::string_view dim : base::StrSplit(dims, 'x')) {
      int64_t& value = shape.emplace_back(0);
      (void)std::from_chars(dim.data(), dim.data() + dim.size(), value);
      if (value < 1) {
        return base::MakeError(base::Reason::kInvalidFlag,
                               base::StrCat("--input-shape ", text, ": expected NAME=1x3x224x224"));
      }
    }
  }
  GQ_ASSIGN_OR_RETURN(graph::Model loaded, graph::LoadModel(model));
  GQ_ASSIGN_OR_RETURN(const std::vector<std::string> changed, graph::PinInputs(shapes, &loaded));
  // ONNX Runtime reads no text form.
  if (changed.empty() && model.extension() == ".onnx") return model;
  GQ_RETURN_IF_ERROR(graph::InferShapes(graph::InferenceMode::kLenient, &loaded));
  GQ_RETURN_IF_ERROR(base::MakeFolder(folder));
  std::filesystem::path pinned = folder / (CompileKey(spec) + ".onnx");
  GQ_RETURN_IF_ERROR(graph::SaveModel(loaded, pinned));
  return pinned;
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
