#include "board_agent/serve.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "board_agent/board_pool.h"
#include "common/base/host.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/agent_session.h"
#include "common/rpc/channel.h"
#include "common/rpc/child_step_runner.h"
#include "common/rpc/session_program.h"

namespace gq::agent {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

}  // namespace

absl::Status Serve(const AgentConfig& config) {
  rpc::BlockEndSignals();
  rpc::ErrorStreamReporter reporter;
  rpc::ChannelOptions channel_options;
  channel_options.address = config.server;
  channel_options.token_file = config.token_file;
  channel_options.ca_file = config.ca_file;
  channel_options.use = rpc::ChannelUse::kAgent;
  GQ_ASSIGN_OR_RETURN(std::shared_ptr<rpc::Channel> channel, rpc::Channel::Create(channel_options));
  GQ_ASSIGN_OR_RETURN(
      const std::unique_ptr<BoardPool> pool,
      BoardPool::Create(config.boards, absl::Seconds(config.health_interval), reporter));

  rpc::ChildStepRunnerOptions runner_options;
  GQ_ASSIGN_OR_RETURN(const std::filesystem::path program, base::OwnProgram());
  runner_options.command = {program.string()};
  runner_options.environment[kBoardsVariable] = BoardsToJson(config.boards);
  runner_options.limits.no_network =
      std::none_of(config.boards.begin(), config.boards.end(), [](const BoardSpec& board) {
        const absl::StatusOr<const Backend*> backend = FindBackend(board.backend);
        return backend.ok() && (*backend)->needs_network();
      });
  runner_options.limits.address_space_bytes = static_cast<int64_t>(config.memory_gib * kGib);
  rpc::ChildStepRunner runner(std::move(runner_options));

  rpc::AgentSessionOptions options;
  options.agent_id = config.name;
  options.version = GQ_VERSION;
  options.host = base::HostName();
  options.capabilities = pool->Capabilities();
  options.slots = config.slots;
  options.state_dir = config.state_dir;
  options.reporter = &reporter;
  rpc::AgentSession session(std::move(options), std::move(channel), &runner, pool.get());
  pool->set_on_change([&session] { session.Wake(); });
  pool->Start();
  reporter.Info("Agent", base::StrCat("gq-agent ", GQ_VERSION, " ", config.name, " with ",
                                      config.boards.size(), " boards, server ", config.server));
  const rpc::SignalWatch watch(session, reporter);
  return session.Run();
}

}  // namespace gq::agent
