#include "common/job/run_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/job/run_detail.h"
#include "common/job/run_file_reader.h"

namespace gq::job {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;
using Kind = YamlNode::Kind;

// Flags that are no keys: the files themselves.
bool IsKey(const FlagDef& flag) {
  return (flag.verbs & kVerbRun) != 0 && flag.name != "file" && flag.name != "detail";
}

std::string KeyOf(std::string_view flag) {
  std::string key(flag);
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

bool IsPath(std::string_view flag) {
  return flag == "model" || flag == "reference" || flag == "calibration-data" ||
         flag == "evaluation-data" || flag == "labels" || flag == "config" || flag == "work-dir";
}

class Reader {
 public:
  Reader(std::string folder, RunFile* result) : folder_(std::move(folder)), result_(result) {}

  absl::Status Read(const YamlPlace& root) {
    std::vector<std::string> keys = {"version", "steps", "evaluate", "profile"};
    for (const FlagDef& flag : AllFlags()) {
      if (IsKey(flag)) keys.push_back(KeyOf(flag.name));
    }
    GQ_RETURN_IF_ERROR(root.ExpectKeys(keys));
    if (root.Has("version")) {
      const YamlPlace version = root.At("version");
      if (version.node->text != "1.0") return version.Error("expected \"1.0\"");
    }
    for (const FlagDef& flag : AllFlags()) {
      if (!IsKey(flag) || !root.Has(KeyOf(flag.name))) continue;
      GQ_RETURN_IF_ERROR(Flag(flag, root.At(KeyOf(flag.name))));
    }
    if (!root.Has("steps")) {
      return MakeError(Reason::kConfigInvalid,
                       StrCat(root.file,
                              ": the key steps is missing; expected a list with "
                              "graph_optimize, graph_quantize or both"),
                       "'gq init' writes a file to start from");
    }
    GQ_RETURN_IF_ERROR(Steps(root.At("steps")));
    return Rest(root);
  }

  bool optimizes() const { return optimizes_; }
  bool quantizes() const { return quantizes_; }

 private:
  std::string Resolved(std::string_view flag, const std::string& text) const {
    if (!IsPath(flag) || folder_.empty() || text.empty()) return text;
    if (text.starts_with("data:") || fs::path(text).is_absolute()) return text;
    // A preset is a name, not a file.
    std::error_code ignored;
    const fs::path there = fs::path(folder_) / text;
    if (flag == "config" && !fs::exists(there, ignored)) return text;
    return there.lexically_normal().string();
  }

  absl::Status Flag(const FlagDef& flag, const YamlPlace& place) {
    RunSetting setting{.flag = std::string(flag.name), .where = place.Where()};
    if (flag.shape == FlagShape::kSwitch) {
      GQ_ASSIGN_OR_RETURN(setting.on, place.Flag());
    } else if (place.node->kind == Kind::kMap) {
      // label: {team: vision}, input_shape: {x: 1x3x224x224}
      if (flag.shape != FlagShape::kRepeat || flag.value_name.find('=') == std::string::npos) {
        return place.Error("expected a value or a list, found a mapping");
      }
      for (const auto& [key, value] : place.node->entries) {
        const YamlPlace entry = place.At(key.text);
        GQ_ASSIGN_OR_RETURN(const std::vector<std::string> parts, entry.Texts());
        setting.values.push_back(StrCat(key.text, "=", base::StrJoin(parts, "x")));
      }
    } else if (flag.shape == FlagShape::kValue) {
      GQ_ASSIGN_OR_RETURN(std::string text, place.Text());
      setting.values.push_back(Resolved(flag.name, text));
    } else {
      GQ_ASSIGN_OR_RETURN(const std::vector<std::string> texts, place.Texts());
      if (texts.empty()) return absl::OkStatus();
      for (const std::string& text : texts) setting.values.push_back(Resolved(flag.name, text));
    }
    if (flag.name == "scheme") result_->scheme_where = place.Where();
    result_->settings.push_back(std::move(setting));
    return absl::OkStatus();
  }

  absl::Status Steps(const YamlPlace& steps) {
    GQ_RETURN_IF_ERROR(steps.Expect(Kind::kList));
    for (size_t i = 0; i < steps.node->items.size(); ++i) {
      const YamlPlace step = steps.At(i);
      GQ_RETURN_IF_ERROR(step.ExpectKeys({"graph_optimize", "graph_quantize"}));
      if (step.node->entries.size() != 1) {
        return step.Error("a step is a mapping of one key: graph_optimize or graph_quantize");
      }
      const std::string& name = step.node->entries[0].key.text;
      const YamlPlace body = step.At(name);
      if (name == "graph_optimize") {
        if (optimizes_) return body.Error("graph_optimize stands here twice");
        if (quantizes_) return body.Error("graph_optimize comes before graph_quantize");
        if (!body.IsNull()) return body.Error("expected null: this step has no keys");
        optimizes_ = true;
        continue;
      }
      if (quantizes_) return body.Error("graph_quantize stands here twice");
      quantizes_ = true;
      GQ_RETURN_IF_ERROR(Quantize(body));
    }
    if (!optimizes_ && !quantizes_) return steps.Error("expected at least one step");
    return absl::OkStatus();
  }

  absl::Status Quantize(const YamlPlace& body) {
    YamlPlace mapping = body;
    if (body.node->kind == Kind::kList) {
      if (body.node->items.size() != 1) return body.Error("expected a list of one mapping");
      mapping = body.At(size_t{0});
    }
    if (mapping.IsNull()) return mapping.Error("the key scheme is required");
    GQ_RETURN_IF_ERROR(mapping.ExpectKeys({"scheme", "automatic_mixed_precision"}));
    if (!mapping.Has("scheme")) {
      const std::string legal = base::StrJoin(FindFlag("scheme")->legal, ", ");
      return mapping.Error(StrCat("the key scheme is required: one of ", legal));
    }
    const YamlPlace scheme = mapping.At("scheme");
    std::vector<std::string> legal(FindFlag("scheme")->legal.begin(),
                                   FindFlag("scheme")->legal.end());
    GQ_ASSIGN_OR_RETURN(const std::string name, scheme.Text());
    if (std::find(legal.begin(), legal.end(), name) == legal.end()) {
      return scheme.Error(StrCat("expected one of ", base::StrJoin(legal, ", ")), "",
                          Reason::kSchemeIllegal);
    }
    for (const RunSetting& setting : result_->settings) {
      if (setting.flag == "scheme") {
        return scheme.Error(StrCat("the scheme is given twice, here and in ", setting.where));
      }
    }
    result_->scheme_where = scheme.Where();
    result_->settings.push_back({.flag = "scheme", .values = {name}, .where = scheme.Where()});
    if (!mapping.Has("automatic_mixed_precision")) return absl::OkStatus();
    const YamlPlace search = mapping.At("automatic_mixed_precision");
    GQ_ASSIGN_OR_RETURN(const std::string strategy, search.OneOf({"GREEDY", "SENSITIVITY"}));
    result_->search = true;
    result_->settings.push_back({.flag = "explore-strategy",
                                 .values = {strategy == "GREEDY" ? "greedy" : "sensitivity"},
                                 .where = search.Where()});
    return absl::OkStatus();
  }

  // evaluate and profile: an empty mapping, or nothing behind the colon.
  absl::Status Rest(const YamlPlace& root) {
    bool evaluates = false;
    for (const char* key : {"evaluate", "profile"}) {
      if (root.node->Find(key) == nullptr) continue;
      const YamlPlace place = root.At(key);
      if (!place.IsNull()) {
        GQ_RETURN_IF_ERROR(place.Expect(Kind::kMap));
        if (!place.node->entries.empty()) return place.Error("expected {}: it has no keys");
      }
      if (!quantizes_) {
        return place.Error("there is no graph_quantize step, so there is nothing to do this with");
      }
      (std::string_view(key) == "evaluate" ? evaluates : result_->profile) = true;
    }
    if (optimizes_) result_->steps.push_back("graph_optimize");
    if (quantizes_) result_->steps.push_back("graph_quantize");
    if (evaluates) result_->steps.push_back("evaluate");
    if (!optimizes_) {
      result_->notes.push_back("without graph_optimize the model is taken as it is");
    }
    return absl::OkStatus();
  }

  std::string folder_;
  RunFile* result_;
  bool optimizes_ = false;
  bool quantizes_ = false;
};

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    return MakeError(Reason::kFileNotFound, StrCat(path, ": no such file"),
                     "'gq init' writes run.yaml and run.detail.yaml");
  }
  if (!fs::is_regular_file(path, ignored)) {
    return MakeError(Reason::kFileUnreadable, StrCat(path, ": expected a file"));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxYamlBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return MakeError(Reason::kFileUnreadable, StrCat(path, ": ", std::strerror(errno)),
                     "give a file that you may read");
  }
  text.resize(file.gcount());
  return text;
}

const RunSetting* Setting(const RunFile& file, std::string_view flag) {
  for (const RunSetting& setting : file.settings) {
    if (setting.flag == flag) return &setting;
  }
  return nullptr;
}

}  // namespace

std::vector<std::string_view> SchemesOfDevice(std::string_view device) {
  if (device.starts_with("ve2")) {
    return {"vint8", "bf16", "fp16", "vint8+bf16", "vint8+fp16", "xint8"};
  }
  if (device.starts_with("xnnpack")) return {"W8-A8", "W8-A8_dynamic", "W4-A8_dynamic"};
  if (device.starts_with("ethos-u")) return {"W8-A8", "W8-A16"};
  return {};
}

absl::StatusOr<RunFile> ParseRunFile(std::string_view text, const std::string& file,
                                     std::string_view detail_text, const std::string& detail_file,
                                     const std::string& folder) {
  RunFile result;
  result.path = file;
  GQ_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(text, file));
  if (root.kind != Kind::kMap) {
    return MakeError(
        Reason::kConfigInvalid,
        StrCat(file, ": expected a mapping with the key steps, found ", YamlKindName(root.kind)),
        "'gq init' writes a file to start from");
  }
  Reader reader(folder, &result);
  GQ_RETURN_IF_ERROR(reader.Read({&root, file, ""}));
  if (detail_file.empty()) return result;
  GQ_ASSIGN_OR_RETURN(const YamlNode detail, ParseYaml(detail_text, detail_file));
  const RunSetting* scheme = Setting(result, "scheme");
  const std::string name = scheme == nullptr ? std::string() : scheme->values[0];
  GQ_RETURN_IF_ERROR(ReadRunDetail({&detail, detail_file, ""}, name, reader.quantizes(), &result));
  return result;
}

absl::StatusOr<RunFile> ReadRunFile(const std::string& path, const std::string& detail_path) {
  GQ_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  std::string detail_file = detail_path;
  const fs::path folder = fs::path(path).parent_path();
  if (detail_file.empty()) {
    const fs::path beside = folder / "run.detail.yaml";
    std::error_code ignored;
    if (fs::exists(beside, ignored)) detail_file = beside.string();
  }
  std::string detail_text;
  if (!detail_file.empty()) {
    GQ_ASSIGN_OR_RETURN(detail_text, ReadText(detail_file));
  }
  return ParseRunFile(text, path, detail_text, detail_file, folder.string());
}

absl::Status ApplyRunFile(const RunFile& file, const std::function<bool(std::string_view)>& given,
                          JobRequest& request) {
  for (const RunSetting& setting : file.settings) {
    if (given(setting.flag) || !setting.on) continue;
    const absl::Status status = ApplyFlag(*FindFlag(setting.flag), setting.values, request);
    if (!status.ok()) return base::AddContext(status, setting.where);
  }
  gq::v1::JobSpec& spec = request.spec;
  if (!given("scheme") && !spec.device().empty() && !spec.scheme().empty()) {
    const std::vector<std::string_view> legal = SchemesOfDevice(spec.device());
    if (!legal.empty() && std::find(legal.begin(), legal.end(), spec.scheme()) == legal.end()) {
      return MakeError(Reason::kSchemeIllegal,
                       StrCat(file.scheme_where, " '", spec.scheme(), "': the device ",
                              spec.device(), " takes ", base::StrJoin(legal, ", ")),
                       "choose another scheme, or another device");
    }
  }
  *spec.mutable_quantize_detail() = file.detail;
  spec.mutable_step()->Assign(file.steps.begin(), file.steps.end());
  if (!file.profile && !given("stage")) spec.set_stage(gq::v1::STAGE_QUANTIZE);
  if (file.search && !spec.explore()) spec.set_search_in_quantize(true);
  return absl::OkStatus();
}

}  // namespace gq::job
