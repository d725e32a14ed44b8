#include "server/worker/serve.h"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/file.h"
#include "common/base/host.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/agent_session.h"
#include "common/rpc/channel.h"
#include "common/rpc/child_step_runner.h"
#include "common/rpc/session_program.h"

namespace gq::worker {
namespace {

namespace fs = std::filesystem;
using base::StrCat;

constexpr double kGib = 1024.0 * 1024 * 1024;

int64_t AddressSpaceLimit(const ServeOptions& options) {
  if (options.memory_gib > 0) return static_cast<int64_t>(options.memory_gib * kGib);
  struct sysinfo info = {};
  if (sysinfo(&info) != 0) return 0;
  // Mapped model files and allocator reserves count as address space too, memory or not.
  const double memory = static_cast<double>(info.totalram) * info.mem_unit;
  return static_cast<int64_t>(memory * 0.75 + 8 * kGib);
}

}  // namespace

absl::Status Serve(const ServeOptions& given) {
  ServeOptions options = given;
  if (options.name.empty()) options.name = StrCat(base::HostName(), "-", getpid());
  rpc::BlockEndSignals();

  rpc::ChannelOptions channel_options;
  channel_options.address = options.server;
  channel_options.token_file = options.token_file;
  channel_options.ca_file = options.ca_file;
  channel_options.use = rpc::ChannelUse::kAgent;
  GQ_ASSIGN_OR_RETURN(std::shared_ptr<rpc::Channel> channel, rpc::Channel::Create(channel_options));

  rpc::ChildStepRunnerOptions runner_options;
  GQ_ASSIGN_OR_RETURN(const fs::path program, base::OwnProgram());
  runner_options.command = {program.string()};
  runner_options.limits.address_space_bytes = AddressSpaceLimit(options);
  runner_options.limits.cpu_seconds = options.cpu_seconds;
  runner_options.limits.file_bytes = static_cast<int64_t>(options.file_gib * kGib);
  runner_options.limits.no_network = !options.network;
  if (!options.onnxruntime.empty()) {
    std::error_code error;
    runner_options.environment["GQ_ONNXRUNTIME"] =
        fs::absolute(options.onnxruntime, error).string();
  }
  // --engine quark (quark_engine.h).
  runner_options.inherit.push_back("GQ_QUARK_PYTHON");
  runner_options.inherit.push_back("GQ_QUARK_ACTIVATION_SCRIPTS");
  rpc::ChildStepRunner runner(std::move(runner_options));

  rpc::ErrorStreamReporter reporter;
  rpc::AgentSessionOptions session_options;
  session_options.agent_id = options.name;
  session_options.version = GQ_VERSION;
  session_options.host = base::HostName();
  session_options.capabilities = {"cpu"};
  session_options.slots = options.slots;
  session_options.state_dir = options.state_dir.empty()
                                  ? rpc::SessionStateFolder(options.server, "workers", options.name)
                                  : fs::path(options.state_dir);
  session_options.reporter = &reporter;
  GQ_RETURN_IF_ERROR(base::MakeFolder(session_options.state_dir));
  rpc::AgentSession session(std::move(session_options), std::move(channel), &runner);
  const rpc::SignalWatch watch(session, reporter);
  return session.Run();
}

}  // namespace gq::worker
