#include "server/settings.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "common/base/file.h"
#include "common/base/host.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "yaml-cpp/yaml.h"

namespace gq::server {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

// One setting: flag `--name`, key `name` with `_` for `-`, variable `GQ_SERVER_NAME`.
struct Definition {
  std::string name;
  std::string fallback;
  bool is_switch;
  std::string help;
};

std::string DefaultData() {
  if (const char* data = std::getenv("GQ_DATA"); data != nullptr && *data != '\0') return data;
  return base::StateFolder().string();
}

std::vector<Definition> Definitions() {
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  return {
      {"data", DefaultData(), false, "Data folder (GQ_DATA)."},
      {"socket", "", false, "Local socket. [<data>/gq.sock]"},
      {"listen", "127.0.0.1:7443", false, "Address of clients and agents, HOST:PORT or `none`."},
      {"insecure-listen", "false", true, "Allow --listen where other hosts can connect."},
      {"reflection", "false", true, "Answer reflection on --listen as well as on the socket."},
      {"workers", std::to_string(std::max(1u, cores / 2)), false,
       "Local workers. [one for every two cores]"},
      {"no-sim-boards", "false", true, "Start no simulated boards."},
      {"plugins", "", false, "Folder of plugins for the local workers. [none]"},
      {"drain-timeout", "20", false, "Seconds that local work may take to finish on SIGTERM."},
      {"lease-ttl", "60", false, "Seconds that a lease lives without a sign of its agent."},
      {"max-reservation", "24", false, "Hours that a board can be reserved for."},
      {"log-cap", "256", false, "MiB of log kept for one attempt."},
      {"min-free", "512", false, "MiB of free disk below which nothing new is taken in."},
      {"log-level", "info", false, "debug, info, warn or error."},
  };
}

std::string KeyOf(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string VariableOf(const std::string& name) {
  if (name == "data") return "GQ_DATA";
  std::string variable = StrCat("GQ_SERVER_", KeyOf(name));
  std::transform(variable.begin(), variable.end(), variable.begin(), ::toupper);
  return variable;
}

absl::StatusOr<std::map<std::string, std::string>> ReadFileValues(
    const std::string& path, const std::vector<Definition>& definitions) {
  GQ_ASSIGN_OR_RETURN(const std::string text, base::ReadFile(path));
  std::map<std::string, std::string> values;
  try {
    const YAML::Node root = YAML::Load(text);
    if (root.IsNull()) return values;
    if (!root.IsMap()) {
      return MakeError(Reason::kConfigInvalid, StrCat("'", path, "' is not a mapping"));
    }
    std::vector<std::string> known;
    for (const Definition& definition : definitions) known.push_back(KeyOf(definition.name));
    for (const auto& entry : root) {
      const auto key = entry.first.as<std::string>();
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        const auto close = base::ClosestNames(key, known, 1);
        return MakeError(
            Reason::kConfigInvalid,
            StrCat("'", path, "' line ", entry.first.Mark().line + 1, ": unknown key '", key, "'"),
            close.empty() ? "--print-config shows the keys"
                          : StrCat("did you mean '", close.front(), "'?"));
      }
      if (!values.emplace(key, entry.second.as<std::string>()).second) {
        return MakeError(Reason::kConfigInvalid,
                         StrCat("'", path, "': key '", key, "' is given twice"));
      }
    }
  } catch (const YAML::Exception& error) {
    return MakeError(Reason::kConfigInvalid, StrCat("'", path, "': ", error.what()));
  }
  return values;
}

absl::StatusOr<int64_t> Number(const std::string& name, const std::string& text, int64_t low,
                               int64_t high) {
  char* end = nullptr;
  const int64_t value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < low || value > high) {
    return MakeError(Reason::kInvalidFlag,
                     StrCat("`", name, "`: '", text, "' is not a number from ", low, " to ", high));
  }
  return value;
}

absl::StatusOr<bool> Truth(const std::string& name, const std::string& text) {
  if (text == "true" || text == "1" || text == "yes") return true;
  if (text == "false" || text == "0" || text == "no") return false;
  return MakeError(Reason::kInvalidFlag, StrCat("`", name, "`: '", text, "' is not true or false"));
}

absl::StatusOr<Settings> Interpret(const std::map<std::string, std::string>& values) {
  Settings settings;
  ServiceOptions& service = settings.service;
  service.data = values.at("data");
  service.socket = values.at("socket");
  service.listen = values.at("listen") == "none" ? "" : values.at("listen");
  GQ_ASSIGN_OR_RETURN(service.insecure_listen,
                      Truth("insecure-listen", values.at("insecure-listen")));
  GQ_ASSIGN_OR_RETURN(service.reflection, Truth("reflection", values.at("reflection")));
  GQ_ASSIGN_OR_RETURN(const bool no_sim, Truth("no-sim-boards", values.at("no-sim-boards")));
  settings.sim_boards = !no_sim;
  settings.plugins = values.at("plugins");
  GQ_ASSIGN_OR_RETURN(settings.workers, Number("workers", values.at("workers"), 0, 1024));
  GQ_ASSIGN_OR_RETURN(const int64_t drain,
                      Number("drain-timeout", values.at("drain-timeout"), 0, 86'400));
  settings.drain_timeout = absl::Seconds(drain);
  GQ_ASSIGN_OR_RETURN(const int64_t ttl, Number("lease-ttl", values.at("lease-ttl"), 2, 3600));
  service.times.ttl = absl::Seconds(ttl);
  service.times.grace = service.times.ttl / 2;
  service.times.restart_grace = 2.5 * service.times.ttl;
  service.limits.busy_hold = std::min(service.limits.busy_hold, service.times.ttl / 4);
  GQ_ASSIGN_OR_RETURN(const int64_t reservation,
                      Number("max-reservation", values.at("max-reservation"), 1, 8760));
  service.limits.max_reservation = absl::Hours(reservation);
  GQ_ASSIGN_OR_RETURN(const int64_t cap, Number("log-cap", values.at("log-cap"), 1, 1 << 20));
  service.log_cap = cap << 20;
  GQ_ASSIGN_OR_RETURN(const int64_t free, Number("min-free", values.at("min-free"), 0, 1 << 30));
  service.limits.min_free_bytes = free << 20;
  settings.log_level = values.at("log-level");
  for (const char* level : {"debug", "info", "warn", "error"}) {
    if (settings.log_level == level) return settings;
  }
  return MakeError(Reason::kInvalidFlag, StrCat("`log-level`: '", settings.log_level,
                                                "' is not debug, info, warn or error"));
}

}  // namespace

absl::StatusOr<ParsedSettings> ReadSettings(int argc, const char* const* argv) {
  const std::vector<Definition> definitions = Definitions();
  CLI::App app(
      "gq-server: takes jobs, hands their steps to workers and boards, keeps what they make.");
  app.footer(
      "Every flag is also a key of the --config file (with _ for -) and an environment variable\n"
      "(GQ_SERVER_LISTEN for --listen).\n\n"
      "Examples:\n"
      "  gq-server                                 with the defaults\n"
      "  gq-server --data ./lab --workers 2        own data folder, two workers\n"
      "  gq-server --config /etc/gq/server.yaml --print-config");
  std::map<std::string, std::string> given;
  std::map<std::string, bool> switched;
  std::map<std::string, CLI::Option*> options;
  for (const Definition& definition : definitions) {
    const std::string flag = StrCat("--", definition.name);
    if (definition.is_switch) {
      options[definition.name] = app.add_flag(flag, switched[definition.name], definition.help);
    } else {
      const std::string help = definition.fallback.empty() || definition.help.back() == ']'
                                   ? definition.help
                                   : StrCat(definition.help, " [", definition.fallback, "]");
      options[definition.name] = app.add_option(flag, given[definition.name], help);
    }
  }
  std::string config;
  bool print_config = false;
  app.add_option("--config", config, "YAML file with settings (GQ_SERVER_CONFIG).");
  app.add_flag("--print-config", print_config, "Print the settings that hold, and end.");
  app.set_version_flag("--version", StrCat("gq-server ", GQ_VERSION));
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return ParsedSettings{{}, app.exit(success)};
  } catch (const CLI::ParseError& error) {
    return MakeError(Reason::kInvalidFlag, error.what(), "`gq-server --help` lists the flags");
  }
  if (const char* variable = std::getenv("GQ_SERVER_CONFIG"); config.empty() && variable) {
    config = variable;
  }
  std::map<std::string, std::string> from_file;
  if (!config.empty()) {
    GQ_ASSIGN_OR_RETURN(from_file, ReadFileValues(config, definitions));
  }
  std::map<std::string, std::string> values;
  for (const Definition& definition : definitions) {
    const std::string& name = definition.name;
    const char* variable = std::getenv(VariableOf(name).c_str());
    if (options[name]->count() > 0) {
      values[name] = definition.is_switch ? "true" : given[name];
    } else if (variable != nullptr && *variable != '\0') {
      values[name] = variable;
    } else if (const auto found = from_file.find(KeyOf(name)); found != from_file.end()) {
      values[name] = found->second;
    } else {
      values[name] = definition.fallback;
    }
  }
  if (values["socket"].empty()) values["socket"] = StrCat(values["data"], "/gq.sock");
  GQ_ASSIGN_OR_RETURN(const Settings settings, Interpret(values));
  if (print_config) {
    YAML::Emitter out;
    out << YAML::BeginMap;
    for (const Definition& definition : definitions) {
      out << YAML::Key << KeyOf(definition.name) << YAML::Value << values[definition.name];
    }
    out << YAML::EndMap;
    std::printf("%s\n", out.c_str());
    return ParsedSettings{settings, 0};
  }
  return ParsedSettings{settings, std::nullopt};
}

}  // namespace gq::server
