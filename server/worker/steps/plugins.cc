#include "server/worker/steps/plugins.h"

#include <algorithm>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/temporary_folder.h"
#include "common/base/text.h"
#include "common/harness/harness_call.h"
#include "server/worker/steps/stopwatch.h"

namespace gq::worker {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;
using harness::Plugin;
using nlohmann::json;

std::set<std::string> Operators(const graph::Model& model) {
  std::set<std::string> operators;
  for (const onnx::NodeProto& node : model.graph().node()) operators.insert(node.op_type());
  return operators;
}

absl::StatusOr<std::vector<Plugin>> AllPlugins() {
  return harness::LoadPlugins(harness::PluginFolder());
}

// In the order of the request. Names that are not there are left to CheckPlugins.
std::vector<Plugin> Wanted(const gq::v1::JobSpec& spec, const std::vector<Plugin>& all) {
  std::vector<Plugin> wanted;
  for (const std::string& name : spec.plugin()) {
    for (const Plugin& plugin : all) {
      if (plugin.name == name) wanted.push_back(plugin);
    }
  }
  return wanted;
}

// Names, types and shapes of inputs and outputs: the contract of a model with its user.
std::string Signature(const graph::Model& model) {
  std::string text;
  for (const auto* list : {&model.graph().input(), &model.graph().output()}) {
    for (const onnx::ValueInfoProto& value : *list) {
      if (model.FindInitializer(value.name()) == nullptr) text += value.SerializeAsString();
    }
    text += '\n';
  }
  return text;
}

absl::StatusOr<json> Apply(const Plugin& plugin, const gq::v1::JobSpec& spec, const fs::path& from,
                           const fs::path& to, StepLog& log) {
  GQ_ASSIGN_OR_RETURN(const graph::Model before, graph::LoadModel(from));
  const fs::path scratch = fs::path(to.string() + ".plugin");
  GQ_RETURN_IF_ERROR(base::MakeFolder(scratch));
  harness::HarnessCall call;
  call.tool.arguments = plugin.command;
  call.tool.work_dir = scratch;
  call.tool.time_limit = absl::Seconds(plugin.time_limit_seconds);
  call.action = "apply";
  call.component = "Plugin";
  call.failure = Reason::kModelUnsupported;
  call.request["plugin"] = plugin.name;
  call.request["stage"] = harness::PluginStageName(plugin.stage);
  call.request["model"] = fs::absolute(from).string();
  call.request["output"] = fs::absolute(to).string();
  call.request["scheme"] = spec.scheme();
  call.request["device"] = spec.device();
  log.Info("Plugin", StrCat("Applying ", plugin.name, " ", plugin.version));
  Stopwatch watch;
  const auto response = harness::CallHarness(call, log);
  std::error_code ignored;
  fs::remove_all(scratch, ignored);
  if (!response.ok()) return base::AddContext(response.status(), StrCat("plugin ", plugin.name));
  watch.Lap("plugin");
  const auto after = graph::LoadModel(to);
  if (!after.ok()) return base::AddContext(after.status(), StrCat("plugin ", plugin.name));
  if (Signature(before) != Signature(*after)) {
    return MakeError(Reason::kSanityCheckFailed,
                     StrCat("plugin ", plugin.name, " changed inputs or outputs of the model"),
                     "Leave it out, or ask its author.");
  }
  json record = {{"name", plugin.name},
                 {"version", plugin.version},
                 {"stage", harness::PluginStageName(plugin.stage)},
                 {"digest_before", before.Digest()},
                 {"digest_after", after->Digest()}};
  for (const char* key : {"changed", "detail"}) {
    if (response->contains(key)) record[key] = json::parse((*response)[key].dump());
  }
  record["seconds"] = watch.Seconds().value("plugin", 0.0);
  log.Info("Plugin", StrCat(plugin.name, ": ",
                            record.contains("detail") && record["detail"].is_string()
                                ? record["detail"].get<std::string>()
                                : std::string("done")));
  return record;
}

}  // namespace

absl::StatusOr<json> OfferedPlugins(const gq::v1::JobSpec& spec, const graph::Model& model,
                                    StepLog& log) {
  GQ_ASSIGN_OR_RETURN(const std::vector<Plugin> all, AllPlugins());
  const std::set<std::string> operators = Operators(model);
  json list = json::array();
  for (const Plugin& plugin : all) {
    const std::string why_not = harness::WhyNotFor(plugin, spec.scheme(), spec.device(), operators);
    json entry = {{"name", plugin.name},
                  {"version", plugin.version},
                  {"description", plugin.description},
                  {"stage", harness::PluginStageName(plugin.stage)},
                  {"consent", plugin.consent},
                  {"fits", why_not.empty()}};
    if (!why_not.empty()) entry["reason"] = why_not;
    list.push_back(std::move(entry));
    if (why_not.empty()) {
      log.Info("Analyze", StrCat("plugin ", plugin.name, " ", plugin.version,
                                 " fits: ", plugin.description, " (--plugin ", plugin.name, ")"));
    }
  }
  return list;
}

absl::Status CheckPlugins(const gq::v1::JobSpec& spec, const graph::Model& model) {
  if (spec.plugin().empty()) return absl::OkStatus();
  GQ_ASSIGN_OR_RETURN(const std::vector<Plugin> all, AllPlugins());
  std::vector<std::string> names;
  for (const Plugin& plugin : all) names.push_back(plugin.name);
  for (const std::string& name : spec.plugin()) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return MakeError(Reason::kInvalidFlag, StrCat("there is no plugin '", name, "'"),
                       names.empty() ? std::string("No plugins are installed (GQ_PLUGINS).")
                                     : StrCat("Plugins: ", base::StrJoin(names, ", "), "."));
    }
  }
  const std::set<std::string> operators = Operators(model);
  for (const Plugin& plugin : Wanted(spec, all)) {
    const std::string why_not = harness::WhyNotFor(plugin, spec.scheme(), spec.device(), operators);
    if (!why_not.empty()) {
      return MakeError(Reason::kInvalidFlag,
                       StrCat("plugin ", plugin.name, " does not fit: ", why_not),
                       StrCat("Leave --plugin ", plugin.name, " out."));
    }
    if (!spec.consent()) {
      return MakeError(Reason::kConsentRequired,
                       StrCat("plugin ", plugin.name, " ", plugin.version, ": ", plugin.consent),
                       "Agree with --yes, or leave --plugin out.");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<json> ApplyPlugins(harness::PluginStage stage, const gq::v1::JobSpec& spec,
                                  const fs::path& model, const fs::path& output, StepLog& log) {
  json records = json::array();
  if (spec.plugin().empty()) return records;
  GQ_ASSIGN_OR_RETURN(const std::vector<Plugin> all, AllPlugins());
  fs::path from = model;
  std::error_code error;
  for (const Plugin& plugin : Wanted(spec, all)) {
    if (plugin.stage != stage) continue;
    const fs::path to =
        output.parent_path() / StrCat("plugin_", records.size(), "_", output.filename().string());
    GQ_ASSIGN_OR_RETURN(json record, Apply(plugin, spec, from, to, log));
    records.push_back(std::move(record));
    fs::rename(to, output, error);
    if (error) {
      return MakeError(Reason::kFileUnwritable, StrCat(output.string(), ": ", error.message()));
    }
    from = output;
  }
  return records;
}

absl::StatusOr<json> ApplyModelPlugins(const JobInputs& inputs, StepLog& log, graph::Model& model) {
  if (inputs.spec.plugin().empty()) return json();
  GQ_RETURN_IF_ERROR(CheckPlugins(inputs.spec, model));
  // What is mapped stays readable without its name.
  GQ_ASSIGN_OR_RETURN(const base::TemporaryFolder folder,
                      base::TemporaryFolder::Make("gq-plugin-"));
  fs::path given = inputs.model;
  const fs::path output = folder.path() / given.filename().replace_extension(".onnx");
  if (given.extension() == ".onnxtxt") {
    // A plugin reads the binary form.
    given = folder.path() / "given" / output.filename();
    GQ_RETURN_IF_ERROR(base::MakeFolder(given.parent_path()));
    GQ_RETURN_IF_ERROR(graph::SaveModel(model, given));
  }
  GQ_ASSIGN_OR_RETURN(json records,
                      ApplyPlugins(harness::PluginStage::kModel, inputs.spec, given, output, log));
  if (!records.empty()) {
    GQ_ASSIGN_OR_RETURN(model, graph::LoadModel(output));
  }
  return records;
}

}  // namespace gq::worker
