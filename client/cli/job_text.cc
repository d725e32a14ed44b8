#include "client/cli/job_text.h"

#include <algorithm>

#include "common/base/reason.h"
#include "common/base/text.h"
#include "google/protobuf/util/json_util.h"

namespace gq::cli {
namespace {

constexpr int kSuccess = 0;
constexpr int kAnythingElse = 1;
constexpr int kUsage = 2;
constexpr int kJobFailed = 5;
constexpr int kNoBoard = 7;
constexpr int kCancelled = 8;
constexpr int kTimedOut = 9;
constexpr int kGoalNotMet = 10;

}  // namespace

std::string WithoutPrefix(const std::string& name, std::string_view prefix) {
  if (name.empty()) return "UNKNOWN";
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

std::string StateText(gq::v1::JobState state) {
  return WithoutPrefix(gq::v1::JobState_Name(state), "JOB_STATE_");
}
std::string StateText(gq::v1::StepState state) {
  return WithoutPrefix(gq::v1::StepState_Name(state), "STEP_STATE_");
}
std::string StateText(gq::v1::AttemptState state) {
  return WithoutPrefix(gq::v1::AttemptState_Name(state), "ATTEMPT_STATE_");
}

std::string KindText(gq::v1::JobKind kind) {
  std::string text = WithoutPrefix(gq::v1::JobKind_Name(kind), "JOB_KIND_");
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return c == '_' ? '-' : static_cast<char>(std::tolower(c));
  });
  return text;
}

std::string VerdictText(gq::v1::Verdict verdict) {
  switch (verdict) {
    case gq::v1::VERDICT_GOAL_MET:
      return "goal met";
    case gq::v1::VERDICT_GOAL_NOT_MET:
      return "goal not met";
    case gq::v1::VERDICT_NOT_JUDGED:
      return "not judged";
    default:
      return "";
  }
}

bool HasEnded(gq::v1::JobState state) {
  return state == gq::v1::JOB_STATE_SUCCEEDED || state == gq::v1::JOB_STATE_FAILED ||
         state == gq::v1::JOB_STATE_CANCELLED;
}

absl::Time ToTime(const google::protobuf::Timestamp& timestamp) {
  return absl::FromUnixSeconds(timestamp.seconds()) + absl::Nanoseconds(timestamp.nanos());
}

std::string ProgressText(const gq::v1::StepProgress& progress) {
  std::string text = base::StrCat(progress.component(), " ", progress.done());
  if (progress.total() > 0) base::StrAppend(&text, "/", progress.total());
  if (!progress.unit().empty()) base::StrAppend(&text, " ", progress.unit());
  return text;
}

nlohmann::ordered_json ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) return {};
  return nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
}

int ExitCodeOf(const gq::v1::Job& job) {
  switch (job.state()) {
    case gq::v1::JOB_STATE_SUCCEEDED:
      return job.verdict() == gq::v1::VERDICT_GOAL_NOT_MET ? kGoalNotMet : kSuccess;
    case gq::v1::JOB_STATE_CANCELLED:
      return kCancelled;
    case gq::v1::JOB_STATE_FAILED:
      break;
    default:
      return kAnythingElse;
  }
  if (job.failure().failure_class() == gq::v1::FAILURE_CLASS_TIMEOUT) return kTimedOut;
  if (const auto reason = base::ReasonFromName(job.failure().reason())) {
    const int code = base::GetReasonInfo(*reason).exit_code;
    if (code == kUsage || code == kNoBoard || code == kTimedOut) return code;
  }
  return kJobFailed;
}

}  // namespace gq::cli
