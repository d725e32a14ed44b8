// States as they are stored: the names of the public enumerations without their prefix.
#pragma once

#include <string>

#include "gq/v1/job_service.pb.h"

namespace gq::server {

std::string JobStateText(gq::v1::JobState state);
gq::v1::JobState JobStateFromText(const std::string& text);
std::string StepStateText(gq::v1::StepState state);
gq::v1::StepState StepStateFromText(const std::string& text);
std::string AttemptStateText(gq::v1::AttemptState state);
gq::v1::AttemptState AttemptStateFromText(const std::string& text);

// SUCCEEDED, FAILED or CANCELLED.
bool IsFinal(gq::v1::JobState state);

}  // namespace gq::server
