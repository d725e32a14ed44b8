#include "server/worker/steps/recovery_files.h"

#include <string>
#include <utility>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/quantize/quark_json.h"

namespace gq::worker {

namespace fs = std::filesystem;

absl::Status WriteRecoverySource(const quantize::RecoverySource& source,
                                 const graph::Model& float_model, const rpc::StepFiles& files) {
  GQ_ASSIGN_OR_RETURN(const fs::path config, files.output(kRecoveredConfigFile));
  GQ_RETURN_IF_ERROR(base::WriteFileAtomically(config, quantize::WriteQuarkJson(source.config)));
  if (source.model.Digest() == float_model.Digest()) return absl::OkStatus();
  GQ_ASSIGN_OR_RETURN(const fs::path model, files.output(kRecoveredModelFile));
  graph::SaveOptions options;
  options.layout = float_model.layout();
  return graph::SaveModel(source.model, model, options);
}

absl::StatusOr<std::optional<quantize::RecoverySource>> ReadRecoverySource(
    const graph::Model& float_model, const rpc::StepFiles& files) {
  const std::optional<fs::path> config = files.artifact(kRecoveredConfigFile);
  if (!config) return std::nullopt;
  GQ_ASSIGN_OR_RETURN(const std::string text, base::ReadFile(*config));
  GQ_ASSIGN_OR_RETURN(quantize::ParsedConfig parsed,
                      quantize::ParseQuarkJson(text, kRecoveredConfigFile));
  quantize::RecoverySource source{float_model, std::move(parsed.config)};
  if (const std::optional<fs::path> model = files.artifact(kRecoveredModelFile)) {
    graph::LoadOptions as_it_is;
    as_it_is.check = as_it_is.normalize = false;
    GQ_ASSIGN_OR_RETURN(source.model, graph::LoadModel(*model, as_it_is));
  }
  return source;
}

}  // namespace gq::worker
