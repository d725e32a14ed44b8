// gq-agent: connects boards to a gq server.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "board_agent/agent_config.h"
#include "board_agent/enrolment.h"
#include "board_agent/ort_harness.h"
#include "board_agent/serve.h"
#include "board_agent/step.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace {

using gq::agent::AgentConfig;
using gq::base::StrCat;

constexpr char kExamples[] = R"(
Examples:
  gq-agent serve --server unix:/var/lib/gq/gq.sock --sim-boards
  gq-agent serve --server lab:7443 --token-file token --board bench-1 --device ve2-xc2ve3858
  gq-agent serve --config /etc/gq/agent.yaml
  gq-agent serve --enrol --server lab:7443 --name host-7 --board bench-3 <<< TOKEN
)";

// What was given by flag or environment; it wins over the file.
struct Flags {
  AgentConfig given;
  std::string config_file;
  std::vector<std::string> boards;
  std::vector<std::string> devices;
  std::vector<std::string> tags;
  std::vector<std::string> options;
  std::vector<std::string> faults;
  bool print_config = false;
  bool enrol = false;
};

void AddFlags(CLI::App& serve, Flags& flags) {
  AgentConfig& c = flags.given;
  serve.add_option("--config", flags.config_file, "YAML file with these settings [none]")
      ->envname("GQ_AGENT_CONFIG");
  serve.add_option("--server", c.server, "unix:PATH or HOST:PORT")->envname("GQ_AGENT_SERVER");
  serve.add_option("--name", c.name, "Name on the server [host name]")->envname("GQ_AGENT_NAME");
  serve.add_option("--token-file", c.token_file, "File with the bearer token [none]")
      ->envname("GQ_AGENT_TOKEN_FILE");
  serve.add_option("--ca-file", c.ca_file, "Certificate authorities (PEM) for TLS [none]")
      ->envname("GQ_AGENT_CA_FILE");
  serve.add_option("--state-dir", c.state_dir, "Folder for leases, logs and cached inputs")
      ->envname("GQ_AGENT_STATE_DIR");
  serve.add_option("--slots", c.slots, "Leases at once [number of boards]")
      ->envname("GQ_AGENT_SLOTS")
      ->check(CLI::Range(0, 64));
  serve.add_option("--health-interval", c.health_interval, "Seconds between health checks [600]")
      ->envname("GQ_AGENT_HEALTH_INTERVAL")
      ->check(CLI::PositiveNumber);
  serve.add_option("--memory", c.memory_gib, "GiB of address space of a step, 0: no limit [0]")
      ->envname("GQ_AGENT_MEMORY")
      ->check(CLI::NonNegativeNumber);
  serve
      .add_option("--backend", c.backend,
                  "Backend of the boards: command, onnxruntime, sim or vitisai [sim]")
      ->envname("GQ_AGENT_BACKEND");
  serve
      .add_flag("--sim-boards", c.sim_boards,
                "Add the boards of a fresh server; also done when no board is named")
      ->envname("GQ_AGENT_SIM_BOARDS");
  serve.add_option("--board", flags.boards, "Name of a board; may be repeated")
      ->allow_extra_args(false);
  serve.add_option("--device", flags.devices, "Device of the board before it [the board's name]")
      ->allow_extra_args(false);
  serve.add_option("--tag", flags.tags, "Tag of all boards given by flag; may be repeated")
      ->allow_extra_args(false);
  serve
      .add_option("--board-option", flags.options,
                  "KEY=VALUE for the backend of all boards given by flag (docs/boards.md)")
      ->allow_extra_args(false);
  serve.add_option("--sim-fault", flags.faults, "Misbehaviour of the simulated boards, for tests")
      ->allow_extra_args(false)
      ->group("");
  serve.add_flag("--enrol", flags.enrol,
                 "Read a token of 'gq agents enroll' from standard input and get an identity");
  serve.add_flag("--print-config", flags.print_config, "Print the settings in force and end");
  serve.footer(kExamples);
}

// File first, then what was given explicitly.
absl::StatusOr<AgentConfig> MakeConfig(const CLI::App& serve, const Flags& flags) {
  AgentConfig config;
  if (!flags.config_file.empty()) {
    GQ_RETURN_IF_ERROR(gq::agent::ReadConfigFile(flags.config_file, config));
  }
  const auto given = [&](const char* name) { return serve.get_option(name)->count() > 0; };
  if (given("--server")) config.server = flags.given.server;
  if (given("--name")) config.name = flags.given.name;
  if (given("--token-file")) config.token_file = flags.given.token_file;
  if (given("--ca-file")) config.ca_file = flags.given.ca_file;
  if (given("--state-dir")) config.state_dir = flags.given.state_dir;
  if (given("--slots")) config.slots = flags.given.slots;
  if (given("--health-interval")) config.health_interval = flags.given.health_interval;
  if (given("--memory")) config.memory_gib = flags.given.memory_gib;
  if (given("--backend")) config.backend = flags.given.backend;
  if (given("--sim-boards")) config.sim_boards = flags.given.sim_boards;
  if (flags.devices.size() > flags.boards.size()) {
    return gq::base::MakeError(gq::base::Reason::kInvalidFlag,
                               "there are more --device than --board");
  }
  for (size_t i = 0; i < flags.boards.size(); ++i) {
    gq::agent::BoardSpec board;
    board.name = flags.boards[i];
    board.device = i < flags.devices.size() ? flags.devices[i] : "";
    board.backend.clear();
    board.tags = flags.tags;
    for (const std::string& option : flags.options) {
      const size_t equals = option.find('=');
      if (equals == std::string::npos || equals == 0) {
        return gq::base::MakeError(gq::base::Reason::kInvalidFlag,
                                   StrCat("--board-option '", option, "': expected KEY=VALUE"));
      }
      board.options[option.substr(0, equals)] = option.substr(equals + 1);
    }
    config.boards.push_back(std::move(board));
  }
  GQ_RETURN_IF_ERROR(gq::agent::CompleteConfig(config));
  if (!flags.faults.empty()) {
    for (gq::agent::BoardSpec& board : config.boards) board.fault = flags.faults.front();
  }
  return config;
}

int Fail(const absl::Status& status) {
  const gq::base::Reason reason = gq::base::GetReason(status);
  std::cerr << "error: " << gq::base::FromAbsl(status.message()) << " ("
            << gq::base::ReasonName(reason) << ")\n";
  if (const std::string hint = gq::base::GetHint(status); !hint.empty()) {
    std::cerr << "hint: " << hint << "\n";
  }
  return gq::base::GetReasonInfo(reason).exit_code;
}

int ServeCommand(const CLI::App& serve, const Flags& flags) {
  absl::StatusOr<AgentConfig> config = MakeConfig(serve, flags);
  if (!config.ok()) return Fail(config.status());
  if (flags.print_config) {
    std::cout << gq::agent::FormatConfig(*config);
    return 0;
  }
  if (flags.enrol) {
    std::string token;
    std::getline(std::cin, token);
    const absl::Status enrolled =
        gq::agent::Enrol(*config, std::string(gq::base::StripSpace(token)));
    if (!enrolled.ok()) return Fail(enrolled);
  }
  // An enrolled agent speaks with its own token.
  const std::filesystem::path identity = gq::agent::IdentityFile(*config);
  std::error_code ignored;
  if (config->token_file.empty() && std::filesystem::exists(identity, ignored)) {
    config->token_file = identity.string();
  }
  const absl::Status status = gq::agent::Serve(*config);
  return status.ok() ? 0 : Fail(status);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Connects boards to a gq server: compiles models and checks the boards.",
               "gq-agent");
  app.set_version_flag("--version", GQ_VERSION);
  app.require_subcommand(1);
  Flags flags;
  CLI::App* serve = app.add_subcommand("serve", "Serve the boards of this host");
  AddFlags(*serve, flags);
  std::string request;
  CLI::App* harness = app.add_subcommand(
      "harness", "Answer a request of docs/harness.md with ONNX Runtime (started by serve)");
  harness->add_option("REQUEST", request, "File with the request")->required();
  std::string work_dir;
  CLI::App* step = app.add_subcommand("step", "Do one step (started by serve)");
  step->add_option("WORKDIR", work_dir, "Folder of the step")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  if (*step) return gq::agent::RunStep(work_dir);
  if (*harness) return gq::agent::RunHarness(request);
  return ServeCommand(*serve, flags);
}
