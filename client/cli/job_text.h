// Jobs, steps and verdicts in words.
#pragma once

#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "gq/v1/job_service.pb.h"
#include "nlohmann/json.hpp"

namespace gq::cli {

// The name of an enumerator without what all of its kind begin with; UNKNOWN for a value that only
// a newer server has (an empty name).
std::string WithoutPrefix(const std::string& name, std::string_view prefix);

std::string StateText(gq::v1::JobState state);      // `QUEUED`
std::string StateText(gq::v1::StepState state);     // `RUNNING`
std::string StateText(gq::v1::AttemptState state);  // `LOST`
std::string KindText(gq::v1::JobKind kind);         // `full`
std::string VerdictText(gq::v1::Verdict verdict);   // `goal met`; empty when there is none

bool HasEnded(gq::v1::JobState state);

absl::Time ToTime(const google::protobuf::Timestamp& timestamp);

// `Calibrate 32/128 samples`.
std::string ProgressText(const gq::v1::StepProgress& progress);

// A message with the field names of the contract.
nlohmann::ordered_json ToJson(const google::protobuf::Message& message);

// Exit code for a job that has ended (docs/user-guide.md, "Exit codes").
int ExitCodeOf(const gq::v1::Job& job);

}  // namespace gq::cli
