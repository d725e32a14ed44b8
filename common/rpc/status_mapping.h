// Errors on the wire: an absl::Status with reason and hint (common/base/status.h) as a grpc::Status
// whose details are a google.rpc.Status with one google.rpc.ErrorInfo {reason, domain "gq",
// metadata hint}, and back.
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gq/v1/common.pb.h"
#include "grpcpp/support/status.h"

namespace gq::rpc {

inline constexpr std::string_view kErrorDomain = "gq";

// The wire form of `status`; OK maps to OK. Status codes keep their numbers. Message and hint are
// cut to 1,000 bytes each, since longer ones would not reach the other side at all. A positive
// `retry_after` adds a google.rpc.RetryInfo.
grpc::Status ToGrpcStatus(const absl::Status& status,
                          absl::Duration retry_after = absl::ZeroDuration());

// The error behind a finished call. Without ErrorInfo of our domain (an old server, the transport
// itself) the reason follows from the code: UNAVAILABLE is kServerUnreachable, UNAUTHENTICATED
// kUnauthenticated, DEADLINE_EXCEEDED kServerUnreachable ("did not answer in time"), CANCELLED
// kCancelled, PERMISSION_DENIED kPermissionDenied, UNIMPLEMENTED kNotAvailable, RESOURCE_EXHAUSTED
// kOverloaded, anything else kInternal.
absl::Status FromGrpcStatus(const grpc::Status& status);

// Delay that the server asks for; nothing when it names none.
std::optional<absl::Duration> RetryDelay(const grpc::Status& status);

// True when the same idempotent call may be sent again: UNAVAILABLE and DEADLINE_EXCEEDED of the
// transport, `OVERLOADED` and `DRAINING` of the server.
bool IsTransient(const absl::Status& status);

// The record of an error in jobs and results. `status` must not be OK.
gq::v1::Failure ToFailure(const absl::Status& status);

// The error that a record stands for; an unknown reason becomes kInternal.
absl::Status FromFailure(const gq::v1::Failure& failure);

}  // namespace gq::rpc
