// `gq agents ...`.
#include <memory>
#include <string>
#include <vector>

#include "client/cli/command.h"
#include "client/cli/job_text.h"
#include "client/cli/table.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/job/flags.h"

namespace gq::cli {
namespace {

using base::StrCat;
using gq::v1::AdminService;

struct AgentFlags {
  std::string name;
  std::vector<std::string> boards;
  std::vector<std::string> devices;
  std::vector<std::string> tags;
  std::string backend;
  std::string valid_for;
};

template <typename Body>
CLI::App* AddAgentCommand(CLI::App& parent, CommandSet& commands, const std::string& name,
                          const std::string& description, const std::string& examples,
                          std::shared_ptr<AgentFlags> flags, Body body) {
  auto client_flags = std::make_shared<std::shared_ptr<ClientFlags>>();
  CLI::App* command =
      commands.Add(parent, name, description, examples,
                   [&commands, client_flags, flags, body]() -> absl::StatusOr<int> {
                     Session& session = commands.session();
                     GQ_ASSIGN_OR_RETURN(const auto client, Connect(session, **client_flags));
                     return body(*client, session.console, *flags);
                   });
  *client_flags = commands.AddClientFlags(*command);
  return command;
}

// The token goes to the agent's standard input, so that it is on no command line.
std::string CommandFor(const AgentFlags& flags, const std::string& address,
                       const std::string& token) {
  std::string command = StrCat("gq-agent serve --enrol --server ", address, " --name ", flags.name);
  for (size_t i = 0; i < flags.boards.size(); ++i) {
    base::StrAppend(&command, " --board ", flags.boards[i]);
    if (i < flags.devices.size()) base::StrAppend(&command, " --device ", flags.devices[i]);
  }
  if (!flags.backend.empty()) base::StrAppend(&command, " --backend ", flags.backend);
  for (const std::string& tag : flags.tags) base::StrAppend(&command, " --tag ", tag);
  return StrCat(command, " <<< ", token);
}

absl::StatusOr<int> Enrol(ServiceClient& client, Console& console, const AgentFlags& flags) {
  gq::v1::CreateEnrolmentRequest request;
  request.set_agent(flags.name);
  if (!flags.valid_for.empty()) {
    GQ_ASSIGN_OR_RETURN(const int64_t seconds, job::ParseSeconds("valid-for", flags.valid_for));
    request.mutable_valid_for()->set_seconds(seconds);
  }
  GQ_ASSIGN_OR_RETURN(const gq::v1::CreateEnrolmentResponse response,
                      client.Call(&AdminService::Stub::CreateEnrolment, request));
  const std::string command = CommandFor(flags, client.channel().address(), response.token());
  if (console.options().json) {
    console.PrintJson({{"agent", flags.name}, {"token", response.token()}, {"command", command}});
    return 0;
  }
  console.Note(
      StrCat("Run this on the host, in bash. It works once; the agent keeps an identity "
             "of its own and starts without --enrol from then on."));
  console.Print(command + "\n");
  return 0;
}

absl::StatusOr<int> ListAgents(ServiceClient& client, Console& console, const AgentFlags&) {
  GQ_ASSIGN_OR_RETURN(const gq::v1::ListAgentsResponse response,
                      client.Call(&AdminService::Stub::ListAgents, gq::v1::ListAgentsRequest()));
  if (console.options().json) {
    for (const gq::v1::Agent& agent : response.agents()) console.PrintJson(ToJson(agent));
    return 0;
  }
  Table table({"NAME", "HOST", "STATE", "IDENTITY", "BOARDS", "VERSION"});
  for (const gq::v1::Agent& agent : response.agents()) {
    table.Add({agent.name(), agent.host(), agent.online() ? "online" : "offline",
               agent.local() ? "local" : agent.identity(),
               base::StrJoin(std::vector<std::string>(agent.boards().begin(), agent.boards().end()),
                             ", "),
               agent.version()});
  }
  console.Print(table.Render());
  return 0;
}

absl::StatusOr<int> Revoke(ServiceClient& client, Console& console, const AgentFlags& flags) {
  gq::v1::RevokeAgentRequest request;
  request.set_agent(flags.name);
  GQ_RETURN_IF_ERROR(client.Call(&AdminService::Stub::RevokeAgent, request).status());
  console.Print(StrCat(flags.name, " revoked\n"));
  if (console.options().json) console.PrintJson({{"revoked", flags.name}});
  return 0;
}

}  // namespace

void AddAgentCommands(CLI::App& root, CommandSet& commands) {
  CLI::App& agents = *commands.AddGroup(root, "agents", "Enrol agents and end their identity.");
  auto enrol = std::make_shared<AgentFlags>();
  CLI::App* command = AddAgentCommand(
      agents, commands, "enroll", "Print the line that connects a host with its boards.",
      "gq agents enroll --name host-7 --board bench-3 --device ve2-xc2ve3858 --backend vitisai",
      enrol, Enrol);
  command->add_option("--name", enrol->name, "Name of the agent.")->type_name("HOST")->required();
  command->add_option("--board", enrol->boards, "Name of a board; may be repeated.")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command->add_option("--device", enrol->devices, "Device of the board before it.")
      ->type_name("DEVICE")
      ->allow_extra_args(false);
  command->add_option("--tag", enrol->tags, "Tag of the boards; may be repeated.")
      ->type_name("TAG")
      ->allow_extra_args(false);
  command->add_option("--backend", enrol->backend, "Backend of the boards.")->type_name("NAME");
  command->add_option("--valid-for", enrol->valid_for, "How long the line works. [24h]")
      ->type_name("TIME");
  AddAgentCommand(agents, commands, "list", "List workers and agents.", "gq agents list",
                  std::make_shared<AgentFlags>(), ListAgents);
  for (const char* name : {"revoke", "remove"}) {
    auto flags = std::make_shared<AgentFlags>();
    AddAgentCommand(agents, commands, name, "End the identity of an agent; its work is lost.",
                    StrCat("gq agents ", name, " host-7"), flags, Revoke)
        ->add_option("AGENT", flags->name, "Name of the agent.")
        ->type_name("")
        ->required();
  }
}

}  // namespace gq::cli
