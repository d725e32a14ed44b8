#include "common/rpc/log_tail.h"

#include <gtest/gtest.h>

#include "common/base/status.h"
#include "common/rpc/status_mapping.h"
#include "grpcpp/grpcpp.h"
#include "tests/temporary_folder.h"

namespace gq::rpc {
namespace {

using base::Reason;

// Serves logs by attempt in chunks of 10 bytes; each call breaks after the next number of chunks.
class FakeLogService : public gq::v1::JobService::Service {
 public:
  std::vector<std::string> logs;  // attempt 1, 2 ...
  std::vector<int> breaks;        // after so many chunks; then never
  std::vector<gq::v1::TailLogRequest> requests;
  bool overlap = false;  // every chunk repeats the three bytes before it
  bool missing = false;

  grpc::Status TailLog(grpc::ServerContext*, const gq::v1::TailLogRequest* request,
                       grpc::ServerWriter<gq::v1::TailLogResponse>* writer) override {
    requests.push_back(*request);
    if (missing) return ToGrpcStatus(base::MakeError(Reason::kNotFound, "no such job"));
    int budget = -1;
    if (!breaks.empty()) {
      budget = breaks.front();
      breaks.erase(breaks.begin());
    }
    gq::v1::TailLogResponse response;
    auto offset = static_cast<size_t>(request->offset());
    for (size_t attempt = static_cast<size_t>(std::max(1, request->attempt()));
         attempt <= logs.size(); ++attempt) {
      const std::string& log = logs[attempt - 1];
      while (offset < log.size()) {
        if (budget-- == 0) return {grpc::StatusCode::UNAVAILABLE, "fault"};
        const size_t start = overlap && offset >= 3 ? offset - 3 : offset;
        response.set_attempt(static_cast<int32_t>(attempt));
        response.set_offset(static_cast<int64_t>(start));
        response.set_data(log.substr(start, offset - start + 10));
        writer->Write(response);
        offset += 10;
      }
      offset = 0;
    }
    if (budget == 0) return {grpc::StatusCode::UNAVAILABLE, "fault"};
    response.Clear();
    response.set_final(true);
    response.set_job_state(gq::v1::JOB_STATE_SUCCEEDED);
    writer->Write(response);
    return grpc::Status::OK;
  }
};

class LogTailTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string address = "unix:" + (folder_.path() / "s").string();
    grpc::ServerBuilder builder;
    // Else the end of a server can take ten seconds.
    builder.SetSyncServerOption(grpc::ServerBuilder::CQ_TIMEOUT_MSEC, 200);
    builder.AddListeningPort(address, grpc::experimental::LocalServerCredentials(UDS));
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ChannelOptions options;
    options.address = address;
    channel_ = Channel::Create(options).value();
    options_.backoff = Backoff(absl::Milliseconds(1), absl::Milliseconds(5), 1);
  }
  absl::StatusOr<LogEnd> Tail(LogPosition from = {}) {
    return TailLog(
        *channel_, "job", from,
        [&](LogPosition position, std::string_view bytes) {
          EXPECT_EQ(position, next_) << "a gap or a repetition";
          received_ += bytes;
          next_.offset += static_cast<int64_t>(bytes.size());
          const size_t attempt = static_cast<size_t>(next_.attempt);
          if (attempt < service_.logs.size() &&
              next_.offset == static_cast<int64_t>(service_.logs[attempt - 1].size())) {
            next_ = {next_.attempt + 1, 0};
          }
        },
        options_);
  }

  tests::TemporaryFolder folder_;
  FakeLogService service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<Channel> channel_;
  LogTailOptions options_;
  LogPosition next_{1, 0};
  std::string received_;
};

TEST_F(LogTailTest, PositionsHaveATextForm) {
  EXPECT_EQ(FormatLogPosition({2, 4096}), "2:4096");
  EXPECT_EQ(*ParseLogPosition("2:4096"), (LogPosition{2, 4096}));
  for (const char* text : {"", "2", ":", "a:1", "1:b", "-1:0", "1:2:3", "1:2 "}) {
    EXPECT_EQ(base::GetReason(ParseLogPosition(text).status()), Reason::kInvalidFlag) << text;
  }
}

TEST_F(LogTailTest, EveryByteComesOnceHoweverOftenTheConnectionBreaks) {
  service_.logs = {std::string(57, 'a') + "end", std::string(1, 'b'), std::string(95, 'c')};
  service_.breaks = {0, 1, 3, 2, 0, 1, 5, 1};
  const auto end = Tail();
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->job_state, gq::v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(end->position, (LogPosition{3, 95}));
  EXPECT_EQ(received_, service_.logs[0] + service_.logs[1] + service_.logs[2]);
}

TEST_F(LogTailTest, RepeatedBytesAreLeftOut) {
  service_.logs = {"0123456789abcdefghijklmnopqrstuvwxyz"};
  service_.overlap = true;
  service_.breaks = {2, 1};
  ASSERT_TRUE(Tail().ok());
  EXPECT_EQ(received_, service_.logs[0]);
}

TEST_F(LogTailTest, BeginsWhereItIsTold) {
  service_.logs = {"0123456789", "abcdefghij"};
  next_ = {2, 4};
  ASSERT_TRUE(Tail({2, 4}).ok());
  EXPECT_EQ(received_, "efghij");
}

TEST_F(LogTailTest, ARefusalIsNotTriedAgain) {
  service_.missing = true;
  EXPECT_EQ(base::GetReason(Tail().status()), Reason::kNotFound);
  EXPECT_EQ(service_.requests.size(), 1);
}

TEST_F(LogTailTest, GivesUpWhenTold) {
  server_->Shutdown(std::chrono::system_clock::now());
  options_.max_tries = 2;
  EXPECT_EQ(base::GetReason(Tail().status()), Reason::kServerUnreachable);
}

}  // namespace
}  // namespace gq::rpc
