// How the commands of gq are declared and what they get to work with.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "client/cli/console.h"
#include "client/cli/interrupt.h"
#include "client/cli/server_address.h"
#include "client/cli/service_client.h"

namespace gq::cli {

// What every command may use.
struct Session {
  Environment environment;
  Console console;
  Interrupt interrupt;
  const CLI::App* root = nullptr;
  std::vector<std::string> arguments;  // the command line, without the program's name

  // A client of the server that `flag` (--server) or the environment names. Connects at the first
  // call.
  absl::StatusOr<std::shared_ptr<ServiceClient>> Connect(std::string_view flag);
};

// Flags of every command that talks to a server and shows something.
struct ClientFlags {
  std::string server;
  ShowOptions show;
};

// The commands of an application.
class CommandSet {
 public:
  // Returns the exit code.
  using Body = std::function<absl::StatusOr<int>()>;

  explicit CommandSet(Session& session) : session_(session) {}

  Session& session() { return session_; }

  // A command whose body runs when the user chose it. `examples` are full command lines, one a
  // line.
  CLI::App* Add(CLI::App& parent, const std::string& name, const std::string& description,
                const std::string& examples, Body body);
  // A command that only has subcommands.
  CLI::App* AddGroup(CLI::App& parent, const std::string& name, const std::string& description);
  // Adds --server, --json, --no-color and --utc to a command; the body calls Connect afterwards.
  std::shared_ptr<ClientFlags> AddClientFlags(CLI::App& command);

  // The body of the command that was chosen; null when none was.
  const Body* Chosen() const;

 private:
  Session& session_;
  std::map<const CLI::App*, Body> bodies_;
};

// A client for a command with client flags; configures the console first.
absl::StatusOr<std::shared_ptr<ServiceClient>> Connect(Session& session, const ClientFlags& flags);

// Each adds its commands; the names say where to look.
void AddSubmitCommands(CLI::App& root, CommandSet& commands);
void AddJobCommands(CLI::App& root, CommandSet& commands);
void AddLogCommand(CLI::App& root, CommandSet& commands);
void AddReportCommands(CLI::App& root, CommandSet& commands);
void AddBoardCommands(CLI::App& root, CommandSet& commands);
void AddAdminCommands(CLI::App& root, CommandSet& commands);
void AddAgentCommands(CLI::App& root, CommandSet& commands);
void AddRunFileCommands(CLI::App& root, CommandSet& commands);
void AddDoctorCommand(CLI::App& root, CommandSet& commands);
void AddCompletionCommand(CLI::App& root, CommandSet& commands);

}  // namespace gq::cli
