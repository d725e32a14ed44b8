#include "common/rpc/channel.h"

#include <gtest/gtest.h>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/rpc/backoff.h"
#include "gq/v1/agent_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "tests/temporary_folder.h"

namespace gq::rpc {
namespace {

using base::Reason;

Reason ReasonOf(const ChannelOptions& options) {
  return base::GetReason(Channel::Create(options).status());
}

TEST(ChannelTest, RefusesWhatIsNoAddress) {
  for (const char* address :
       {"", "unix:", "localhost", ":1", "host:", "host:port", "host:123456"}) {
    ChannelOptions options;
    options.address = address;
    EXPECT_EQ(ReasonOf(options), Reason::kInvalidFlag) << address;
  }
}

TEST(ChannelTest, SendsNoTokenInClearTextToAnotherHost) {
  ChannelOptions options;
  options.address = "board.example:7443";
  options.token = "secret";
  EXPECT_EQ(ReasonOf(options), Reason::kInvalidFlag);
  options.allow_plaintext = true;
  EXPECT_TRUE(Channel::Create(options).ok());
  options.allow_plaintext = false;
  options.address = "127.0.0.1:7443";
  EXPECT_TRUE(Channel::Create(options).ok());
}

TEST(ChannelTest, ANameThatBeginsLikeLoopbackIsAnotherHost) {
  for (const char* host : {"localhost", "::1", "[::1]", "127.0.0.1", "127.1.2.3"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"127.0.0.1.example.com", "127.evil", "localhost.example", "::2", ""}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

TEST(ChannelTest, TokenFilesAreChecked) {
  tests::TemporaryFolder folder;
  ChannelOptions options;
  options.address = "127.0.0.1:7443";
  options.token_file = folder.path() / "token";
  EXPECT_EQ(ReasonOf(options), Reason::kFileNotFound);
  ASSERT_TRUE(base::WriteFileAtomically(options.token_file, "two words").ok());
  EXPECT_EQ(ReasonOf(options), Reason::kUnauthenticated);
  ASSERT_TRUE(base::WriteFileAtomically(options.token_file, "gq_1_secret\n").ok());
  EXPECT_TRUE(Channel::Create(options).ok());
}

class TokenService : public gq::v1::AgentService::Service {
 public:
  std::string seen;
  grpc::Status AppendLog(grpc::ServerContext* context, const gq::v1::AppendLogRequest*,
                         gq::v1::AppendLogResponse*) override {
    const auto token = context->client_metadata().find("authorization");
    seen = token == context->client_metadata().end()
               ? ""
               : std::string(token->second.data(), token->second.size());
    return grpc::Status::OK;
  }
};

TEST(ChannelTest, ATokenThatChangesOnDiskIsUsedFromThenOn) {
  tests::TemporaryFolder folder;
  TokenService service;
  const std::string address = "unix:" + (folder.path() / "s").string();
  grpc::ServerBuilder builder;
  builder.SetSyncServerOption(grpc::ServerBuilder::CQ_TIMEOUT_MSEC, 200);
  builder.AddListeningPort(address, grpc::experimental::LocalServerCredentials(UDS));
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  ChannelOptions options;
  options.address = address;
  options.token_file = folder.path() / "token";
  ASSERT_TRUE(base::WriteFileAtomically(options.token_file, "first").ok());
  const auto channel = Channel::Create(options).value();
  const auto stub = gq::v1::AgentService::NewStub(channel->grpc());
  const auto call = [&] {
    grpc::ClientContext context;
    channel->Prepare(context, kUnaryTimeout);
    gq::v1::AppendLogResponse response;
    EXPECT_TRUE(stub->AppendLog(&context, {}, &response).ok());
    return service.seen;
  };
  EXPECT_EQ(call(), "Bearer first");
  ASSERT_TRUE(base::WriteFileAtomically(options.token_file, "second").ok());
  std::filesystem::last_write_time(options.token_file,
                                   std::filesystem::file_time_type::clock::now());
  EXPECT_EQ(call(), "Bearer second");
}

TEST(BackoffTest, WindowsGrowToTheLimitAndTriesFallInsideThem) {
  Backoff backoff(absl::Seconds(1), absl::Seconds(8), 42);
  // Windows end at 1, 3, 7, 15, 23, 31 s after the start.
  absl::Duration now;
  absl::Duration begin;
  for (const int window : {1, 2, 4, 8, 8, 8}) {
    now += backoff.Next();
    EXPECT_GE(now, begin);
    begin += absl::Seconds(window);
    EXPECT_LE(now, begin);
  }
  backoff.Reset();
  EXPECT_LE(backoff.Next(), absl::Seconds(1));
  EXPECT_GE(backoff.Next(absl::Seconds(100)), absl::Seconds(100));
}

TEST(BackoffTest, ASleepEndsWithAStop) {
  std::stop_source stop;
  EXPECT_TRUE(SleepFor(absl::Milliseconds(1), stop.get_token()));
  stop.request_stop();
  EXPECT_FALSE(SleepFor(absl::Hours(1), stop.get_token()));
}

}  // namespace
}  // namespace gq::rpc
