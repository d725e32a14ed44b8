// Follows a job until it ends: its log as a person reads it, a live progress line, or the same as
// JSON events.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/console.h"
#include "client/cli/service_client.h"
#include "common/rpc/log_tail.h"
#include "gq/v1/job_service.pb.h"

namespace gq::cli {

struct FollowResult {
  gq::v1::Job job;            // as it was at the end
  rpc::LogPosition position;  // behind the last byte shown
  bool detached = false;      // a stop ended the following, not the job
  std::string log;            // everything shown, without colours and --quiet; only when asked for
};

struct FollowOptions {
  rpc::LogPosition from;
  bool follow = true;  // otherwise stop behind what is stored now
  bool show_log = true;
  bool keep_log = false;
};

// Blocks. Goes on after a lost connection for as long as the server stays away. Errors are the
// server's refusals.
absl::StatusOr<FollowResult> FollowJob(ServiceClient& client, const gq::v1::Job& job,
                                       Console& console, FollowOptions options,
                                       std::stop_token stop);

}  // namespace gq::cli
