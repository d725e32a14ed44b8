#include "common/report/merge.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/report/json_view.h"

namespace gq::report {
namespace {

using google::protobuf::Timestamp;

// `JOB_STATE_QUEUED` -> `QUEUED`.
std::string EnumTail(const std::string& name, std::string_view prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

double Seconds(const Timestamp& from, const Timestamp& to) {
  return static_cast<double>(to.seconds() - from.seconds()) +
         static_cast<double>(to.nanos() - from.nanos()) * 1e-9;
}

std::string TimeText(const Timestamp& time) {
  return (absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ",
                           absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos()),
                           absl::UTCTimeZone()));
}

Json FailurePart(const gq::v1::Failure& failure) {
  return {
      {"reason", failure.reason()},
      {"message", failure.message()},
      {"hint", failure.hint()},
      {"class", EnumTail(gq::v1::FailureClass_Name(failure.failure_class()), "FAILURE_CLASS_")}};
}

Json JobPart(const gq::v1::Job& job) {
  const gq::v1::JobSpec& spec = job.spec();
  Json part = {{"id", job.id()},
               {"name", spec.name()},
               {"kind", EnumTail(gq::v1::JobKind_Name(spec.kind()), "JOB_KIND_")},
               {"state", EnumTail(gq::v1::JobState_Name(job.state()), "JOB_STATE_")},
               {"verdict", EnumTail(gq::v1::Verdict_Name(job.verdict()), "VERDICT_")},
               {"principal", job.principal()},
               {"note", spec.note()},
               {"model", spec.model().file().name()},
               {"device", spec.device()},
               {"scheme", spec.scheme()}};
  if (!spec.from_job().empty()) part["from"] = spec.from_job();
  if (job.has_create_time()) part["created"] = TimeText(job.create_time());
  if (job.has_start_time()) part["started"] = TimeText(job.start_time());
  if (job.has_end_time()) part["ended"] = TimeText(job.end_time());
  if (job.has_start_time() && job.has_end_time()) {
    part["seconds"] = Seconds(job.start_time(), job.end_time());
  }
  if (job.has_failure()) part["failure"] = FailurePart(job.failure());
  return part;
}

Json StepsPart(const gq::v1::Job& job) {
  Json steps = Json::array();
  for (const gq::v1::Step& step : job.steps()) {
    Json part = {{"title", step.title()},
                 {"state", EnumTail(gq::v1::StepState_Name(step.state()), "STEP_STATE_")}};
    if (!step.skip_reason().empty()) part["not_run"] = step.skip_reason();
    part["attempts"] = step.attempts_size();
    if (step.attempts_size() > 0) {
      const gq::v1::Attempt& last = step.attempts(step.attempts_size() - 1);
      if (last.has_start_time() && last.has_end_time()) {
        part["seconds"] = Seconds(last.start_time(), last.end_time());
      }
      if (!last.agent().empty()) part["agent"] = last.agent();
      if (!last.board().empty()) part["board"] = last.board();
      if (last.has_failure()) part["failure"] = FailurePart(last.failure());
    }
    steps.push_back(std::move(part));
  }
  return steps;
}

Json IdentityPart(const gq::v1::Job& job) {
  const gq::v1::ModelRef& model = job.spec().model();
  Json identity = {{"gq_version", GQ_VERSION},
                   {"engine", job.spec().engine().empty() ? "native" : job.spec().engine()},
                   {"model_digest", model.file().digest().sha256()}};
  identity["seed"] = job.spec().has_seed() ? job.spec().seed() : 42;
  return identity;
}

// Facts of a part that belong to the whole report.
void TakeIdentity(const Json& part, Json& identity) {
  if (const auto found = part.find("identity"); found != part.end() && found->is_object()) {
    identity.update(*found);
  }
  if (part.contains("config_digest")) identity["config_digest"] = part["config_digest"];
  for (const char* section : {"calibration", "data"}) {
    const auto found = part.find(section);
    if (found == part.end() || !found->is_object()) continue;
    for (const char* key : {"data_digest", "digest"}) {
      if (!found->contains(key) || !(*found)[key].is_string()) continue;
      identity[std::string(section) == "data" ? "evaluation_data_digest"
                                              : "calibration_data_digest"] = (*found)[key];
    }
  }
}

void TakeWarnings(const Json& part, const std::string& title, Json& warnings) {
  const auto found = part.find("warnings");
  if (found == part.end() || !found->is_array()) return;
  for (const Json& warning : *found) {
    std::string text = warning.is_string()
                           ? warning.get<std::string>()
                           : warning.dump(-1, ' ', false, Json::error_handler_t::replace);
    warnings.push_back({{"step", title}, {"text", std::move(text)}});
  }
}

}  // namespace

std::string_view StepKey(gq::v1::StepKind kind) {
  switch (kind) {
    case gq::v1::STEP_KIND_GRAPH_OPTIMIZE:
      return "graph_optimize";
    case gq::v1::STEP_KIND_GRAPH_QUANTIZE:
      return "graph_quantize";
    case gq::v1::STEP_KIND_EVALUATE:
      return "evaluate";
    case gq::v1::STEP_KIND_EXPLORE:
      return "explore";
    case gq::v1::STEP_KIND_COMPILE:
      return "compile";
    case gq::v1::STEP_KIND_BOARD_RUN:
      return "board_run";
    case gq::v1::STEP_KIND_DRY_RUN:
      return "dry_run";
    case gq::v1::STEP_KIND_DEQUANTIZE:
      return "dequantize";
    case gq::v1::STEP_KIND_ANALYZE:
      return "analyze";
    default:
      return "other";
  }
}

namespace {

// What a step that chooses a model (a search, a board among the finalists of one) ended with takes
// the place of what it started from.
void TakeResultOf(const char* step, Json& sections) {
  const auto choosing = sections.find(step);
  if (choosing == sections.end()) return;
  const auto found = choosing->find("result");
  if (found == choosing->end() || !found->is_object()) return;
  const Json result = std::move(*found);
  choosing->erase("result");
  for (const auto& [key, section] : result.items()) {
    if (sections.contains(key)) {
      Json before = std::move(sections[key]);
      for (const char* bulky : {"layers", "tensors", "config", "alignment"}) before.erase(bulky);
      if (before.contains("outputs")) {
        for (Json& output : before["outputs"]) output.erase("scatter");
      }
      (*choosing)["before"][key] = std::move(before);
    }
    sections[key] = section;
  }
}

}  // namespace

std::string MergeReport(const gq::v1::Job& job, std::span<const StepPart> parts) {
  std::vector<StepPart> ordered(parts.begin(), parts.end());
  std::stable_sort(ordered.begin(), ordered.end(), [](const StepPart& a, const StepPart& b) {
    return a.step_index < b.step_index;
  });

  Json identity = IdentityPart(job);
  Json warnings = Json::array();
  Json sections = Json::object();
  for (const StepPart& part : ordered) {
    if (part.report_json.empty() || part.step_index < 0 || part.step_index >= job.steps_size()) {
      continue;
    }
    const gq::v1::Step& step = job.steps(part.step_index);
    Json section = ParseObject(part.report_json);
    if (!section.is_object()) {
      warnings.push_back({{"step", step.title()},
                          {"text", "the step's part of the report is no JSON object; left out"}});
      continue;
    }
    TakeIdentity(section, identity);
    TakeWarnings(section, step.title(), warnings);
    sections[std::string(StepKey(step.kind()))] = std::move(section);
  }

  TakeResultOf("explore", sections);
  TakeResultOf("board_run", sections);

  Json report = {{"schema", kReportSchema},
                 {"identity", std::move(identity)},
                 {"job", JobPart(job)},
                 {"steps", StepsPart(job)},
                 {"warnings", std::move(warnings)}};
  report.update(sections);
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gq::report
