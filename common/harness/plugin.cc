#include "common/harness/plugin.h"

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/harness/yaml_fields.h"

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
  explicit ManifestReader(const fs::path& file)
      : file_(file), fields_(file, "The manifest is described in docs/plugins.md.") {}

  absl::StatusOr<Plugin> Read() {
    GQ_ASSIGN_OR_RETURN(const YAML::Node root, fields_.Load(kMaxManifest));
    if (!root.IsMap()) return fields_.Bad(root, "expected keys with values");
    Plugin plugin;
    plugin.folder = file_.parent_path();
    for (const auto& entry : root) {
      GQ_RETURN_IF_ERROR(ReadKey(entry.first, entry.second, plugin));
    }
    for (const auto& [key, missing] :
         {std::pair{"name", plugin.name.empty()}, std::pair{"version", plugin.version.empty()},
          std::pair{"consent", plugin.consent.empty()},
          std::pair{"command", plugin.command.empty()}}) {
      if (missing) return fields_.Bad(root, StrCat(key, " is missing or empty"));
    }
    if (plugin.command[0].find('/') != std::string::npos) {
      plugin.command[0] = (fs::absolute(plugin.folder) / plugin.command[0]).string();
    }
    return plugin;
  }

 private:
  absl::Status ReadKey(const YAML::Node& name, const YAML::Node& value, Plugin& plugin) {
    GQ_ASSIGN_OR_RETURN(const std::string key, fields_.Key(name));
    const std::pair<std::string_view, std::string*> texts[] = {{"name", &plugin.name},
                                                               {"version", &plugin.version},
                                                               {"description", &plugin.description},
                                                               {"consent", &plugin.consent}};
    for (const auto& [known, field] : texts) {
      if (key == known) return fields_.Get(value, key, "a text", *field);
    }
    if (key == "command") return fields_.Get(value, key, "a list of texts", plugin.command);
    if (key == "time_limit_seconds") {
      GQ_RETURN_IF_ERROR(fields_.Get(value, key, "a number of seconds", plugin.time_limit_seconds));
      if (plugin.time_limit_seconds >= 1 && plugin.time_limit_seconds <= kMaxSeconds) {
        return absl::OkStatus();
      }
      return fields_.Bad(value, "time_limit_seconds: expected 1 to 86400");
    }
    if (key == "applies_to") return ReadScope(value, plugin);
    return fields_.UnknownKey(name, {"name", "version", "description", "applies_to", "consent",
                                     "command", "time_limit_seconds"});
  }

  absl::Status ReadScope(const YAML::Node& scope, Plugin& plugin) {
    if (!scope.IsMap())
      return fields_.Bad(scope, "applies_to: expected stage, schemes, devices, operators");
    for (const auto& entry : scope) {
      GQ_ASSIGN_OR_RETURN(const std::string key, fields_.Key(entry.first));
      const YAML::Node& value = entry.second;
      if (key == "stage") {
        std::string stage;
        GQ_RETURN_IF_ERROR(fields_.Get(value, key, "model or quantized", stage));
        if (stage != "model" && stage != "quantized") {
          return fields_.Bad(value, "stage: expected model or quantized");
        }
        plugin.stage = stage == "model" ? PluginStage::kModel : PluginStage::kQuantized;
      } else if (key == "schemes") {
        GQ_RETURN_IF_ERROR(fields_.Get(value, key, "a list of texts", plugin.schemes));
      } else if (key == "devices") {
        GQ_RETURN_IF_ERROR(fields_.Get(value, key, "a list of texts", plugin.devices));
      } else if (key == "operators") {
        GQ_RETURN_IF_ERROR(fields_.Get(value, key, "a list of texts", plugin.operators));
      } else {
        return fields_.UnknownKey(entry.first, {"stage", "schemes", "devices", "operators"});
      }
    }
    return absl::OkStatus();
  }

  const fs::path file_;
  const YamlFields fields_;
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
