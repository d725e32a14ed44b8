// The server is killed again and again while a client and an agent work; nothing that it had
// acknowledged may be lost, and nothing may have happened twice.
#include <atomic>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "common/base/sha256.h"
#include "gq/v1/admin_service.grpc.pb.h"
#include "gq/v1/agent_service.grpc.pb.h"
#include "gq/v1/blob_service.grpc.pb.h"
#include "gq/v1/job_service.grpc.pb.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "tests/faults/server/server_process.h"
#include "tests/temporary_folder.h"

namespace gq::server {
namespace {

class Call : public grpc::ClientContext {
 public:
  Call() {
    set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    set_wait_for_ready(true);
  }
};

class ServerKill : public testing::Test {
 protected:
  void Connect() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
    // Also the time that connecting may take.
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10'000);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    channel_ = grpc::CreateCustomChannel(server_.address(),
                                         grpc::experimental::LocalCredentials(UDS), arguments);
    jobs_ = gq::v1::JobService::NewStub(channel_);
    agents_ = gq::v1::AgentService::NewStub(channel_);
    blobs_ = gq::v1::BlobService::NewStub(channel_);
  }

  // Repeats a call until the server lives long enough to answer it.
  static grpc::Status Insist(const std::function<grpc::Status(Call*)>& attempt) {
    grpc::Status status;
    for (int i = 0; i < 200; ++i) {
      Call call;
      status = attempt(&call);
      if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return status;
    }
    return status;
  }

  static gq::v1::Digest DigestOf(const std::string& content) {
    gq::v1::Digest digest;
    digest.set_sha256(base::Sha256Hex(content));
    digest.set_size_bytes(static_cast<int64_t>(content.size()));
    return digest;
  }

  void Upload(const std::string& content) {
    const grpc::Status status = Insist([&](Call* call) {
      gq::v1::QueryWriteStatusRequest query;
      query.set_upload_id("u");
      *query.mutable_digest() = DigestOf(content);
      gq::v1::QueryWriteStatusResponse state;
      if (grpc::Status asked = blobs_->QueryWriteStatus(call, query, &state); !asked.ok()) {
        return asked;
      }
      if (state.complete()) return grpc::Status::OK;
      Call write;
      gq::v1::WriteResponse response;
      auto writer = blobs_->Write(&write, &response);
      gq::v1::WriteRequest request;
      request.set_upload_id("u");
      *request.mutable_digest() = DigestOf(content);
      request.set_offset(state.committed_size());
      request.set_data(content.substr(static_cast<size_t>(state.committed_size())));
      request.set_finish(true);
      writer->Write(request);
      writer->WritesDone();
      return writer->Finish();
    });
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  std::string Submit(const std::string& content, const std::string& request_id) {
    gq::v1::CreateJobRequest request;
    request.set_request_id(request_id);
    request.mutable_job()->set_kind(gq::v1::JOB_KIND_ANALYZE);
    auto* file = request.mutable_job()->mutable_model()->mutable_file();
    file->set_name("m.onnx");
    *file->mutable_digest() = DigestOf(content);
    gq::v1::Job job;
    const grpc::Status status =
        Insist([&](Call* call) { return jobs_->CreateJob(call, request, &job); });
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job.id();
  }

  gq::v1::SynchronizeResponse Sync(const gq::v1::Lease* ended) {
    gq::v1::SynchronizeRequest request;
    request.set_agent_id("w");
    request.set_session_id("s1");
    request.add_capabilities("cpu");
    request.set_free_slots(ended == nullptr ? 1 : 0);
    if (ended != nullptr) {
      auto* report = request.add_leases();
      report->set_lease_id(ended->lease_id());
      report->set_generation(ended->generation());
      report->set_phase(gq::v1::LEASE_PHASE_ENDED);
      report->mutable_result()->set_state(gq::v1::ATTEMPT_STATE_SUCCEEDED);
    }
    gq::v1::SynchronizeResponse response;
    const grpc::Status status =
        Insist([&](Call* call) { return agents_->Synchronize(call, request, &response); });
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  // Sends lines, noting how much the server acknowledged.
  void SendLog(const gq::v1::Lease& lease, std::string* log) {
    for (int line = 0; line < 5; ++line) {
      const std::string text = lease.job_id() + " line " + std::to_string(line) + "\n";
      gq::v1::AppendLogRequest request;
      request.set_lease_id(lease.lease_id());
      request.set_generation(lease.generation());
      request.set_offset(static_cast<int64_t>(log->size()));
      request.set_data(text);
      gq::v1::AppendLogResponse response;
      const grpc::Status status =
          Insist([&](Call* call) { return agents_->AppendLog(call, request, &response); });
      ASSERT_TRUE(status.ok()) << status.error_message();
      *log += text;
      ASSERT_EQ(response.committed_size(), static_cast<int64_t>(log->size()));
    }
  }

  tests::TemporaryFolder folder_;
  ServerProcess server_{folder_.path() / "data"};
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<gq::v1::JobService::Stub> jobs_;
  std::unique_ptr<gq::v1::AgentService::Stub> agents_;
  std::unique_ptr<gq::v1::BlobService::Stub> blobs_;
};

TEST_F(ServerKill, NothingAcknowledgedIsLostAndNothingHappensTwice) {
  server_.Start();
  Connect();
  std::atomic<bool> working = true;
  std::atomic<int> kills = 0;
  std::thread killer([&] {
    std::minstd_rand random(42);
    while (working) {
      // A server that has answered once is killed in the middle of its work.
      gq::v1::ListJobsResponse ignored;
      Insist([&](Call* call) { return jobs_->ListJobs(call, {}, &ignored); });
      absl::SleepFor(absl::Milliseconds(random() % 150));
      if (!working) break;
      server_.Kill(SIGKILL);
      ++kills;
      server_.Start();
    }
  });
  std::map<std::string, std::string> logs;  // by job, as acknowledged
  int jobs = 0;
  while (jobs < 40 || (kills < 10 && jobs < 400)) {
    const std::string content = "model " + std::to_string(jobs);
    Upload(content);
    const std::string id = Submit(content, "request-" + std::to_string(jobs));
    if (HasFailure()) break;
    EXPECT_TRUE(logs.emplace(id, "").second) << "a new request, so a new job";
    const auto response = Sync(nullptr);
    EXPECT_EQ(response.run_size(), 1);
    if (HasFailure()) break;
    const gq::v1::Lease lease = response.run(0);
    EXPECT_EQ(lease.job_id(), id);
    EXPECT_EQ(lease.attempt(), 1);
    SendLog(lease, &logs[id]);
    EXPECT_EQ(Sync(&lease).acknowledged_size(), 1);
    if (HasFailure()) break;
    ++jobs;
  }
  working = false;
  killer.join();
  // A process started by a thread dies with it; the last one belongs to this thread.
  server_.Kill(SIGKILL);
  server_.Start();
  ASSERT_FALSE(HasFailure());
  EXPECT_GE(kills, 3);

  gq::v1::ListJobsRequest list;
  list.set_page_size(1000);
  gq::v1::ListJobsResponse all;
  ASSERT_TRUE(Insist([&](Call* call) { return jobs_->ListJobs(call, list, &all); }).ok());
  EXPECT_EQ(all.jobs_size(), jobs);
  for (const auto& [id, log] : logs) {
    gq::v1::GetJobRequest get;
    get.set_id(id);
    gq::v1::Job job;
    ASSERT_TRUE(Insist([&](Call* call) { return jobs_->GetJob(call, get, &job); }).ok());
    EXPECT_EQ(job.state(), gq::v1::JOB_STATE_SUCCEEDED);
    EXPECT_EQ(job.steps(0).attempts_size(), 1) << "the step ran once";
    Call call;
    gq::v1::TailLogRequest tail;
    tail.set_id(id);
    auto reader = jobs_->TailLog(&call, tail);
    gq::v1::TailLogResponse response;
    std::string stored;
    while (reader->Read(&response)) stored += response.data();
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_EQ(stored, log);
  }
  // Every blob is there and whole.
  for (int i = 0; i < jobs; ++i) {
    const std::string content = "model " + std::to_string(i);
    Call call;
    gq::v1::ReadRequest read;
    *read.mutable_digest() = DigestOf(content);
    auto reader = blobs_->Read(&call, read);
    gq::v1::ReadResponse response;
    std::string stored;
    while (reader->Read(&response)) stored += response.data();
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_EQ(stored, content);
  }
  EXPECT_EQ(server_.Kill(SIGTERM), 0) << "it still stops in good order";
}

}  // namespace
}  // namespace gq::server
