// gq init and gq validate.
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "client/cli/command.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/job/run_file.h"

namespace gq::cli {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;

struct InitFlags {
  std::string folder = ".";
  bool force = false;
};

absl::StatusOr<int> Init(Session& session, const InitFlags& flags) {
  std::error_code error;
  fs::create_directories(flags.folder, error);
  if (error) {
    return MakeError(Reason::kFileUnwritable, StrCat(flags.folder, ": ", error.message()),
                     "give a folder that you may write to");
  }
  const std::pair<const char*, std::string> files[] = {
      {"run.yaml", job::RunFileTemplate()}, {"run.detail.yaml", job::RunDetailTemplate()}};
  for (const auto& [name, text] : files) {
    const fs::path path = fs::path(flags.folder) / name;
    if (!flags.force && fs::exists(path, error)) {
      return MakeError(Reason::kAlreadyExists, StrCat(path.string(), " is there already"),
                       "give another folder, or --force to write it anew");
    }
  }
  std::string shown;
  for (const auto& [name, text] : files) {
    const fs::path path = fs::path(flags.folder) / name;
    GQ_RETURN_IF_ERROR(base::WriteFileAtomically(path, text));
    base::StrAppend(&shown, "wrote ", path.lexically_normal().string(), "\n");
  }
  const std::string run = (fs::path(flags.folder) / "run.yaml").lexically_normal().string();
  session.console.Print(StrCat(shown, "\nSet `model` and the data, then: gq validate ", run,
                               " && gq run -f ", run, "\n"));
  return 0;
}

// What the files mean, after all that can be checked without a model was checked.
absl::StatusOr<int> Validate(Session& session, const std::string& path, const std::string& detail,
                             bool json) {
  GQ_ASSIGN_OR_RETURN(const job::RunFile file, job::ReadRunFile(path, detail));
  job::JobRequest request;
  GQ_RETURN_IF_ERROR(job::ApplyRunFile(
      file, [](std::string_view) { return false; }, request));
  std::vector<std::string> missing;
  const auto check = [&missing](std::string_view key, const std::string& name) {
    std::error_code ignored;
    if (!name.empty() && !name.starts_with("data:") && !fs::exists(name, ignored)) {
      missing.push_back(StrCat(key, ": ", name));
    }
  };
  check("model", request.local.model);
  check("reference", request.local.reference);
  check("labels", request.local.labels);
  for (const std::string& data : request.local.calibration_data) check("calibration_data", data);
  for (const std::string& data : request.local.evaluation_data) check("evaluation_data", data);
  if (!missing.empty()) {
    return MakeError(Reason::kFileNotFound,
                     StrCat(path, ": no such file: ", base::StrJoin(missing, "; ")),
                     "paths are relative to the folder of run.yaml");
  }
  if (json) {
    session.console.PrintJson({{"valid", true}, {"steps", file.steps}, {"notes", file.notes}});
    return 0;
  }
  std::string text = StrCat(path, " is valid: ", base::StrJoin(file.steps, ", "));
  if (file.profile) {
    base::StrAppend(
        &text, request.spec.stage() == gq::v1::STAGE_EXEC ? ", compile, board run" : ", compile");
  }
  for (const job::RunSetting& setting : file.settings) {
    base::StrAppend(&text, "\n  ", setting.flag, ": ",
                    setting.values.empty() ? std::string(setting.on ? "true" : "false")
                                           : base::StrJoin(setting.values, ", "));
  }
  for (const std::string& note : file.notes) base::StrAppend(&text, "\n  note: ", note);
  session.console.Print(text + "\n");
  return 0;
}

}  // namespace

void AddRunFileCommands(CLI::App& root, CommandSet& commands) {
  auto init = std::make_shared<InitFlags>();
  CLI::App* command = commands.Add(
      root, "init", "Write a commented run.yaml and run.detail.yaml.", "gq init\ngq init my-job",
      [&commands, init]() -> absl::StatusOr<int> { return Init(commands.session(), *init); });
  command->add_option("FOLDER", init->folder, "Where to write them. [this folder]")->type_name("");
  command->add_flag("--force", init->force, "Overwrite files that are there.");

  struct ValidateFlags {
    std::string path = "run.yaml";
    std::string detail;
    bool json = false;
  };
  auto flags = std::make_shared<ValidateFlags>();
  CLI::App* validate = commands.Add(
      root, "validate", "Check run.yaml and run.detail.yaml without running anything.",
      "gq validate\ngq validate jobs/run.yaml", [&commands, flags]() -> absl::StatusOr<int> {
        ShowOptions show;
        show.json = flags->json;
        commands.session().console.Configure(show);
        return Validate(commands.session(), flags->path, flags->detail, flags->json);
      });
  validate->add_option("FILE", flags->path, "The file. [run.yaml]")->type_name("");
  validate->add_option("--detail", flags->detail, "Details of the steps. [beside run.yaml]")
      ->type_name("run.detail.yaml");
  validate->add_flag("--json", flags->json, "One JSON object instead of text.");
}

}  // namespace gq::cli
