#include "common/rpc/status_mapping.h"

#include <gtest/gtest.h>

#include "common/base/status.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace gq::rpc {
namespace {

using base::Reason;

TEST(StatusMappingTest, EveryReasonSurvivesTheWire) {
  for (const base::ReasonInfo& info : base::AllReasons()) {
    const absl::Status status = base::MakeError(info.reason, "what was wrong", "what to do");
    const grpc::Status wire = ToGrpcStatus(status);
    EXPECT_EQ(static_cast<int>(wire.error_code()), static_cast<int>(info.code)) << info.name;
    EXPECT_EQ(wire.error_message(), "what was wrong");
    const absl::Status back = FromGrpcStatus(wire);
    EXPECT_EQ(base::GetReason(back), info.reason);
    EXPECT_EQ(base::GetHint(back), "what to do");
    EXPECT_EQ(back.message(), status.message());
    EXPECT_EQ(base::GetReason(FromFailure(ToFailure(status))), info.reason);
  }
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK).ok());
}

TEST(StatusMappingTest, AnErrorThatQuotesALongTextStillArrives) {
  std::string text = "x";
  for (int i = 0; i < 40'000; ++i) text += "\u00e9";
  const grpc::Status wire = ToGrpcStatus(base::MakeError(Reason::kNotFound, text, text));
  // Three bytes for each that is not ASCII, base64 for the details; gRPC takes 8 KiB.
  EXPECT_LT(wire.error_message().size() * 3 + wire.error_details().size() * 4 / 3, 7000U);
  const absl::Status back = FromGrpcStatus(wire);
  EXPECT_EQ(base::GetReason(back), Reason::kNotFound);
  EXPECT_EQ(base::GetHint(back), std::string(back.message()));
  EXPECT_TRUE(wire.error_message().ends_with("\u00e9 ..."));
}

TEST(StatusMappingTest, TheDetailsAreGoogleRpcStatusWithErrorInfo) {
  const grpc::Status wire = ToGrpcStatus(base::MakeError(Reason::kDiskFull, "m", "h"));
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(wire.error_details()));
  EXPECT_EQ(details.code(), 8);
  ASSERT_EQ(details.details_size(), 1);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(details.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "DISK_FULL");
  EXPECT_EQ(info.domain(), "gq");
  EXPECT_EQ(info.metadata().at("hint"), "h");
}

TEST(StatusMappingTest, TheDelayThatTheServerAsksForArrives) {
  const grpc::Status wire =
      ToGrpcStatus(base::MakeError(Reason::kOverloaded, "busy"), absl::Milliseconds(1500));
  EXPECT_EQ(RetryDelay(wire), absl::Milliseconds(1500));
  EXPECT_EQ(RetryDelay(ToGrpcStatus(base::MakeError(Reason::kOverloaded, "busy"))), std::nullopt);
}

TEST(StatusMappingTest, ErrorsOfTheTransportGetAReason) {
  const auto reason = [](grpc::StatusCode code) {
    return base::GetReason(FromGrpcStatus(grpc::Status(code, "x")));
  };
  EXPECT_EQ(reason(grpc::StatusCode::UNAVAILABLE), Reason::kServerUnreachable);
  EXPECT_EQ(reason(grpc::StatusCode::DEADLINE_EXCEEDED), Reason::kServerUnreachable);
  EXPECT_EQ(reason(grpc::StatusCode::UNAUTHENTICATED), Reason::kUnauthenticated);
  EXPECT_EQ(reason(grpc::StatusCode::CANCELLED), Reason::kCancelled);
  EXPECT_EQ(reason(grpc::StatusCode::DATA_LOSS), Reason::kInternal);
}

TEST(StatusMappingTest, OnlyPassingErrorsAreTransient) {
  EXPECT_TRUE(IsTransient(FromGrpcStatus({grpc::StatusCode::UNAVAILABLE, ""})));
  EXPECT_TRUE(IsTransient(base::MakeError(Reason::kOverloaded, "")));
  EXPECT_TRUE(IsTransient(base::MakeError(Reason::kDraining, "")));
  EXPECT_FALSE(IsTransient(base::MakeError(Reason::kLeaseLost, "")));
  EXPECT_FALSE(IsTransient(base::MakeError(Reason::kQuotaExceeded, "")));
  EXPECT_FALSE(IsTransient(absl::OkStatus()));
}

}  // namespace
}  // namespace gq::rpc
