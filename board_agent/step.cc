#include "board_agent/step.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "board_agent/agent_config.h"
#include "board_agent/board_step.h"
#include "board_agent/compile_step.h"
#include "board_agent/serve.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/step_program.h"

namespace gq::agent {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

// The board of the lease; without one, the first that serves the wanted device.
absl::StatusOr<BoardSpec> BoardOf(const gq::v1::Lease& lease) {
  const char* json = std::getenv(kBoardsVariable);
  if (json == nullptr) {
    return MakeError(Reason::kInternal, StrCat(kBoardsVariable, " is not set"),
                     "Steps are started by gq-agent serve.");
  }
  GQ_ASSIGN_OR_RETURN(const std::vector<BoardSpec> boards, BoardsFromJson(json));
  const std::string& device = lease.spec().device();
  for (const BoardSpec& board : boards) {
    const bool serves =
        device.empty() || board.device == device || board.device.starts_with(device + "-");
    if (lease.board().empty() ? serves : board.name == lease.board()) return board;
  }
  return MakeError(Reason::kBoardFailed, StrCat("this agent has no board for the step: board '",
                                                lease.board(), "', device '", device, "'"));
}

absl::StatusOr<gq::v1::StepResult> DoStep(rpc::StepContext& context) {
  GQ_ASSIGN_OR_RETURN(const BoardSpec board, BoardOf(context.lease));
  GQ_ASSIGN_OR_RETURN(const Backend* backend, FindBackend(board.backend));
  if (context.lease.kind() == gq::v1::STEP_KIND_COMPILE) {
    return RunCompileStep(context, board, *backend);
  }
  if (context.lease.kind() == gq::v1::STEP_KIND_BOARD_RUN) {
    return RunBoardStep(context, board, *backend);
  }
  return MakeError(Reason::kNotAvailable, StrCat("the agent cannot do steps of kind ",
                                                 gq::v1::StepKind_Name(context.lease.kind())));
}

}  // namespace

int RunStep(const std::filesystem::path& work_dir) { return rpc::RunStepProgram(work_dir, DoStep); }

}  // namespace gq::agent
