// A server in this process with clients on its ports, and an agent that the test plays.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/status_mapping.h"
#include "gmock/gmock.h"
#include "gq/v1/admin_service.grpc.pb.h"
#include "gq/v1/agent_service.grpc.pb.h"
#include "gq/v1/blob_service.grpc.pb.h"
#include "gq/v1/board_service.grpc.pb.h"
#include "gq/v1/job_service.grpc.pb.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "server/service.h"
#include "tests/temporary_folder.h"

namespace gq::server {

// One call: deadline, and a token where one is needed.
class Call : public grpc::ClientContext {
 public:
  explicit Call(const std::string& token = "", int seconds = 30) {
    set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(seconds));
    if (!token.empty()) AddMetadata("authorization", "Bearer " + token);
  }
};

inline base::Reason ReasonOf(const grpc::Status& status) {
  return base::GetReason(rpc::FromGrpcStatus(status));
}

class ServiceTest : public testing::Test {
 protected:
  ServiceTest() {
    options_.data = folder_.path() / "data";
    options_.listen = "127.0.0.1:0";
    options_.limits.min_free_bytes = 0;
    Open();
  }

  void Open() {
    auto service = Service::Start(options_, {}, clock_);
    ASSERT_TRUE(service.ok()) << service.status();
    service_ = std::move(*service);
    local_ =
        grpc::CreateChannel(service_->local_address(), grpc::experimental::LocalCredentials(UDS));
    // A pool of its own, so that a restarted server is not looked for under an old port.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    tcp_ = grpc::CreateCustomChannel(service_->listen_address(), grpc::InsecureChannelCredentials(),
                                     arguments);
    jobs_ = gq::v1::JobService::NewStub(local_);
    agents_ = gq::v1::AgentService::NewStub(local_);
    blobs_ = gq::v1::BlobService::NewStub(local_);
    boards_ = gq::v1::BoardService::NewStub(local_);
    admin_ = gq::v1::AdminService::NewStub(local_);
  }
  void Restart() {
    service_.reset();
    Open();
  }

  std::string AdminToken() {
    return std::string(base::StripSpace(base::ReadFile(service_->data() / "admin.token").value()));
  }

  static gq::v1::Digest DigestOf(std::string_view content) {
    gq::v1::Digest digest;
    digest.set_sha256(base::Sha256Hex(content));
    digest.set_size_bytes(static_cast<int64_t>(content.size()));
    return digest;
  }

  grpc::Status Upload(std::string_view content, gq::v1::BlobService::Stub* stub = nullptr,
                      const std::string& token = "", size_t chunk = 1000) {
    if (stub == nullptr) stub = blobs_.get();
    Call call(token);
    gq::v1::WriteResponse response;
    auto writer = stub->Write(&call, &response);
    gq::v1::WriteRequest request;
    request.set_upload_id("upload-1");
    *request.mutable_digest() = DigestOf(content);
    size_t offset = 0;
    do {
      request.set_offset(static_cast<int64_t>(offset));
      request.set_data(std::string(content.substr(offset, chunk)));
      offset += request.data().size();
      request.set_finish(offset == content.size());
    } while (writer->Write(request) && offset < content.size());
    writer->WritesDone();
    return writer->Finish();
  }

  // A request whose model is uploaded and whose steps need a CPU only.
  gq::v1::CreateJobRequest Request(const std::string& request_id = "") {
    EXPECT_TRUE(Upload("a model").ok());
    gq::v1::CreateJobRequest request;
    request.set_request_id(request_id);
    request.mutable_job()->set_kind(gq::v1::JOB_KIND_ANALYZE);
    auto* file = request.mutable_job()->mutable_model()->mutable_file();
    file->set_name("m.onnx");
    *file->mutable_digest() = DigestOf("a model");
    return request;
  }
  gq::v1::Job Submit(const gq::v1::CreateJobRequest& request) {
    Call call;
    gq::v1::Job job;
    const grpc::Status status = jobs_->CreateJob(&call, request, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job;
  }
  gq::v1::Job Get(const std::string& id) {
    Call call;
    gq::v1::GetJobRequest request;
    request.set_id(id);
    gq::v1::Job job;
    const grpc::Status status = jobs_->GetJob(&call, request, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job;
  }

  static gq::v1::SynchronizeRequest Worker(int free_slots = 1) {
    gq::v1::SynchronizeRequest request;
    request.set_agent_id("w");
    request.set_session_id("s1");
    request.add_capabilities("cpu");
    request.set_free_slots(free_slots);
    return request;
  }
  gq::v1::SynchronizeResponse Sync(const gq::v1::SynchronizeRequest& request) {
    Call call;
    gq::v1::SynchronizeResponse response;
    const grpc::Status status = agents_->Synchronize(&call, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  // Takes the next step.
  gq::v1::Lease Take() {
    const auto response = Sync(Worker());
    EXPECT_EQ(response.run_size(), 1);
    return response.run_size() == 1 ? response.run(0) : gq::v1::Lease();
  }
  grpc::Status AppendLog(const gq::v1::Lease& lease, int64_t offset, const std::string& data) {
    Call call;
    gq::v1::AppendLogRequest request;
    request.set_lease_id(lease.lease_id());
    request.set_generation(lease.generation());
    request.set_offset(offset);
    request.set_data(data);
    gq::v1::AppendLogResponse response;
    return agents_->AppendLog(&call, request, &response);
  }
  // What a worker without a free slot says of its lease.
  static gq::v1::SynchronizeRequest Busy(const gq::v1::Lease& lease, gq::v1::LeasePhase phase) {
    auto request = Worker(0);
    auto* report = request.add_leases();
    report->set_lease_id(lease.lease_id());
    report->set_generation(lease.generation());
    report->set_phase(phase);
    return request;
  }
  gq::v1::SynchronizeResponse End(const gq::v1::Lease& lease, gq::v1::AttemptState state,
                                  const std::string& reason = "") {
    auto request = Busy(lease, gq::v1::LEASE_PHASE_ENDED);
    auto* result = request.mutable_leases(0)->mutable_result();
    result->set_state(state);
    result->mutable_failure()->set_reason(reason);
    return Sync(request);
  }

  tests::TemporaryFolder folder_;
  base::SystemClock clock_;
  ServiceOptions options_;
  std::unique_ptr<Service> service_;
  std::shared_ptr<grpc::Channel> local_;
  std::shared_ptr<grpc::Channel> tcp_;
  std::unique_ptr<gq::v1::JobService::Stub> jobs_;
  std::unique_ptr<gq::v1::AgentService::Stub> agents_;
  std::unique_ptr<gq::v1::BlobService::Stub> blobs_;
  std::unique_ptr<gq::v1::BoardService::Stub> boards_;
  std::unique_ptr<gq::v1::AdminService::Stub> admin_;
};

}  // namespace gq::server
