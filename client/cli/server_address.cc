#include "client/cli/server_address.h"

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <optional>

#include "common/base/file.h"
#include "common/base/host.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "yaml-cpp/yaml.h"

namespace gq::cli {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

struct Context {
  std::string server;
  std::string token_file;
  std::string ca_file;
};

struct Contexts {
  std::string current;
  std::map<std::string, Context> by_name;
};

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string ExpandHome(const std::string& path, const Environment& environment) {
  return path.starts_with("~/") ? environment.home + path.substr(1) : path;
}

absl::Status Damaged(const std::filesystem::path& path, std::string_view what) {
  return MakeError(
      Reason::kConfigInvalid, StrCat(path.string(), ": ", what),
      "expected: context: NAME, and contexts: with NAME: {server, token_file, ca_file}");
}

absl::StatusOr<Contexts> ParseContexts(const std::filesystem::path& path, const std::string& text,
                                       const Environment& environment) {
  Contexts contexts;
  try {
    const YAML::Node root = YAML::Load(text);
    if (!root || root.IsNull()) return contexts;
    if (!root.IsMap()) return Damaged(path, "not a mapping");
    for (const auto& entry : root) {
      const std::string key = entry.first.as<std::string>();
      if (key == "context") {
        contexts.current = entry.second.as<std::string>();
      } else if (key == "contexts") {
        for (const auto& named : entry.second) {
          Context& context = contexts.by_name[named.first.as<std::string>()];
          for (const auto& field : named.second) {
            const std::string name = field.first.as<std::string>();
            const std::string value = field.second.as<std::string>();
            if (name == "server") {
              context.server = value;
            } else if (name == "token_file") {
              context.token_file = ExpandHome(value, environment);
            } else if (name == "ca_file") {
              context.ca_file = ExpandHome(value, environment);
            } else {
              return Damaged(path, StrCat("unknown key '", name, "' of a context"));
            }
          }
          if (context.server.empty()) return Damaged(path, "a context without server");
        }
      } else {
        return Damaged(path, StrCat("unknown key '", key, "'"));
      }
    }
  } catch (const YAML::Exception& error) {
    return Damaged(path, error.what());
  }
  if (!contexts.current.empty() && !contexts.by_name.contains(contexts.current)) {
    return Damaged(path, StrCat("no context is named '", contexts.current, "'"));
  }
  return contexts;
}

absl::StatusOr<Contexts> ReadContexts(const Environment& environment) {
  const std::filesystem::path path = ContextFile(environment);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return Contexts{};
  GQ_ASSIGN_OR_RETURN(const std::string text, base::ReadFile(path, 1 << 20));
  return ParseContexts(path, text, environment);
}

}  // namespace

Environment Environment::OfProcess() {
  return {.home = Variable("HOME"),
          .gq_server = Variable("GQ_SERVER"),
          .gq_token_file = Variable("GQ_TOKEN_FILE"),
          .gq_data = Variable("GQ_DATA"),
          .xdg_config_home = Variable("XDG_CONFIG_HOME"),
          .xdg_state_home = Variable("XDG_STATE_HOME"),
          .root = geteuid() == 0};
}

std::filesystem::path DataFolder(const Environment& environment) {
  if (!environment.gq_data.empty()) return environment.gq_data;
  return base::StateFolder({.root = environment.root,
                            .xdg_state_home = environment.xdg_state_home,
                            .home = environment.home});
}

std::filesystem::path ContextFile(const Environment& environment) {
  const std::filesystem::path folder = environment.xdg_config_home.empty()
                                           ? std::filesystem::path(environment.home) / ".config"
                                           : std::filesystem::path(environment.xdg_config_home);
  return folder / "gq/config.yaml";
}

absl::StatusOr<ServerChoice> ChooseServer(std::string_view flag, const Environment& environment) {
  GQ_ASSIGN_OR_RETURN(const Contexts contexts, ReadContexts(environment));
  ServerChoice choice;
  if (!flag.empty()) {
    choice.channel.address = std::string(flag);
    choice.source = "--server";
  } else if (!environment.gq_server.empty()) {
    choice.channel.address = environment.gq_server;
    choice.source = "GQ_SERVER";
  } else if (!contexts.current.empty()) {
    choice.channel.address = contexts.by_name.at(contexts.current).server;
    choice.source = StrCat("context ", contexts.current, " of ", ContextFile(environment).string());
  } else {
    choice.channel.address = StrCat("unix:", (DataFolder(environment) / "gq.sock").string());
    choice.source = "the local socket";
  }
  for (const auto& [name, context] : contexts.by_name) {
    if (context.server != choice.channel.address) continue;
    choice.channel.token_file = context.token_file;
    choice.channel.ca_file = context.ca_file;
    if (name == contexts.current) break;
  }
  if (!environment.gq_token_file.empty()) choice.channel.token_file = environment.gq_token_file;
  return choice;
}

}  // namespace gq::cli
