// Which server to talk to, and with which credentials (docs/user-guide.md, "Servers").
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/rpc/channel.h"

namespace gq::cli {

// What the environment says; empty strings for unset variables.
struct Environment {
  std::string home;
  std::string gq_server;
  std::string gq_token_file;
  std::string gq_data;
  std::string xdg_config_home;
  std::string xdg_state_home;
  bool root = false;

  static Environment OfProcess();
};

// `$GQ_DATA`, else /var/lib/gq for root, else `$XDG_STATE_HOME/gq` or ~/.local/state/gq.
std::filesystem::path DataFolder(const Environment& environment);

// `$XDG_CONFIG_HOME/gq/config.yaml`, by default below ~/.config.
std::filesystem::path ContextFile(const Environment& environment);

struct ServerChoice {
  rpc::ChannelOptions channel;
  std::string source;  // where the address came from, in words
};

// `flag` (--server) if given, else GQ_SERVER, else the current context, else the local socket. The
// token comes from GQ_TOKEN_FILE, else from the context with the same address. CONFIG_INVALID when
// the context file is damaged.
absl::StatusOr<ServerChoice> ChooseServer(std::string_view flag, const Environment& environment);

}  // namespace gq::cli
