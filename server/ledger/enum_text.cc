#include "server/ledger/enum_text.h"

#include <string_view>

namespace gq::server {
namespace {

constexpr std::string_view kJob = "JOB_STATE_";
constexpr std::string_view kStep = "STEP_STATE_";
constexpr std::string_view kAttempt = "ATTEMPT_STATE_";

// What a peer of another version sent may have no name.
std::string WithoutPrefix(const std::string& name, std::string_view prefix) {
  return name.empty() ? "UNSPECIFIED" : name.substr(prefix.size());
}

}  // namespace

std::string JobStateText(gq::v1::JobState state) {
  return WithoutPrefix(gq::v1::JobState_Name(state), kJob);
}

gq::v1::JobState JobStateFromText(const std::string& text) {
  gq::v1::JobState state = gq::v1::JOB_STATE_UNSPECIFIED;
  gq::v1::JobState_Parse(std::string(kJob) + text, &state);
  return state;
}

std::string StepStateText(gq::v1::StepState state) {
  return WithoutPrefix(gq::v1::StepState_Name(state), kStep);
}

gq::v1::StepState StepStateFromText(const std::string& text) {
  gq::v1::StepState state = gq::v1::STEP_STATE_UNSPECIFIED;
  gq::v1::StepState_Parse(std::string(kStep) + text, &state);
  return state;
}

std::string AttemptStateText(gq::v1::AttemptState state) {
  return WithoutPrefix(gq::v1::AttemptState_Name(state), kAttempt);
}

gq::v1::AttemptState AttemptStateFromText(const std::string& text) {
  gq::v1::AttemptState state = gq::v1::ATTEMPT_STATE_UNSPECIFIED;
  gq::v1::AttemptState_Parse(std::string(kAttempt) + text, &state);
  return state;
}

bool IsFinal(gq::v1::JobState state) {
  return state == gq::v1::JOB_STATE_SUCCEEDED || state == gq::v1::JOB_STATE_FAILED ||
         state == gq::v1::JOB_STATE_CANCELLED;
}

}  // namespace gq::server
