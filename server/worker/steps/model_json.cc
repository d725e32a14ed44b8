#include "server/worker/steps/model_json.h"

#include <unistd.h>

#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/passes.h"
#include "common/runtime/ort_library.h"

namespace gq::worker {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json TensorsJson(const std::vector<graph::TensorInfo>& tensors) {
  json list = json::array();
  for (const graph::TensorInfo& tensor : tensors) {
    json shape = json::array();
    for (const int64_t dim : tensor.shape) shape.push_back(dim < 0 ? json("?") : json(dim));
    list.push_back({{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", std::move(shape)}});
  }
  return list;
}

absl::StatusOr<std::string> FileSha256(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  base::Sha256 hash;
  std::vector<char> block(1 << 20);
  while (file) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    hash.Update({block.data(), static_cast<size_t>(file.gcount())});
  }
  if (!file.eof()) {
    return base::MakeError(base::Reason::kFileUnreadable,
                           base::StrCat(path.string(), ": cannot be read"));
  }
  return hash.Finish();
}

}  // namespace

json AnalysisJson(const graph::Analysis& analysis, const graph::Model& model) {
  json j = {{"state", graph::ModelStateName(analysis.state)},
            {"nodes", analysis.nodes},
            {"operators", analysis.operators},
            {"inputs", TensorsJson(analysis.inputs)},
            {"outputs", TensorsJson(analysis.outputs)},
            {"task", graph::TaskTypeName(analysis.task)},
            {"task_reason", analysis.task_reason},
            {"parameters", analysis.parameters},
            {"parameter_bytes", analysis.parameter_bytes},
            {"macs", analysis.macs},
            {"compute_layers", analysis.compute_layers},
            {"opset", model.Opset()},
            {"ir_version", model.proto().ir_version()}};
  if (analysis.state != graph::ModelState::kFloat) {
    j["quantized_compute_layers"] = analysis.quantized_compute_layers;
    j["float_islands"] = analysis.float_islands;
  }
  return j;
}

int64_t FileBytes(const fs::path& path, const graph::Model& model) {
  std::error_code error;
  int64_t bytes = static_cast<int64_t>(fs::file_size(path, error));
  if (error) return 0;
  if (!model.external_file().empty()) {
    const auto more = fs::file_size(path.parent_path() / model.external_file(), error);
    if (!error) bytes += static_cast<int64_t>(more);
  }
  return bytes;
}

absl::StatusOr<json> ModelFileJson(const fs::path& path, const graph::Model& model) {
  GQ_ASSIGN_OR_RETURN(const std::string digest, FileSha256(path));
  return json{{"file", path.filename().string()},
              {"bytes", FileBytes(path, model)},
              {"sha256", digest},
              {"opset", model.Opset()},
              {"ir_version", model.proto().ir_version()}};
}

json PassesJson(const std::vector<graph::PassReport>& passes) {
  json list = json::array();
  for (const graph::PassReport& pass : passes) {
    json entry = {{"name", pass.name},
                  {"changed", pass.changed},
                  {"detail", base::StrJoin(pass.details, "; ")}};
    for (const graph::PassEntry& known : graph::OptimizationPasses()) {
      if (known.pass->name() == pass.name) entry["summary"] = known.pass->summary();
    }
    list.push_back(std::move(entry));
  }
  return list;
}

json IdentityJson(const gq::v1::JobSpec& spec) {
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  json identity = {{"gq_version", GQ_VERSION},
                   {"engine", "native"},
                   {"seed", spec.has_seed() ? spec.seed() : 42},
                   {"host", host}};
  if (const auto library = runtime::OrtLibrary::Get(); library.ok()) {
    identity["onnxruntime_version"] = (*library)->version();
  }
  return identity;
}

}  // namespace gq::worker
