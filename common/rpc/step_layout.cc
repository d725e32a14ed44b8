#include "common/rpc/step_layout.h"

#include <system_error>
#include <utility>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::rpc {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;

bool IsPlainName(std::string_view name) {
  return IsSafeRelativePath(name) && name.find('/') == std::string_view::npos;
}

absl::Status BadName(std::string_view what, const std::string& name) {
  return MakeError(
      Reason::kDataInvalid,
      base::StrCat("the ", what, " is named '", name, "', which is no plain file name"),
      "Rename the file and submit again.");
}

fs::path Numbered(const char* folder, int index, const std::string& name) {
  return fs::path("in") / folder / base::StrCat(index, "_", name);
}

absl::Status AddFile(std::string_view what, const gq::v1::FileRef& file, const fs::path& path,
                     std::vector<StepInput>& inputs) {
  if (!IsPlainName(file.name())) return BadName(what, file.name());
  inputs.push_back({path, file.digest()});
  return absl::OkStatus();
}

absl::Status AddModel(std::string_view what, const gq::v1::ModelRef& model, const fs::path& folder,
                      std::vector<StepInput>& inputs) {
  GQ_RETURN_IF_ERROR(AddFile(what, model.file(), folder / model.file().name(), inputs));
  for (const gq::v1::FileRef& data : model.external_data()) {
    if (!IsSafeRelativePath(data.name()) || data.name() == model.file().name()) {
      return BadName("external data", data.name());
    }
    inputs.push_back({folder / data.name(), data.digest()});
  }
  return absl::OkStatus();
}

bool RunsModels(gq::v1::StepKind kind) {
  return kind != gq::v1::STEP_KIND_COMPILE && kind != gq::v1::STEP_KIND_ANALYZE;
}

// Links the files below `folder`, each as N/NAME.
absl::StatusOr<std::vector<fs::path>> LinkByName(
    const fs::path& folder, const std::vector<fs::path>& files,
    const google::protobuf::RepeatedPtrField<gq::v1::FileRef>& references) {
  std::vector<fs::path> links;
  for (size_t i = 0; i < files.size(); ++i) {
    const fs::path place = folder / std::to_string(i);
    fs::path link = place / references.Get(static_cast<int>(i)).name();
    std::error_code error;
    fs::create_directories(place, error);
    std::error_code ignored;
    if (!error && !fs::is_symlink(link, ignored)) fs::create_symlink(files[i], link, error);
    if (error) {
      return MakeError(Reason::kFileUnwritable, base::StrCat(link.string(), ": ", error.message()));
    }
    links.push_back(std::move(link));
  }
  return links;
}

}  // namespace

bool IsSafeRelativePath(std::string_view path) {
  if (path.empty() || path.size() > 1024) return false;
  for (const char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\') return false;
  }
  for (const std::string_view part : base::StrSplit(path, '/')) {
    if (part.empty() || part == "." || part == ".." || part.size() > 255) return false;
  }
  return true;
}

absl::StatusOr<std::vector<StepInput>> StepInputs(const gq::v1::Lease& lease) {
  const gq::v1::JobSpec& spec = lease.spec();
  std::vector<StepInput> inputs;
  for (const gq::v1::Artifact& artifact : lease.inputs()) {
    if (!IsSafeRelativePath(artifact.path())) return BadName("earlier result", artifact.path());
    inputs.push_back({fs::path("in/artifacts") / artifact.path(), artifact.digest()});
  }
  if (spec.has_model()) GQ_RETURN_IF_ERROR(AddModel("model", spec.model(), "in/model", inputs));
  // An analysis runs models only when there is another one to compare with.
  // A compile does so when it may change the quantization for the sake of offload.
  const bool requantizes =
      lease.kind() == gq::v1::STEP_KIND_COMPILE && spec.offload_goal() == "full";
  const bool compares = lease.kind() == gq::v1::STEP_KIND_ANALYZE && spec.has_reference();
  if (!RunsModels(lease.kind()) && !compares && !requantizes) return inputs;
  if (spec.has_reference()) {
    GQ_RETURN_IF_ERROR(AddModel("reference model", spec.reference(), "in/reference", inputs));
  }
  for (int i = 0; i < spec.calibration_data_size(); ++i) {
    const gq::v1::FileRef& file = spec.calibration_data(i);
    GQ_RETURN_IF_ERROR(
        AddFile("calibration data", file, Numbered("calibration", i, file.name()), inputs));
  }
  for (int i = 0; i < spec.evaluation_data_size(); ++i) {
    const gq::v1::FileRef& file = spec.evaluation_data(i);
    GQ_RETURN_IF_ERROR(
        AddFile("evaluation data", file, Numbered("evaluation", i, file.name()), inputs));
  }
  if (spec.has_labels()) {
    GQ_RETURN_IF_ERROR(
        AddFile("labels", spec.labels(), fs::path("in/labels") / spec.labels().name(), inputs));
  }
  return inputs;
}

StepFiles::StepFiles(fs::path work_dir, const gq::v1::Lease& lease)
    : work_dir_(std::move(work_dir)), lease_(lease) {}

fs::path StepFiles::model() const {
  return work_dir_ / "in/model" / lease_.spec().model().file().name();
}

std::optional<fs::path> StepFiles::reference() const {
  if (!lease_.spec().has_reference()) return std::nullopt;
  return work_dir_ / "in/reference" / lease_.spec().reference().file().name();
}

std::optional<fs::path> StepFiles::labels() const {
  if (!lease_.spec().has_labels()) return std::nullopt;
  return work_dir_ / "in/labels" / lease_.spec().labels().name();
}

std::vector<fs::path> StepFiles::calibration() const {
  std::vector<fs::path> paths;
  for (const gq::v1::FileRef& file : lease_.spec().calibration_data()) {
    paths.push_back(work_dir_ /
                    Numbered("calibration", static_cast<int>(paths.size()), file.name()));
  }
  return paths;
}

std::vector<fs::path> StepFiles::evaluation() const {
  std::vector<fs::path> paths;
  for (const gq::v1::FileRef& file : lease_.spec().evaluation_data()) {
    paths.push_back(work_dir_ /
                    Numbered("evaluation", static_cast<int>(paths.size()), file.name()));
  }
  return paths;
}

absl::StatusOr<std::vector<fs::path>> StepFiles::NamedCalibration() const {
  return LinkByName(work_dir_ / "tmp/data/calibration", calibration(),
                    lease_.spec().calibration_data());
}

absl::StatusOr<std::vector<fs::path>> StepFiles::NamedEvaluation() const {
  return LinkByName(work_dir_ / "tmp/data/evaluation", evaluation(),
                    lease_.spec().evaluation_data());
}

std::optional<fs::path> StepFiles::artifact(std::string_view path) const {
  for (const gq::v1::Artifact& artifact : lease_.inputs()) {
    if (artifact.path() == path) return work_dir_ / "in/artifacts" / path;
  }
  return std::nullopt;
}

absl::StatusOr<fs::path> StepFiles::output(std::string_view path) const {
  if (!IsSafeRelativePath(path)) {
    return MakeError(Reason::kInternal, base::StrCat("'", path, "' is no path for a result"));
  }
  fs::path target = work_dir_ / "out" / path;
  GQ_RETURN_IF_ERROR(base::MakeFolder(target.parent_path()));
  return target;
}

}  // namespace gq::rpc
