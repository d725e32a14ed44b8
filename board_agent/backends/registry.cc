#include "board_agent/backends/backend.h"
#include "board_agent/backends/command_backend.h"
#include "board_agent/backends/onnxruntime_backend.h"
#include "board_agent/backends/sim/sim_backend.h"
#include "board_agent/backends/vitisai/vitisai_backend.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::agent {
namespace {

std::vector<const Backend*> AllBackends() {
  static const OnnxRuntimeBackend onnxruntime;
  static const SimBackend sim;
  static const VitisaiBackend vitisai;
  static const CommandBackend command;
  return {&command, &onnxruntime, &sim, &vitisai};
}

}  // namespace

std::vector<std::string> BackendNames() {
  std::vector<std::string> names;
  for (const Backend* backend : AllBackends()) names.emplace_back(backend->name());
  return names;
}

absl::StatusOr<const Backend*> FindBackend(std::string_view name) {
  for (const Backend* backend : AllBackends()) {
    if (backend->name() == name) return backend;
  }
  return base::MakeError(base::Reason::kInvalidFlag,
                         base::StrCat("there is no backend '", name, "'"),
                         base::StrCat("Backends: ", base::StrJoin(BackendNames(), ", "), "."));
}

}  // namespace gq::agent
