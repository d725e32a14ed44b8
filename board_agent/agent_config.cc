#include "board_agent/agent_config.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/host.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/harness/yaml_fields.h"
#include "common/rpc/session_program.h"

namespace gq::agent {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;

constexpr size_t kMaxConfig = size_t{1} << 20;

class ConfigReader {
 public:
  explicit ConfigReader(const fs::path& file) : fields_(file) {}

  absl::Status Read(AgentConfig& config) {
    GQ_ASSIGN_OR_RETURN(const YAML::Node root, fields_.Load(kMaxConfig));
    if (root.IsNull()) return absl::OkStatus();
    if (!root.IsMap()) return fields_.Bad(root, "expected keys with values");
    for (const auto& entry : root) {
      const YAML::Node& value = entry.second;
      GQ_ASSIGN_OR_RETURN(const std::string key, fields_.Key(entry.first));
      if (key == "boards") {
        GQ_RETURN_IF_ERROR(ReadBoards(value, config.boards));
        continue;
      }
      GQ_ASSIGN_OR_RETURN(const bool known, ReadScalar(key, value, config));
      if (!known) return fields_.UnknownKey(entry.first, Keys());
    }
    return absl::OkStatus();
  }

 private:
  static std::vector<std::string> Keys() {
    return {"server",          "name",       "token_file", "ca_file",    "state_dir", "slots",
            "health_interval", "memory_gib", "backend",    "sim_boards", "boards"};
  }

  absl::StatusOr<bool> ReadScalar(const std::string& key, const YAML::Node& value,
                                  AgentConfig& config) {
    const std::pair<std::string_view, std::string*> texts[] = {
        {"server", &config.server},         {"name", &config.name},
        {"token_file", &config.token_file}, {"ca_file", &config.ca_file},
        {"state_dir", &config.state_dir},   {"backend", &config.backend}};
    for (const auto& [name, field] : texts) {
      if (key != name) continue;
      GQ_RETURN_IF_ERROR(fields_.Get(value, key, "a text", *field));
      return true;
    }
    if (key == "slots") {
      GQ_RETURN_IF_ERROR(fields_.Get(value, key, "a whole number", config.slots));
    } else if (key == "health_interval") {
      GQ_RETURN_IF_ERROR(fields_.Get(value, key, "a number of seconds", config.health_interval));
    } else if (key == "memory_gib") {
      GQ_RETURN_IF_ERROR(fields_.Get(value, key, "a number", config.memory_gib));
    } else if (key == "sim_boards") {
      GQ_RETURN_IF_ERROR(fields_.Get(value, key, "true or false", config.sim_boards));
    } else {
      return false;
    }
    return true;
  }

  absl::Status ReadBoards(const YAML::Node& list, std::vector<BoardSpec>& boards) {
    if (!list.IsSequence()) return fields_.Bad(list, "boards: expected a list");
    boards.clear();
    for (const YAML::Node& entry : list) {
      if (!entry.IsMap())
        return fields_.Bad(entry, "boards: expected name, device, backend, tags, options");
      BoardSpec board;
      board.backend.clear();
      for (const auto& field : entry) {
        const YAML::Node& value = field.second;
        GQ_ASSIGN_OR_RETURN(const std::string key, fields_.Key(field.first));
        if (key == "name") {
          GQ_RETURN_IF_ERROR(fields_.Get(value, key, "a text", board.name));
        } else if (key == "device") {
          GQ_RETURN_IF_ERROR(fields_.Get(value, key, "a text", board.device));
        } else if (key == "backend") {
          GQ_RETURN_IF_ERROR(fields_.Get(value, key, "a text", board.backend));
        } else if (key == "fault") {
          GQ_RETURN_IF_ERROR(fields_.Get(value, key, "a text", board.fault));
        } else if (key == "tags") {
          GQ_RETURN_IF_ERROR(fields_.Get(value, key, "a list of texts", board.tags));
        } else if (key == "options") {
          GQ_RETURN_IF_ERROR(fields_.Get(value, key, "keys with texts", board.options));
        } else {
          return fields_.UnknownKey(field.first,
                                    {"name", "device", "backend", "tags", "options", "fault"});
        }
      }
      boards.push_back(std::move(board));
    }
    return absl::OkStatus();
  }

  const harness::YamlFields fields_;
};

}  // namespace

absl::Status ReadConfigFile(const fs::path& path, AgentConfig& config) {
  return ConfigReader(path).Read(config);
}

absl::Status CompleteConfig(AgentConfig& config) {
  if (config.server.empty()) {
    return MakeError(Reason::kInvalidFlag, "there is no server to connect to",
                     "Give --server unix:PATH or --server HOST:PORT.");
  }
  if (config.name.empty()) config.name = base::HostName("agent");
  if (config.boards.empty() && config.backend == "sim") config.sim_boards = true;
  if (config.sim_boards) {
    config.boards.push_back({"ve2-sim", "ve2-sim", "sim", {}, "", {}});
    config.boards.push_back({"ethos-u-sim", "ethos-u-sim", "sim", {}, "", {}});
    config.boards.push_back({"xnnpack-cpu", "xnnpack-cpu", "onnxruntime", {}, "", {}});
  }
  if (config.boards.empty()) {
    return MakeError(Reason::kInvalidFlag, "the agent has no board",
                     "Give --board NAME --device DEVICE.");
  }
  for (BoardSpec& board : config.boards) {
    if (board.backend.empty()) board.backend = config.backend;
    if (board.device.empty()) board.device = board.name;
  }
  if (config.slots <= 0) config.slots = static_cast<int>(config.boards.size());
  if (config.state_dir.empty()) {
    config.state_dir = rpc::SessionStateFolder(config.server, "agents", config.name).string();
  }
  return absl::OkStatus();
}

std::string FormatConfig(const AgentConfig& config) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  out << YAML::Key << "server" << YAML::Value << config.server;
  out << YAML::Key << "name" << YAML::Value << config.name;
  out << YAML::Key << "token_file" << YAML::Value << config.token_file;
  out << YAML::Key << "ca_file" << YAML::Value << config.ca_file;
  out << YAML::Key << "state_dir" << YAML::Value << config.state_dir;
  out << YAML::Key << "slots" << YAML::Value << config.slots;
  out << YAML::Key << "health_interval" << YAML::Value << config.health_interval;
  out << YAML::Key << "memory_gib" << YAML::Value << config.memory_gib;
  out << YAML::Key << "backend" << YAML::Value << config.backend;
  out << YAML::Key << "boards" << YAML::Value << YAML::BeginSeq;
  for (const BoardSpec& board : config.boards) {
    out << YAML::BeginMap << YAML::Key << "name" << YAML::Value << board.name << YAML::Key
        << "device" << YAML::Value << board.device << YAML::Key << "backend" << YAML::Value
        << board.backend << YAML::Key << "tags" << YAML::Value << YAML::Flow << board.tags;
    if (!board.options.empty()) {
      out << YAML::Key << "options" << YAML::Value << YAML::Block << board.options;
    }
    if (!board.fault.empty()) out << YAML::Key << "fault" << YAML::Value << board.fault;
    out << YAML::EndMap;
  }
  out << YAML::EndSeq << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

std::string BoardsToJson(const std::vector<BoardSpec>& boards) {
  nlohmann::json list = nlohmann::json::array();
  for (const BoardSpec& board : boards) {
    list.push_back({{"name", board.name},
                    {"device", board.device},
                    {"backend", board.backend},
                    {"tags", board.tags},
                    {"fault", board.fault},
                    {"options", board.options}});
  }
  return list.dump();
}

absl::StatusOr<std::vector<BoardSpec>> BoardsFromJson(const std::string& json) {
  std::vector<BoardSpec> boards;
  try {
    for (const nlohmann::json& entry : nlohmann::json::parse(json)) {
      boards.push_back({entry.at("name"), entry.at("device"), entry.at("backend"),
                        entry.at("tags").get<std::vector<std::string>>(), entry.at("fault"),
                        entry.at("options").get<std::map<std::string, std::string>>()});
    }
  } catch (const nlohmann::json::exception& e) {
    return MakeError(Reason::kInternal, StrCat("the list of boards is damaged: ", e.what()));
  }
  return boards;
}

}  // namespace gq::agent
