#include "common/rpc/status_mapping.h"

#include <string>

#include "common/base/status.h"
#include "common/base/text.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace gq::rpc {
namespace {

using base::Reason;

constexpr char kHintKey[] = "hint";

gq::v1::FailureClass ToProto(base::FailureClass failure_class) {
  switch (failure_class) {
    case base::FailureClass::kUser:
      return gq::v1::FAILURE_CLASS_USER;
    case base::FailureClass::kTimeout:
      return gq::v1::FAILURE_CLASS_TIMEOUT;
    case base::FailureClass::kPlatform:
      break;
  }
  return gq::v1::FAILURE_CLASS_PLATFORM;
}

// What an error without our details means.
absl::Status FromBareStatus(const grpc::Status& status) {
  const std::string& message = status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      return base::MakeError(Reason::kServerUnreachable,
                             base::StrCat("the server cannot be reached: ", message),
                             "Check that gq-server runs and that the address is right.");
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return base::MakeError(Reason::kServerUnreachable,
                             base::StrCat("the server did not answer in time: ", message),
                             "Try again; check the load of the server.");
    case grpc::StatusCode::CANCELLED:
      return base::MakeError(Reason::kCancelled, message.empty() ? "cancelled" : message);
    case grpc::StatusCode::UNAUTHENTICATED:
      return base::MakeError(Reason::kUnauthenticated, message,
                             "Give a valid token, e.g. with GQ_TOKEN_FILE.");
    case grpc::StatusCode::PERMISSION_DENIED:
      return base::MakeError(Reason::kPermissionDenied, message);
    case grpc::StatusCode::UNIMPLEMENTED:
      return base::MakeError(Reason::kNotAvailable,
                             base::StrCat("the server does not offer this call: ", message),
                             "Use a server and a client of the same version.");
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return base::MakeError(Reason::kOverloaded, message, "Try again later.");
    case grpc::StatusCode::NOT_FOUND:
      return base::MakeError(Reason::kNotFound, message);
    default:
      return base::MakeError(
          Reason::kInternal,
          base::StrCat(message, " (gRPC status ", static_cast<int>(status.error_code()), ")"));
  }
}

bool ParseDetails(const grpc::Status& status, google::rpc::Status& details) {
  return !status.error_details().empty() && details.ParseFromString(status.error_details());
}

// What a text is cut to, so that an error that quotes a long value still fits into the trailers of
// a call: 8 KiB, with the message in them twice, once at three bytes for each that is not ASCII.
constexpr size_t kMostText = 1000;

std::string Shortened(std::string text) {
  if (text.size() <= kMostText) return text;
  size_t end = kMostText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;  // UTF-8
  text.resize(end);
  return text + " ...";
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status, absl::Duration retry_after) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message = Shortened(std::string(base::FromAbsl(status.message())));
  const auto code = static_cast<grpc::StatusCode>(status.raw_code());

  google::rpc::ErrorInfo info;
  info.set_reason(std::string(base::ReasonName(base::GetReason(status))));
  info.set_domain(std::string(kErrorDomain));
  if (std::string hint = base::GetHint(status); !hint.empty()) {
    (*info.mutable_metadata())[kHintKey] = Shortened(std::move(hint));
  }
  google::rpc::Status details;
  details.set_code(static_cast<int>(code));
  details.set_message(message);
  details.add_details()->PackFrom(info);
  if (retry_after > absl::ZeroDuration()) {
    google::rpc::RetryInfo retry;
    const int64_t milliseconds = absl::ToInt64Milliseconds(retry_after);
    retry.mutable_retry_delay()->set_seconds(milliseconds / 1000);
    retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(milliseconds % 1000 * 1000000));
    details.add_details()->PackFrom(retry);
  }
  return grpc::Status(code, message, details.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  google::rpc::Status details;
  if (!ParseDetails(status, details)) return FromBareStatus(status);
  for (const google::protobuf::Any& detail : details.details()) {
    google::rpc::ErrorInfo info;
    if (!detail.UnpackTo(&info) || info.domain() != kErrorDomain) continue;
    const std::optional<Reason> reason = base::ReasonFromName(info.reason());
    if (!reason) break;
    const auto hint = info.metadata().find(kHintKey);
    return base::MakeError(*reason, status.error_message(),
                           hint == info.metadata().end() ? std::string() : hint->second);
  }
  return FromBareStatus(status);
}

std::optional<absl::Duration> RetryDelay(const grpc::Status& status) {
  google::rpc::Status details;
  if (!ParseDetails(status, details)) return std::nullopt;
  for (const google::protobuf::Any& detail : details.details()) {
    google::rpc::RetryInfo retry;
    if (!detail.UnpackTo(&retry)) continue;
    return absl::Seconds(retry.retry_delay().seconds()) +
           absl::Nanoseconds(retry.retry_delay().nanos());
  }
  return std::nullopt;
}

bool IsTransient(const absl::Status& status) {
  if (status.ok()) return false;
  const Reason reason = base::GetReason(status);
  return reason == Reason::kServerUnreachable || reason == Reason::kOverloaded ||
         reason == Reason::kDraining;
}

gq::v1::Failure ToFailure(const absl::Status& status) {
  const base::ReasonInfo& info = base::GetReasonInfo(base::GetReason(status));
  gq::v1::Failure failure;
  failure.set_reason(std::string(info.name));
  failure.set_message(std::string(base::FromAbsl(status.message())));
  failure.set_hint(base::GetHint(status));
  failure.set_failure_class(ToProto(info.failure_class));
  return failure;
}

absl::Status FromFailure(const gq::v1::Failure& failure) {
  const std::optional<Reason> reason = base::ReasonFromName(failure.reason());
  return base::MakeError(reason.value_or(Reason::kInternal), failure.message(), failure.hint());
}

}  // namespace gq::rpc
