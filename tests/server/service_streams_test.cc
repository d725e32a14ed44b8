// Logs, blobs and identity through the wire.
#include <atomic>
#include <thread>

#include "server/auth/authenticator.h"
#include "server/ledger/sqlite_ledger.h"
#include "tests/server/service_fixture.h"

namespace gq::server {
namespace {

using base::Reason;

class ServiceStreams : public ServiceTest {
 protected:
  struct Tail {
    std::string data;
    int attempt = 0;
    int64_t end = 0;
    bool final = false;
    gq::v1::JobState state = gq::v1::JOB_STATE_UNSPECIFIED;
  };
  // Reads until the end, or until `stop_after` bytes came.
  Tail ReadLog(const std::string& id, int attempt, int64_t offset, bool follow,
               size_t stop_after = SIZE_MAX) {
    Call call;
    gq::v1::TailLogRequest request;
    request.set_id(id);
    request.set_attempt(attempt);
    request.set_offset(offset);
    request.set_follow(follow);
    auto reader = jobs_->TailLog(&call, request);
    gq::v1::TailLogResponse response;
    Tail tail;
    while (tail.data.size() < stop_after && reader->Read(&response)) {
      tail.data += response.data();
      tail.attempt = response.attempt();
      tail.end = response.offset() + static_cast<int64_t>(response.data().size());
      tail.final = response.final();
      if (tail.final) tail.state = response.job_state();
    }
    call.TryCancel();
    reader->Finish();
    return tail;
  }
};

TEST_F(ServiceStreams, FollowerGetsEveryByteAndTheEnd) {
  const std::string id = Submit(Request()).id();
  std::vector<Tail> tails(20);
  std::vector<std::thread> followers;
  for (Tail& tail : tails) {
    followers.emplace_back([&] { tail = ReadLog(id, 0, 0, true); });
  }
  const gq::v1::Lease lease = Take();
  std::string log;
  for (int i = 0; i < 200; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    ASSERT_TRUE(AppendLog(lease, static_cast<int64_t>(log.size()), line).ok());
    log += line;
  }
  End(lease, gq::v1::ATTEMPT_STATE_SUCCEEDED);
  for (std::thread& follower : followers) follower.join();
  for (const Tail& tail : tails) {
    EXPECT_EQ(tail.data, log);
    EXPECT_TRUE(tail.final);
    EXPECT_EQ(tail.state, gq::v1::JOB_STATE_SUCCEEDED);
  }
}

TEST_F(ServiceStreams, TailGoesOnWhereItWasCutAlsoAcrossARestart) {
  const std::string id = Submit(Request()).id();
  const gq::v1::Lease lease = Take();
  ASSERT_TRUE(AppendLog(lease, 0, "0123456789").ok());
  const Tail first = ReadLog(id, 0, 0, true, 4);
  Restart();
  ASSERT_TRUE(AppendLog(lease, 10, "abc\n").ok());
  End(lease, gq::v1::ATTEMPT_STATE_SUCCEEDED);
  const Tail rest = ReadLog(id, first.attempt, first.end, true);
  EXPECT_EQ(first.data + rest.data, "0123456789abc\n");
  EXPECT_TRUE(rest.final);
}

TEST_F(ServiceStreams, LogOfAJobIsThatOfItsAttemptsInOrder) {
  const std::string id = Submit(Request()).id();
  gq::v1::Lease lease = Take();
  ASSERT_TRUE(AppendLog(lease, 0, "first try\n").ok());
  End(lease, gq::v1::ATTEMPT_STATE_LOST, "WORKER_LOST");
  lease = Take();
  EXPECT_EQ(lease.attempt(), 2);
  EXPECT_EQ(lease.try_number(), 2);
  EXPECT_EQ(lease.last_failure(), "WORKER_LOST");
  ASSERT_TRUE(AppendLog(lease, 0, "second try\n").ok());
  EXPECT_EQ(ReadLog(id, 0, 0, false).data, "first try\nsecond try\n") << "as far as it is written";
  EXPECT_EQ(ReadLog(id, 2, 7, false).data, "try\n");
  End(lease, gq::v1::ATTEMPT_STATE_SUCCEEDED);
  const Tail whole = ReadLog(id, 0, 0, true);
  EXPECT_EQ(whole.data, "first try\nsecond try\n");
  EXPECT_EQ(whole.attempt, 2);
}

TEST_F(ServiceStreams, GapInALogIsRefused) {
  Submit(Request());
  const gq::v1::Lease lease = Take();
  EXPECT_EQ(ReasonOf(AppendLog(lease, 5, "x")), Reason::kLogGap);
  gq::v1::Lease stale = lease;
  stale.set_generation(lease.generation() + 1);
  EXPECT_EQ(ReasonOf(AppendLog(stale, 0, "x")), Reason::kLeaseLost);
}

TEST_F(ServiceStreams, QuietFollowerGetsSignsOfLife) {
  service_.reset();
  options_.limits.heartbeat = absl::Milliseconds(50);
  Open();
  const std::string id = Submit(Request()).id();
  Call call;
  gq::v1::TailLogRequest request;
  request.set_id(id);
  request.set_follow(true);
  auto reader = jobs_->TailLog(&call, request);
  gq::v1::TailLogResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.data(), "");
  EXPECT_FALSE(response.final());
  call.TryCancel();
  reader->Finish();
}

TEST_F(ServiceStreams, BlobComesBackFromAnyOffset) {
  std::string content;
  for (int i = 0; content.size() < 3'000'000; ++i) content += std::to_string(i) + " ";
  ASSERT_TRUE(Upload(content, nullptr, "", 700'000).ok());
  for (const size_t offset : {size_t{0}, size_t{1}, size_t{1'500'000}, content.size() - 1}) {
    Call call;
    gq::v1::ReadRequest request;
    *request.mutable_digest() = DigestOf(content);
    request.set_offset(static_cast<int64_t>(offset));
    auto reader = blobs_->Read(&call, request);
    gq::v1::ReadResponse response;
    std::string data;
    while (reader->Read(&response)) {
      EXPECT_EQ(response.offset(), static_cast<int64_t>(offset + data.size()));
      EXPECT_LE(response.data().size(), size_t{1} << 20);
      data += response.data();
    }
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_TRUE(data == content.substr(offset)) << offset;
  }
}

TEST_F(ServiceStreams, UploadGoesOnAfterALostConnectionAndARestart) {
  const std::string content = "0123456789abcdef";
  {
    Call call;
    gq::v1::WriteResponse response;
    auto writer = blobs_->Write(&call, &response);
    gq::v1::WriteRequest request;
    request.set_upload_id("u");
    *request.mutable_digest() = DigestOf(content);
    request.set_data("0123456");
    writer->Write(request);
    writer->WritesDone();
    EXPECT_EQ(ReasonOf(writer->Finish()), Reason::kUploadOffset);
  }
  Restart();
  gq::v1::QueryWriteStatusRequest query;
  query.set_upload_id("u");
  *query.mutable_digest() = DigestOf(content);
  Call query_call;
  gq::v1::QueryWriteStatusResponse state;
  ASSERT_TRUE(blobs_->QueryWriteStatus(&query_call, query, &state).ok());
  EXPECT_EQ(state.committed_size(), 7);
  EXPECT_FALSE(state.complete());
  Call call;
  gq::v1::WriteResponse response;
  auto writer = blobs_->Write(&call, &response);
  gq::v1::WriteRequest request;
  request.set_upload_id("u");
  *request.mutable_digest() = DigestOf(content);
  request.set_offset(7);
  request.set_data(content.substr(7));
  request.set_finish(true);
  writer->Write(request);
  writer->WritesDone();
  EXPECT_TRUE(writer->Finish().ok());
  EXPECT_EQ(response.committed_size(), 16);
}

TEST_F(ServiceStreams, ChangedContentIsRefused) {
  Call call;
  gq::v1::WriteResponse response;
  auto writer = blobs_->Write(&call, &response);
  gq::v1::WriteRequest request;
  request.set_upload_id("u");
  *request.mutable_digest() = DigestOf("right");
  request.set_data("wrong");
  request.set_finish(true);
  writer->Write(request);
  writer->WritesDone();
  EXPECT_EQ(ReasonOf(writer->Finish()), Reason::kDigestMismatch);
}

// --- Identity -----------------------------------------------------------------------------------

TEST_F(ServiceStreams, TcpNeedsAToken) {
  auto jobs = gq::v1::JobService::NewStub(tcp_);
  gq::v1::ListJobsResponse list;
  Call without;
  EXPECT_EQ(ReasonOf(jobs->ListJobs(&without, {}, &list)), Reason::kUnauthenticated);
  Call wrong("gq_admin_00");
  EXPECT_EQ(ReasonOf(jobs->ListJobs(&wrong, {}, &list)), Reason::kUnauthenticated);
  Call right(AdminToken());
  EXPECT_TRUE(jobs->ListJobs(&right, {}, &list).ok());
  Call stream;
  gq::v1::TailLogRequest tail;
  tail.set_id("x");
  EXPECT_EQ(ReasonOf(jobs->TailLog(&stream, tail)->Finish()), Reason::kUnauthenticated);
  auto agents = gq::v1::AgentService::NewStub(tcp_);
  Call agent;
  gq::v1::SynchronizeResponse response;
  EXPECT_EQ(ReasonOf(agents->Synchronize(&agent, Worker(), &response)), Reason::kUnauthenticated);
}

TEST_F(ServiceStreams, TwoTokensOnOneChannelAreTwoPrincipals) {
  // The tokens are put into the ledger while no server runs.
  service_.reset();
  const NewToken alice = MakeToken("alice", Role::kSubmitter);
  const NewToken bob = MakeToken("bob", Role::kSubmitter);
  const NewToken viewer = MakeToken("carol", Role::kViewer);
  {
    auto ledger = *SqliteLedger::Open(options_.data / "ledger.db", clock_);
    for (const NewToken* token : {&alice, &bob, &viewer}) {
      ASSERT_TRUE(ledger->AddToken({"admin", "Test"}, token->record).ok());
    }
  }
  Open();
  auto jobs = gq::v1::JobService::NewStub(tcp_);
  auto blobs = gq::v1::BlobService::NewStub(tcp_);
  const auto submit = [&](const std::string& token, gq::v1::Job* job) {
    gq::v1::CreateJobRequest request = Request();
    Call call(token);
    return jobs->CreateJob(&call, request, job);
  };
  ASSERT_TRUE(Upload("a model", blobs.get(), alice.text).ok());
  gq::v1::Job of_alice, of_bob;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(submit(alice.text, &of_alice).ok());
    EXPECT_EQ(of_alice.principal(), "alice");
    // Possession of a blob is each one's own.
    if (i == 0) {
      EXPECT_EQ(ReasonOf(submit(bob.text, &of_bob)), Reason::kBlobMissing);
      ASSERT_TRUE(Upload("a model", blobs.get(), bob.text).ok());
    }
    ASSERT_TRUE(submit(bob.text, &of_bob).ok());
    EXPECT_EQ(of_bob.principal(), "bob");
  }
  gq::v1::GetJobRequest get;
  get.set_id(of_alice.id());
  gq::v1::Job job;
  Call own(alice.text), other(bob.text);
  EXPECT_TRUE(jobs->GetJob(&own, get, &job).ok());
  EXPECT_EQ(ReasonOf(jobs->GetJob(&other, get, &job)), Reason::kNotFound);
  gq::v1::CancelJobRequest cancel;
  cancel.set_id(of_alice.id());
  Call strange(bob.text);
  EXPECT_EQ(ReasonOf(jobs->CancelJob(&strange, cancel, &job)), Reason::kNotFound);
  EXPECT_EQ(ReasonOf(submit(viewer.text, &job)), Reason::kPermissionDenied);
  // Administration and the agents' side are closed to users.
  auto admin = gq::v1::AdminService::NewStub(tcp_);
  auto agents = gq::v1::AgentService::NewStub(tcp_);
  gq::v1::ServerStatus status;
  gq::v1::SynchronizeResponse response;
  Call ask(alice.text), act(alice.text);
  EXPECT_EQ(ReasonOf(admin->GetStatus(&ask, {}, &status)), Reason::kPermissionDenied);
  EXPECT_EQ(ReasonOf(agents->Synchronize(&act, Worker(), &response)), Reason::kPermissionDenied);
}

TEST_F(ServiceStreams, SocketIsForOwnerAndGroup) {
  const auto mode = std::filesystem::status(options_.data / "gq.sock").permissions();
  EXPECT_EQ(static_cast<unsigned>(mode) & 0777u, 0660u);
}

TEST_F(ServiceStreams, BoardsAreWatched) {
  Call call;
  auto reader = boards_->WatchBoards(&call, {});
  auto request = Worker(0);
  auto* board = request.add_boards();
  board->set_name("b1");
  board->set_device("ve2-sim");
  board->set_backend("sim");
  std::thread agent([&] { Sync(request); });
  gq::v1::Board seen;
  ASSERT_TRUE(reader->Read(&seen));
  EXPECT_EQ(seen.name(), "b1");
  EXPECT_EQ(seen.state(), gq::v1::BOARD_STATE_IDLE);
  Call reserve_call;
  gq::v1::ReserveBoardRequest reserve;
  reserve.set_name("b1");
  reserve.mutable_until()->set_seconds(absl::ToUnixSeconds(absl::Now()) + 3600);
  gq::v1::Board reserved;
  ASSERT_TRUE(boards_->ReserveBoard(&reserve_call, reserve, &reserved).ok());
  EXPECT_EQ(reserved.reserved_by(), "local");
  do {
    ASSERT_TRUE(reader->Read(&seen));
  } while (seen.state() != gq::v1::BOARD_STATE_RESERVED);
  reserve.mutable_until()->set_seconds(absl::ToUnixSeconds(absl::Now()) + 1'000'000);
  Call too_long;
  EXPECT_EQ(ReasonOf(boards_->ReserveBoard(&too_long, reserve, &reserved)), Reason::kInvalidFlag);
  call.TryCancel();
  while (reader->Read(&seen)) {
  }
  reader->Finish();
  // The held call of the agent ends with the server.
  service_->Stop();
  agent.join();
}

}  // namespace
}  // namespace gq::server
