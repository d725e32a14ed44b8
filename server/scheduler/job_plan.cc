#include "server/scheduler/job_plan.h"

#include <algorithm>

#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/job/exec_condition.h"
#include "common/job/performance_target.h"

namespace gq::server {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;
using namespace gq::v1;  // the kinds and stages of the contract

constexpr int kMaxPriority = 100;
constexpr size_t kMaxText = 4096;

absl::Status BadField(std::string_view field, std::string_view what, std::string_view hint = "") {
  return MakeError(Reason::kInvalidFlag, StrCat("field `", field, "`: ", what), hint);
}

// Names come back as names of files in results, so they must not lead anywhere.
absl::Status CheckFile(std::string_view field, const FileRef& file, bool with_folder) {
  const std::string& name = file.name();
  if (name.empty() || name.size() > kMaxText || name.find('\0') != std::string::npos) {
    return BadField(field, "a file has no name, or one that is too long");
  }
  for (const std::string_view part : base::StrSplit(name, '/')) {
    if (part.empty() || part == "." || part == "..") {
      return BadField(field, StrCat("'", name, "' is not a plain relative path"));
    }
  }
  if (!with_folder && name.find('/') != std::string::npos) {
    return BadField(field, StrCat("'", name, "' has a folder; only its name is expected"));
  }
  if (!base::IsSha256Hex(file.digest().sha256()) || file.digest().size_bytes() < 0) {
    return BadField(field, StrCat("'", name, "' has no valid digest"),
                    "a digest is 64 lower-case hexadecimal digits and a size");
  }
  return absl::OkStatus();
}

absl::Status CheckModel(std::string_view field, const ModelRef& model) {
  GQ_RETURN_IF_ERROR(CheckFile(field, model.file(), false));
  std::vector<std::string> names = {model.file().name()};
  for (const FileRef& data : model.external_data()) {
    GQ_RETURN_IF_ERROR(CheckFile(field, data, true));
    names.push_back(data.name());
  }
  std::sort(names.begin(), names.end());
  if (std::adjacent_find(names.begin(), names.end()) != names.end()) {
    return BadField(field, "two files have the same name");
  }
  return absl::OkStatus();
}

absl::Status CheckFiles(const JobSpec& spec) {
  if (!spec.has_model()) {
    return BadField("model", "is required", "give the model with --model");
  }
  GQ_RETURN_IF_ERROR(CheckModel("model", spec.model()));
  if (spec.has_reference()) GQ_RETURN_IF_ERROR(CheckModel("reference", spec.reference()));
  for (const FileRef& file : spec.calibration_data()) {
    GQ_RETURN_IF_ERROR(CheckFile("calibration_data", file, false));
  }
  for (const FileRef& file : spec.evaluation_data()) {
    GQ_RETURN_IF_ERROR(CheckFile("evaluation_data", file, false));
  }
  if (spec.has_labels()) GQ_RETURN_IF_ERROR(CheckFile("labels", spec.labels(), false));
  return absl::OkStatus();
}

absl::Status CheckTimeout(std::string_view field, const google::protobuf::Duration& timeout) {
  if (timeout.seconds() < 0 || timeout.nanos() < 0) return BadField(field, "is negative");
  return absl::OkStatus();
}

// `step` names a subset of the steps that starts with one that makes a model.
absl::Status CheckStepNames(const JobSpec& spec) {
  bool quantizes = spec.step().empty();
  bool optimizes = spec.step().empty();
  for (const std::string& name : spec.step()) {
    optimizes = optimizes || name == "graph_optimize";
    quantizes = quantizes || name == "graph_quantize";
    if (name != "graph_optimize" && name != "graph_quantize" && name != "evaluate") {
      return BadField(
          "step", StrCat("'", name, "' is none of graph_optimize, graph_quantize, ", "evaluate"));
    }
  }
  if (spec.step().empty()) return absl::OkStatus();
  if (spec.kind() != JOB_KIND_UNSPECIFIED && spec.kind() != JOB_KIND_FULL &&
      spec.kind() != JOB_KIND_REQUANTIZE) {
    return BadField("step", "belongs to the modes full and requantize");
  }
  const bool more = spec.step_size() > (optimizes ? 1 : 0) + (quantizes ? 1 : 0) ||
                    spec.stage() >= STAGE_COMPILE || spec.explore();
  if (!quantizes && (more || !optimizes)) {
    return BadField("step", "evaluate, the search and compile need graph_quantize");
  }
  if (!optimizes && spec.explore()) return BadField("step", "the search needs graph_optimize");
  return absl::OkStatus();
}

absl::Status CheckFields(const JobSpec& spec) {
  if (!JobKind_IsValid(spec.kind())) return BadField("kind", "is not known to this server");
  if (!Stage_IsValid(spec.stage())) return BadField("stage", "is not known to this server");
  if (spec.priority() < -kMaxPriority || spec.priority() > kMaxPriority) {
    return BadField("priority", StrCat(spec.priority(), " is not between -100 and 100"));
  }
  if (!spec.config_name().empty() && !spec.config_json().empty()) {
    return BadField("config_json", "excludes `config_name`");
  }
  if (!spec.visibility().empty() && spec.visibility() != "private" && spec.visibility() != "team") {
    return BadField("visibility", StrCat("'", spec.visibility(), "' is neither private nor team"));
  }
  if (spec.has_num_samples() && spec.num_samples() < 1) {
    return BadField("num_samples", "must be at least 1");
  }
  if (spec.has_threads() && spec.threads() < 1) return BadField("threads", "must be at least 1");
  if (spec.name().size() > kMaxText || spec.note().size() > kMaxText) {
    return BadField("name", "name and note have at most 4096 bytes");
  }
  if (spec.engine() == "quark" &&
      (spec.explore() || spec.search_in_quantize() || spec.kind() == JOB_KIND_DRY_RUN)) {
    return BadField("engine", "quark neither searches nor makes dry runs",
                    "leave --engine out: the built-in one does both");
  }
  GQ_RETURN_IF_ERROR(CheckStepNames(spec));
  GQ_RETURN_IF_ERROR(job::CheckExecCondition(spec.exec_if()));
  GQ_RETURN_IF_ERROR(CheckTimeout("queue_timeout", spec.queue_timeout()));
  return CheckTimeout("run_timeout", spec.run_timeout());
}

bool IsMixed(std::string_view scheme) { return scheme == "vint8+bf16" || scheme == "vint8+fp16"; }

bool NamesLayers(const JobSpec& spec) {
  return !spec.config_name().empty() || !spec.config_json().empty() || spec.fp_nodes_size() > 0 ||
         spec.fp_op_types_size() > 0;
}

bool Compiles(const JobSpec& spec) {
  if (spec.kind() == JOB_KIND_COMPILE) return true;
  return (spec.kind() == JOB_KIND_FULL || spec.kind() == JOB_KIND_REQUANTIZE) &&
         spec.stage() >= STAGE_COMPILE;
}

bool RunsOnBoard(const JobSpec& spec) {
  if (spec.kind() == JOB_KIND_BOARD_RUN) return true;
  return Compiles(spec) && spec.kind() != JOB_KIND_COMPILE && spec.stage() == STAGE_EXEC;
}

// True for schemes of the Arm devices.
bool IsArmScheme(std::string_view scheme) { return scheme.substr(0, 1) == "W"; }

void FillDevice(JobSpec* spec) {
  // An Arm scheme without a device goes to the first registered device that takes it.
  if (spec->device().empty() && !IsArmScheme(spec->scheme())) spec->set_device("ve2");
}

// The scheme that a board has to take. The request keeps an empty one: the strategy of the worker
// tells a scheme that was asked for from one that follows from the device.
std::string SchemeOf(const JobSpec& spec) {
  if (spec.kind() != JOB_KIND_FULL || !spec.scheme().empty() || NamesLayers(spec)) {
    return spec.scheme();
  }
  const bool arm_device =
      spec.device().rfind("xnnpack", 0) == 0 || spec.device().rfind("ethos-u", 0) == 0;
  return arm_device ? "W8-A8" : "vint8";
}

}  // namespace

std::string_view StepTitle(StepKind kind) {
  switch (kind) {
    case STEP_KIND_GRAPH_OPTIMIZE:
      return "Graph Optimize";
    case STEP_KIND_GRAPH_QUANTIZE:
      return "Graph Quantize";
    case STEP_KIND_EVALUATE:
      return "Evaluate";
    case STEP_KIND_EXPLORE:
      return "Explore";
    case STEP_KIND_COMPILE:
      return "Compile";
    case STEP_KIND_BOARD_RUN:
      return "Board Run";
    case STEP_KIND_DRY_RUN:
      return "Dry Run";
    case STEP_KIND_DEQUANTIZE:
      return "Dequantize";
    case STEP_KIND_ANALYZE:
      return "Analyze";
    default:
      return "Step";
  }
}

absl::Status CompleteSpec(JobSpec* spec) {
  GQ_RETURN_IF_ERROR(CheckFields(*spec));
  GQ_RETURN_IF_ERROR(CheckFiles(*spec));
  if (spec->kind() == JOB_KIND_UNSPECIFIED) spec->set_kind(JOB_KIND_FULL);
  if (spec->stage() == STAGE_UNSPECIFIED) spec->set_stage(STAGE_COMPILE);
  if (spec->kind() == JOB_KIND_FULL || spec->kind() == JOB_KIND_REQUANTIZE ||
      spec->kind() == JOB_KIND_DRY_RUN) {
    GQ_RETURN_IF_ERROR(job::CheckPerformanceTargets(*spec));
  }
  FillDevice(spec);
  if (IsMixed(spec->scheme()) && !NamesLayers(*spec) && !spec->explore() &&
      (spec->kind() == JOB_KIND_FULL || spec->kind() == JOB_KIND_REQUANTIZE)) {
    spec->set_explore(true);
    if (spec->explore_strategy().empty()) spec->set_explore_strategy("sensitivity");
  }
  return absl::OkStatus();
}

std::vector<StepPlan> PlanSteps(const JobSpec& spec) {
  std::vector<StepPlan> steps;
  const auto wanted = [&spec](std::string_view name) {
    return spec.step().empty() ||
           std::find(spec.step().begin(), spec.step().end(), name) != spec.step().end();
  };
  const auto add = [&](StepKind kind) {
    StepPlan& step = steps.emplace_back();
    step.kind = kind;
    step.title = std::string(StepTitle(kind));
    if (kind == STEP_KIND_COMPILE || kind == STEP_KIND_BOARD_RUN) {
      step.need.kind = kind == STEP_KIND_COMPILE ? NeedKind::kCompile : NeedKind::kExec;
      step.need.device = spec.device();
      step.need.scheme = SchemeOf(spec);
      step.need.board = spec.board();
      step.need.tags.assign(spec.tag().begin(), spec.tag().end());
    }
  };
  switch (spec.kind()) {
    case JOB_KIND_REQUANTIZE:
      add(STEP_KIND_DEQUANTIZE);
      [[fallthrough]];
    case JOB_KIND_FULL:
      if (wanted("graph_optimize")) add(STEP_KIND_GRAPH_OPTIMIZE);
      if (wanted("graph_quantize")) add(STEP_KIND_GRAPH_QUANTIZE);
      if (wanted("evaluate")) add(STEP_KIND_EVALUATE);
      if (spec.explore()) add(STEP_KIND_EXPLORE);
      break;
    case JOB_KIND_DRY_RUN:
      add(STEP_KIND_GRAPH_OPTIMIZE);
      add(STEP_KIND_DRY_RUN);
      break;
    case JOB_KIND_ANALYZE:
      add(STEP_KIND_ANALYZE);
      break;
    case JOB_KIND_DEQUANTIZE:
      add(STEP_KIND_DEQUANTIZE);
      break;
    case JOB_KIND_EVALUATE:
      add(STEP_KIND_EVALUATE);
      break;
    default:
      break;
  }
  if (Compiles(spec)) add(STEP_KIND_COMPILE);
  if (RunsOnBoard(spec)) add(STEP_KIND_BOARD_RUN);
  return steps;
}

std::vector<Digest> BlobsOf(const JobSpec& spec) {
  std::vector<Digest> blobs;
  const auto add_model = [&](const ModelRef& model) {
    blobs.push_back(model.file().digest());
    for (const FileRef& file : model.external_data()) blobs.push_back(file.digest());
  };
  if (spec.has_model()) add_model(spec.model());
  if (spec.has_reference()) add_model(spec.reference());
  for (const FileRef& file : spec.calibration_data()) blobs.push_back(file.digest());
  for (const FileRef& file : spec.evaluation_data()) blobs.push_back(file.digest());
  if (spec.has_labels()) blobs.push_back(spec.labels().digest());
  return blobs;
}

}  // namespace gq::server
