#include "client/cli/cli.h"

#include <algorithm>

#include "client/cli/command.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/job/command_line.h"

namespace gq::cli {
namespace {

int ExitCodeOfError(const absl::Status& status) {
  return base::GetReasonInfo(base::GetReason(status)).exit_code;
}

}  // namespace

absl::StatusOr<std::shared_ptr<ServiceClient>> Session::Connect(std::string_view flag) {
  GQ_ASSIGN_OR_RETURN(const ServerChoice choice, ChooseServer(flag, environment));
  GQ_ASSIGN_OR_RETURN(std::shared_ptr<rpc::Channel> channel, rpc::Channel::Create(choice.channel));
  return std::make_shared<ServiceClient>(std::move(channel));
}

absl::StatusOr<std::shared_ptr<ServiceClient>> Connect(Session& session, const ClientFlags& flags) {
  session.console.Configure(flags.show);
  return session.Connect(flags.server);
}

CLI::App* CommandSet::Add(CLI::App& parent, const std::string& name, const std::string& description,
                          const std::string& examples, Body body) {
  CLI::App* command = parent.add_subcommand(name, description);
  if (!examples.empty()) {
    std::string footer = "\nExamples:\n";
    for (std::string_view line : base::StrSplit(examples, '\n')) {
      base::StrAppend(&footer, "  ", line, "\n");
    }
    footer.pop_back();
    command->footer(footer);
  }
  bodies_[command] = std::move(body);
  return command;
}

CLI::App* CommandSet::AddGroup(CLI::App& parent, const std::string& name,
                               const std::string& description) {
  CLI::App* group = parent.add_subcommand(name, description);
  group->require_subcommand(1);
  return group;
}

std::shared_ptr<ClientFlags> CommandSet::AddClientFlags(CLI::App& command) {
  auto flags = std::make_shared<ClientFlags>();
  command
      .add_option("--server", flags->server,
                  "Server: HOST:PORT or unix:PATH. [GQ_SERVER, the context, or the local socket]")
      ->type_name("ADDRESS")
      ->group("Client");
  command.add_flag("--json", flags->show.json, "JSON instead of text, one object a line.")
      ->group("Client");
  command.add_flag("--no-color", flags->show.no_color, "No colours on a terminal.")
      ->group("Client");
  command.add_flag("--utc", flags->show.utc, "Show times in UTC instead of local time.")
      ->group("Client");
  return flags;
}

const CommandSet::Body* CommandSet::Chosen() const {
  for (const auto& [command, body] : bodies_) {
    if (command->parsed()) return &body;
  }
  return nullptr;
}

int RunCli(std::vector<std::string> arguments) {
  Session session;
  session.environment = Environment::OfProcess();
  // Errors of the command line itself are shown before its flags are known.
  session.console.Configure(
      {.json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end()});

  CLI::App root("gq quantizes ONNX models for shared NPU boards.", "gq");
  root.formatter(job::MakeHelpFormatter());
  root.set_version_flag("--version", GQ_VERSION, "Print the version.");
  root.require_subcommand(1);
  root.footer("\n'gq COMMAND --help' explains a command and shows examples.");
  session.root = &root;
  CommandSet commands(session);
  AddSubmitCommands(root, commands);
  AddJobCommands(root, commands);
  AddLogCommand(root, commands);
  AddReportCommands(root, commands);
  AddBoardCommands(root, commands);
  AddAgentCommands(root, commands);
  AddAdminCommands(root, commands);
  AddRunFileCommands(root, commands);
  AddDoctorCommand(root, commands);
  AddCompletionCommand(root, commands);

  if (arguments.empty()) arguments.push_back("--help");
  session.arguments = arguments;
  const auto parsed = job::ParseCommandLine(root, std::move(arguments));
  if (!parsed.ok()) {
    session.console.PrintError(parsed.status());
    return ExitCodeOfError(parsed.status());
  }
  if (parsed->outcome == job::ParseOutcome::kDone) {
    session.console.PrintAlways(parsed->text);
    return 0;
  }
  const absl::StatusOr<int> code = (*commands.Chosen())();
  if (!code.ok()) {
    session.console.PrintError(code.status());
    return ExitCodeOfError(code.status());
  }
  return *code;
}

}  // namespace gq::cli
