#include "common/harness/plugin.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::harness {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;

constexpr char kManifest[] = "plugin.yaml";
constexpr size_t kMaxManifest = size_t{64} << 10;
constexpr int kMaxSeconds = 86400;

class ManifestReader {
 public:
  explicit ManifestReader(fs::path file) : file_(std::move(file)) {}

  absl::StatusOr<Plugin> Read() {
    GQ_ASSIGN_OR_RETURN(const std::string text, base::ReadFile(file_, kMaxManifest));
    try {
      return ReadRoot(YAML::Load(text));
    } catch (const YAML::Exception& e) {
      return MakeError(Reason::kConfigInvalid, StrCat(file_.string(), ": ", e.what()));
    }
  }

 private:
  absl::StatusOr<Plugin> ReadRoot(const YAML::Node& root) {
    if (!root.IsMap()) return Bad(root, "expected keys with values");
    Plugin plugin;
    plugin.folder = file_.parent_path();
    for (const auto& entry : root) {
      GQ_RETURN_IF_ERROR(ReadKey(entry.first, entry.second, plugin));
    }
    for (const auto& [key, missing] :
         {std::pair{"name", plugin.name.empty()}, std::pair{"version", plugin.version.empty()},
          std::pair{"consent", plugin.consent.empty()},
          std::pair{"command", plugin.command.empty()}}) {
      if (missing) return Bad(root, StrCat(key, " is missing or empty"));
    }
    if (plugin.command[0].find('/') != std::string::npos) {
      plugin.command[0] = (fs::absolute(plugin.folder) / plugin.command[0]).string();
    }
    return plugin;
  }

  absl::Status ReadKey(const YAML::Node& name, const YAML::Node& value, Plugin& plugin) {
    const auto key = name.as<std::string>();
    const std::pair<std::string_view, std::string*> texts[] = {{"name", &plugin.name},
                                                               {"version", &plugin.version},
                                                               {"description", &plugin.description},
                                                               {"consent", &plugin.consent}};
    for (const auto& [known, field] : texts) {
      if (key == known) return Get(value, key, "a text", *field);
    }
    if (key == "command") return Get(value, key, "a list of texts", plugin.command);
    if (key == "time_limit_seconds") {
      GQ_RETURN_IF_ERROR(Get(value, key, "a number of seconds", plugin.time_limit_seconds));
      if (plugin.time_limit_seconds >= 1 && plugin.time_limit_seconds <= kMaxSeconds) {
        return absl::OkStatus();
      }
      return Bad(value, "time_limit_seconds: expected 1 to 86400");
    }
    if (key == "applies_to") return ReadScope(value, plugin);
    return Unknown(name, {"name", "version", "description", "applies_to", "consent", "command",
                          "time_limit_seconds"});
  }

  absl::Status ReadScope(const YAML::Node& scope, Plugin& plugin) {
    if (!scope.IsMap())
      return Bad(scope, "applies_to: expected stage, schemes, devices, operators");
    for (const auto& entry : scope) {
      const auto key = entry.first.as<std::string>();
      const YAML::Node& value = entry.second;
      if (key == "stage") {
        std::string stage;
        GQ_RETURN_IF_ERROR(Get(value, key, "model or quantized", stage));
        if (stage != "model" && stage != "quantized") {
          return Bad(value, "stage: expected model or quantized");
        }
        plugin.stage = stage == "model" ? PluginStage::kModel : PluginStage::kQuantized;
      } else if (key == "schemes") {
        GQ_RETURN_IF_ERROR(Get(value, key, "a list of texts", plugin.schemes));
      } else if (key == "devices") {
        GQ_RETURN_IF_ERROR(Get(value, key, "a list of texts", plugin.devices));
      } else if (key == "operators") {
        GQ_RETURN_IF_ERROR(Get(value, key, "a list of texts", plugin.operators));
      } else {
        return Unknown(entry.first, {"stage", "schemes", "devices", "operators"});
      }
    }
    return absl::OkStatus();
  }

  template <typename T>
  absl::Status Get(const YAML::Node& node, const std::string& key, std::string_view expected,
                   T& value) {
    try {
      value = node.as<T>();
      return absl::OkStatus();
    } catch (const YAML::Exception&) {
      return Bad(node, StrCat(key, ": expected ", expected));
    }
  }

  absl::Status Unknown(const YAML::Node& node, const std::vector<std::string>& known) {
    const auto key = node.as<std::string>();
    const auto close = base::ClosestNames(key, known, 1);
    return MakeError(Reason::kConfigInvalid, StrCat(Place(node), "unknown key '", key, "'"),
                     close.empty() ? StrCat("Keys: ", base::StrJoin(known, ", "), ".")
                                   : StrCat("Did you mean ", close.front(), "?"));
  }
  absl::Status Bad(const YAML::Node& node, std::string_view what) {
    return MakeError(Reason::kConfigInvalid, StrCat(Place(node), what),
                     "The manifest is described in docs/plugins.md.");
  }
  std::string Place(const YAML::Node& node) const {
    return StrCat(file_.string(), ":", node.Mark().line + 1, ": ");
  }

  const fs::path file_;
};

bool Contains(const std::vector<std::string>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace

std::string_view PluginStageName(PluginStage stage) {
  return stage == PluginStage::kModel ? "model" : "quantized";
}

absl::StatusOr<std::vector<Plugin>> LoadPlugins(const fs::path& folder) {
  std::vector<Plugin> plugins;
  std::error_code error;
  if (folder.empty() || !fs::is_directory(folder, error)) return plugins;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path manifest = entry.path() / kManifest;
    std::error_code ignored;
    if (!fs::exists(manifest, ignored)) continue;
    GQ_ASSIGN_OR_RETURN(plugins.emplace_back(), ManifestReader(manifest).Read());
  }
  if (error) {
    return MakeError(Reason::kFileUnreadable, StrCat(folder.string(), ": ", error.message()));
  }
  std::sort(plugins.begin(), plugins.end(),
            [](const Plugin& a, const Plugin& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(plugins.begin(), plugins.end(),
                         [](const Plugin& a, const Plugin& b) { return a.name == b.name; });
  if (twice == plugins.end()) return plugins;
  return MakeError(Reason::kConfigInvalid,
                   StrCat(folder.string(), ": two plugins have the name '", twice->name, "'"));
}

fs::path PluginFolder() {
  const char* folder = std::getenv("GQ_PLUGINS");
  return folder != nullptr ? fs::path(folder) : fs::path();
}

std::string WhyNotFor(const Plugin& plugin, std::string_view scheme, std::string_view device,
                      const std::set<std::string>& operators) {
  if (!scheme.empty() && !plugin.schemes.empty() && !Contains(plugin.schemes, scheme)) {
    return StrCat("it is for the schemes ", base::StrJoin(plugin.schemes, ", "));
  }
  const bool device_fits =
      device.empty() || plugin.devices.empty() ||
      std::any_of(plugin.devices.begin(), plugin.devices.end(), [&](const std::string& family) {
        return device == family || device.starts_with(family + "-");
      });
  if (!device_fits) return StrCat("it is for the devices ", base::StrJoin(plugin.devices, ", "));
  const bool operator_fits =
      plugin.operators.empty() ||
      std::any_of(plugin.operators.begin(), plugin.operators.end(),
                  [&](const std::string& op) { return operators.contains(op); });
  if (!operator_fits) {
    return StrCat("the model has none of the operators ", base::StrJoin(plugin.operators, ", "));
  }
  return "";
}

}  // namespace gq::harness
