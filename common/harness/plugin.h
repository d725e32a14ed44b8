// Plugins: programs of a lab that change a model on its way (docs/plugins.md). A folder of plugins
// has a subfolder with plugin.yaml for each.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace gq::harness {

enum class PluginStage {
  kModel,      // the user's model, before it is optimized
  kQuantized,  // the quantized model, before it is evaluated
};
// `model`, `quantized`.
std::string_view PluginStageName(PluginStage stage);

struct Plugin {
  std::string name;
  std::string version;
  std::string description;
  PluginStage stage = PluginStage::kModel;
  // What it applies to; an empty list means anything.
  std::vector<std::string> schemes;
  std::vector<std::string> devices;    // names or families: `ve2` means `ve2-xc2ve3858` too
  std::vector<std::string> operators;  // the model has at least one of these
  std::string consent;                 // what the user agrees to
  // Program and arguments; a program with a slash is relative to the plugin's folder.
  std::vector<std::string> command;
  int time_limit_seconds = 600;
  std::filesystem::path folder;
};

// Every plugin below `folder`, by name; none when the folder is missing or the path is empty. Fails
// with kConfigInvalid (with file and line) for a manifest that cannot be read, lacks a field, has
// an unknown one, or repeats a name.
absl::StatusOr<std::vector<Plugin>> LoadPlugins(const std::filesystem::path& folder);

// The folder that GQ_PLUGINS names; empty without it.
std::filesystem::path PluginFolder();

// Why the plugin does not fit; empty when it does. An empty scheme or device is any.
std::string WhyNotFor(const Plugin& plugin, std::string_view scheme, std::string_view device,
                      const std::set<std::string>& operators);

}  // namespace gq::harness
