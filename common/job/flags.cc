#include "common/job/flags.h"

#include <utility>

#include "CLI/App.hpp"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/job/performance_target.h"
#include "common/job/run_file.h"

namespace gq::job {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

// Flags that also have a short form.
std::string CommandLineName(std::string_view name) {
  if (name == "file") return "-f,--file";
  if (name == "activation-script") return "-t,--activation-script";
  if (name == "yes") return "-y,--yes";
  if (name == "quiet") return "-q,--quiet";
  if (name == "verbose") return "-v,--verbose";
  return StrCat("--", name);
}

absl::Status CheckAvailable(const FlagDef& flag, std::span<const std::string> values) {
  for (std::string_view entry : UnavailableFlags()) {
    if (entry == flag.name) {
      return MakeError(Reason::kNotAvailable, StrCat("not available yet: --", flag.name),
                       "leave the flag out");
    }
    for (const std::string& value : values) {
      if (entry == StrCat(flag.name, "=", value)) {
        return MakeError(Reason::kNotAvailable,
                         StrCat("not available yet: --", flag.name, " ", value),
                         StrCat("choose another value of --", flag.name));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLegal(const FlagDef& flag, const std::string& value) {
  if (flag.legal.empty()) return absl::OkStatus();
  for (std::string_view legal : flag.legal) {
    if (value == legal) return absl::OkStatus();
  }
  std::vector<std::string> legal(flag.legal.begin(), flag.legal.end());
  std::string hint;
  if (auto closest = base::ClosestNames(value, legal, 1); !closest.empty()) {
    hint = StrCat("did you mean ", closest[0], "?");
  }
  return MakeError(flag.name == "scheme" ? Reason::kSchemeIllegal : Reason::kInvalidFlag,
                   StrCat("--", flag.name, " '", value, "': expected ",
                          legal.size() > 1 ? "one of " : "", base::StrJoin(legal, ", ")),
                   hint);
}

gq::v1::JobKind KindOfVerb(Verb verb) {
  switch (verb) {
    case kVerbAnalyze:
      return gq::v1::JOB_KIND_ANALYZE;
    case kVerbDequantize:
      return gq::v1::JOB_KIND_DEQUANTIZE;
    case kVerbRequantize:
      return gq::v1::JOB_KIND_REQUANTIZE;
    case kVerbEvaluate:
      return gq::v1::JOB_KIND_EVALUATE;
    case kVerbDryRun:
      return gq::v1::JOB_KIND_DRY_RUN;
    case kVerbCompile:
      return gq::v1::JOB_KIND_COMPILE;
    case kVerbBoardRun:
      return gq::v1::JOB_KIND_BOARD_RUN;
    case kVerbRun:
    case kVerbQuantize:
    case kVerbExplore:
      break;
  }
  return gq::v1::JOB_KIND_FULL;
}

// A search finds the layers of a mixed scheme; without one they have to be named.
absl::Status CheckMixedLayers(Verb verb, const gq::v1::JobSpec& spec) {
  const bool mixed = spec.scheme() == "vint8+bf16" || spec.scheme() == "vint8+fp16";
  const bool named = spec.fp_nodes_size() > 0 || spec.fp_op_types_size() > 0 ||
                     !spec.config_name().empty() || !spec.config_json().empty();
  if (verb != kVerbQuantize || !mixed || named) return absl::OkStatus();
  return MakeError(Reason::kInvalidFlag,
                   StrCat("--scheme ", spec.scheme(), " does not say which layers stay in ",
                          spec.scheme() == "vint8+fp16" ? "float16" : "bfloat16"),
                   "name them with --fp-nodes or --fp-op-types, take --config "
                   "vint8_bf16_head_tail, or let 'gq run' search them");
}

}  // namespace

const FlagDef* FindFlag(std::string_view name) {
  for (const FlagDef& flag : AllFlags()) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

absl::Status ApplyFlag(const FlagDef& flag, std::span<const std::string> values,
                       JobRequest& request) {
  std::vector<std::string> parts;
  for (const std::string& value : values) {
    if (flag.shape != FlagShape::kComma) {
      parts.push_back(value);
      continue;
    }
    for (std::string_view part : base::StrSplit(value, ',')) {
      parts.emplace_back(base::StripSpace(part));
    }
  }
  if (flag.shape == FlagShape::kValue && parts.size() > 1) {
    return MakeError(Reason::kInvalidFlag,
                     StrCat("--", flag.name, " was given ", parts.size(), " times"),
                     "give it once");
  }
  if (flag.shape != FlagShape::kSwitch) {
    if (parts.empty()) {
      return MakeError(Reason::kInvalidFlag,
                       StrCat("--", flag.name, " needs a value: ", flag.value_name));
    }
    for (const std::string& part : parts) {
      if (part.empty()) {
        return MakeError(
            Reason::kInvalidFlag,
            StrCat("--", flag.name, " has an empty value; expected ", flag.value_name));
      }
      GQ_RETURN_IF_ERROR(CheckLegal(flag, part));
    }
  }
  GQ_RETURN_IF_ERROR(CheckAvailable(flag, parts));
  return flag.apply(flag, parts, request);
}

JobFlags::JobFlags(CLI::App& app, Verb verb, Program program) : verb_(verb), program_(program) {
  for (const FlagDef& flag : AllFlags()) {
    if ((flag.verbs & verb) == 0 || (flag.client_only && program == Program::kWorker)) continue;
    Binding& binding = bindings_[flag.name];
    binding.flag = &flag;
    std::string help(flag.help);
    if (flag.legal.size() > 1) {
      base::StrAppend(&help, " One of: ", base::StrJoin(flag.legal, ", "), ".");
    }
    if (flag.default_text != "off") base::StrAppend(&help, " [", flag.default_text, "]");
    if (flag.shape == FlagShape::kSwitch) {
      binding.option = app.add_flag(CommandLineName(flag.name), binding.set, help);
    } else {
      binding.option = app.add_option(CommandLineName(flag.name), binding.values, help);
      binding.option->type_name(std::string(flag.value_name));
      binding.option->expected(1, CLI::detail::expected_max_vector_size);
      binding.option->allow_extra_args(flag.shape == FlagShape::kPaths);
    }
    binding.option->group(std::string(flag.group));
  }
  if (verb != kVerbRun) {
    app.add_option("MODEL", positional_model_, "The model; the same as --model.")->type_name("");
  }
}

bool JobFlags::Given(std::string_view name) const {
  const auto found = bindings_.find(name);
  return found != bindings_.end() && found->second.option->count() > 0;
}

absl::StatusOr<JobRequest> JobFlags::Take() const {
  JobRequest request;
  request.spec.set_kind(KindOfVerb(verb_));
  // Nothing that gq-worker does by itself goes further.
  if (verb_ == kVerbQuantize || program_ == Program::kWorker) {
    request.spec.set_stage(gq::v1::STAGE_QUANTIZE);
  }
  for (const FlagDef& flag : AllFlags()) {
    if (!Given(flag.name)) continue;
    const Binding& binding = bindings_.at(flag.name);
    GQ_RETURN_IF_ERROR(ApplyFlag(flag, binding.values, request));
  }
  if (!request.local.run_file.empty()) {
    GQ_ASSIGN_OR_RETURN(const RunFile file,
                        ReadRunFile(request.local.run_file, request.local.detail_file));
    GQ_RETURN_IF_ERROR(ApplyRunFile(
        file, [this](std::string_view name) { return Given(name); }, request));
    // A verb of gq-worker says itself what is done.
    if (program_ == Program::kWorker) request.spec.set_kind(KindOfVerb(verb_));
  } else if (!request.local.detail_file.empty()) {
    return MakeError(Reason::kInvalidFlag, "--detail needs -f run.yaml",
                     "the details are those of the steps in run.yaml");
  }
  if (!positional_model_.empty()) {
    if (!request.local.model.empty()) {
      return MakeError(Reason::kInvalidFlag, "the model was given twice",
                       "give it either as --model or as the first argument");
    }
    request.local.model = positional_model_;
  }
  if (request.local.model.empty() && request.local.compiled.empty() &&
      request.spec.from_job().empty()) {
    return MakeError(Reason::kInvalidFlag, "--model is missing",
                     "give the .onnx or .onnxtxt file: --model PATH");
  }
  if (!request.local.model.empty() && !request.local.compiled.empty()) {
    return MakeError(Reason::kInvalidFlag, "--compiled and a model exclude each other",
                     "analyze one of them at a time");
  }
  // The options follow from an analysis of the model.
  if (request.local.show_options) request.spec.set_kind(gq::v1::JOB_KIND_ANALYZE);
  if (verb_ == kVerbEvaluate && request.local.reference.empty()) {
    return MakeError(Reason::kInvalidFlag, "--reference is missing",
                     "give the FP32 model to measure against: --reference FP32.onnx");
  }
  if (verb_ == kVerbRun && !request.local.reference.empty() &&
      request.spec.kind() != gq::v1::JOB_KIND_REQUANTIZE) {
    return MakeError(Reason::kInvalidFlag, "--reference needs --mode requantize",
                     "to compare two models use: gq evaluate MODEL --reference FP32.onnx");
  }
  if (!request.local.quantized.empty()) {
    request.local.reference = std::exchange(request.local.model, request.local.quantized);
  } else if (verb_ == kVerbAnalyze && !request.local.evaluation_data.empty()) {
    return MakeError(Reason::kInvalidFlag, "--evaluation-data needs --quantized",
                     "name the quantized form of the model: --quantized Q.onnx");
  }
  GQ_RETURN_IF_ERROR(CheckMixedLayers(verb_, request.spec));
  GQ_RETURN_IF_ERROR(CheckPerformanceTargets(request.spec));
  if (!request.local.labels.empty() && request.local.evaluation_data.empty()) {
    return MakeError(Reason::kInvalidFlag, "--labels needs --evaluation-data",
                     "name the samples that the labels belong to");
  }
  if (request.local.quiet && request.local.verbose) {
    return MakeError(Reason::kInvalidFlag, "--quiet and --verbose exclude each other");
  }
  return request;
}

}  // namespace gq::job
