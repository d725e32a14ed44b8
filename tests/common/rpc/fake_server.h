// A server for tests: leases, logs, iterations and blobs in memory, with faults on demand. Its
// state outlives a restart of the listening part, as the real ledger does.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_mapping.h"
#include "gq/v1/agent_service.grpc.pb.h"
#include "gq/v1/blob_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace gq::rpc {

inline grpc::Status Unavailable() { return {grpc::StatusCode::UNAVAILABLE, "fault"}; }
inline grpc::Status Refuse(base::Reason reason) {
  return ToGrpcStatus(base::MakeError(reason, "refused by the test"));
}

class FakeAgentService : public gq::v1::AgentService::Service {
 public:
  struct State {
    gq::v1::Lease lease;
    bool reported = false;
    bool cancel = false;
    std::string cancel_reason = "CANCELLED";
    std::string log;
    std::vector<int> iterations;
    std::vector<gq::v1::StepResult> results;
    std::vector<gq::v1::StepProgress> progress;
    int assignments = 0;
  };

  void Add(const gq::v1::Lease& lease) {
    absl::MutexLock lock(&mutex_);
    leases_[lease.lease_id()].lease = lease;
    changed_ = true;
  }
  void Cancel(const std::string& id, const std::string& reason = "CANCELLED") {
    absl::MutexLock lock(&mutex_);
    leases_[id].cancel = true;
    leases_[id].cancel_reason = reason;
    changed_ = true;
  }
  // The lease belongs to somebody else from now on.
  void Revoke(const std::string& id) {
    absl::MutexLock lock(&mutex_);
    leases_[id].lease.set_generation(leases_[id].lease.generation() + 1);
    leases_[id].reported = true;
    changed_ = true;
  }
  void Drain() {
    absl::MutexLock lock(&mutex_);
    drain_ = changed_ = true;
  }
  State Get(const std::string& id) {
    absl::MutexLock lock(&mutex_);
    return leases_[id];
  }
  gq::v1::SynchronizeRequest last_request() {
    absl::MutexLock lock(&mutex_);
    return last_request_;
  }
  // Waits until `condition` holds for the lease; false after ten seconds.
  template <typename F>
  bool WaitFor(const std::string& id, F condition) {
    absl::MutexLock lock(&mutex_);
    const auto holds = [&] { return condition(leases_[id]); };
    return mutex_.AwaitWithTimeout(absl::Condition(&holds), absl::Seconds(10));
  }
  bool WaitForResult(const std::string& id) {
    return WaitFor(id, [](const State& state) { return !state.results.empty(); });
  }
  // The last report of the agent's first board with the outcome of a health check, which runs
  // beside the steps; the last report of any kind after ten seconds.
  gq::v1::BoardReport CheckedBoard() {
    absl::MutexLock lock(&mutex_);
    const auto checked = [&] {
      return last_request_.boards_size() > 0 &&
             last_request_.boards(0).health() != gq::v1::BOARD_HEALTH_UNSPECIFIED;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&checked), absl::Seconds(10));
    return last_request_.boards_size() > 0 ? last_request_.boards(0) : gq::v1::BoardReport();
  }
  // So many answers get lost after the server has acted.
  void LoseAnswers(int synchronize, int append_log) {
    absl::MutexLock lock(&mutex_);
    lost_synchronize_ = synchronize;
    lost_append_ = append_log;
  }
  // Forgets the end of a log, as a disk that lied would.
  void TruncateLog(const std::string& id, size_t size) {
    absl::MutexLock lock(&mutex_);
    leases_[id].log.resize(std::min(size, leases_[id].log.size()));
  }
  // Answers no call until Recover().
  void Hang() {
    absl::MutexLock lock(&mutex_);
    hanging_ = true;
  }
  void set_time_to_live(absl::Duration ttl) {
    absl::MutexLock lock(&mutex_);
    ttl_ = ttl;
  }
  void Unblock() {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  void Reopen() {
    absl::MutexLock lock(&mutex_);
    closing_ = false;
  }

  grpc::Status Synchronize(grpc::ServerContext* context, const gq::v1::SynchronizeRequest* request,
                           gq::v1::SynchronizeResponse* response) override {
    absl::MutexLock lock(&mutex_);
    if (!WaitWhileHanging(context)) return Unavailable();
    last_request_ = *request;
    for (const gq::v1::LeaseReport& report : request->leases()) Take(report, *response);
    const absl::Time end = absl::Now() + absl::Milliseconds(300);
    while (!FillIn(*request, *response) && absl::Now() < end && !context->IsCancelled() &&
           !closing_) {
      mutex_.AwaitWithTimeout(absl::Condition(&changed_), absl::Milliseconds(10));
      changed_ = false;
    }
    response->mutable_lease_ttl()->set_seconds(absl::ToInt64Seconds(ttl_));
    response->mutable_lease_ttl()->set_nanos(
        static_cast<int32_t>(absl::ToInt64Nanoseconds(ttl_ % absl::Seconds(1))));
    response->set_drain(drain_);
    if (closing_ || (lost_synchronize_ > 0 && lost_synchronize_-- > 0)) return Unavailable();
    return grpc::Status::OK;
  }

  grpc::Status AppendLog(grpc::ServerContext* context, const gq::v1::AppendLogRequest* request,
                         gq::v1::AppendLogResponse* response) override {
    absl::MutexLock lock(&mutex_);
    if (!WaitWhileHanging(context)) return Unavailable();
    State& state = leases_[request->lease_id()];
    if (state.lease.generation() != request->generation()) {
      return Refuse(base::Reason::kLeaseLost);
    }
    const auto size = static_cast<int64_t>(state.log.size());
    if (request->offset() > size) return Refuse(base::Reason::kLogGap);
    const auto known = static_cast<size_t>(size - request->offset());
    if (known < request->data().size()) state.log += request->data().substr(known);
    response->set_committed_size(static_cast<int64_t>(state.log.size()));
    if (lost_append_ > 0 && lost_append_-- > 0) return Refuse(base::Reason::kOverloaded);
    return grpc::Status::OK;
  }

  grpc::Status ReportIteration(grpc::ServerContext*, const gq::v1::ReportIterationRequest* request,
                               gq::v1::ReportIterationResponse*) override {
    absl::MutexLock lock(&mutex_);
    State& state = leases_[request->lease_id()];
    if (state.lease.generation() != request->generation()) {
      return Refuse(base::Reason::kLeaseLost);
    }
    state.iterations.push_back(request->iteration().number());
    return grpc::Status::OK;
  }

 private:
  void Take(const gq::v1::LeaseReport& report, gq::v1::SynchronizeResponse& response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    State& state = leases_[report.lease_id()];
    if (state.lease.generation() != report.generation()) {
      gq::v1::CancelLease& cancel = *response.add_cancel();
      cancel.set_lease_id(report.lease_id());
      cancel.set_reason("LEASE_LOST");
      return;
    }
    state.reported = true;
    if (report.has_progress()) state.progress.push_back(report.progress());
    if (report.phase() != gq::v1::LEASE_PHASE_ENDED) return;
    state.results.push_back(report.result());
    response.add_acknowledged(report.lease_id());
  }
  // True when there is something to say.
  bool FillIn(const gq::v1::SynchronizeRequest& request, gq::v1::SynchronizeResponse& response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    int free_slots = request.free_slots();
    for (auto& [id, state] : leases_) {
      if (state.lease.lease_id().empty() || !state.results.empty()) continue;
      if (state.cancel) {
        gq::v1::CancelLease& cancel = *response.add_cancel();
        cancel.set_lease_id(id);
        cancel.set_reason(state.cancel_reason);
      } else if (!state.reported && free_slots > 0) {
        *response.add_run() = state.lease;
        ++state.assignments;
        --free_slots;
      }
    }
    return drain_ ||
           response.run_size() + response.cancel_size() + response.acknowledged_size() > 0;
  }
  bool WaitWhileHanging(grpc::ServerContext* context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (hanging_ && !closing_ && !context->IsCancelled()) {
      mutex_.AwaitWithTimeout(absl::Condition(&closing_), absl::Milliseconds(10));
    }
    return !hanging_;
  }

  absl::Mutex mutex_;
  std::map<std::string, State> leases_ ABSL_GUARDED_BY(mutex_);
  gq::v1::SynchronizeRequest last_request_ ABSL_GUARDED_BY(mutex_);
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;
  bool drain_ ABSL_GUARDED_BY(mutex_) = false;
  bool hanging_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  int lost_synchronize_ ABSL_GUARDED_BY(mutex_) = 0;
  int lost_append_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration ttl_ ABSL_GUARDED_BY(mutex_) = absl::Seconds(60);
};

class FakeBlobService : public gq::v1::BlobService::Service {
 public:
  void Put(const std::string& bytes) {
    absl::MutexLock lock(&mutex_);
    blobs_[base::Sha256Hex(bytes)] = bytes;
  }
  std::string Get(const std::string& sha256) {
    absl::MutexLock lock(&mutex_);
    return blobs_.contains(sha256) ? blobs_[sha256] : "";
  }
  // The next uploads break after so many messages; the next downloads after so many chunks.
  void Break(std::vector<int> writes, std::vector<int> reads) {
    absl::MutexLock lock(&mutex_);
    broken_writes_ = std::move(writes);
    broken_reads_ = std::move(reads);
  }
  void DamageReads() {
    absl::MutexLock lock(&mutex_);
    damage_ = true;
  }
  int64_t bytes_received() {
    absl::MutexLock lock(&mutex_);
    return received_;
  }
  int64_t bytes_sent() {
    absl::MutexLock lock(&mutex_);
    return sent_;
  }

  grpc::Status FindMissingBlobs(grpc::ServerContext*,
                                const gq::v1::FindMissingBlobsRequest* request,
                                gq::v1::FindMissingBlobsResponse* response) override {
    absl::MutexLock lock(&mutex_);
    for (const gq::v1::Digest& digest : request->digests()) {
      if (!blobs_.contains(digest.sha256())) *response->add_missing() = digest;
    }
    return grpc::Status::OK;
  }

  grpc::Status Write(grpc::ServerContext*, grpc::ServerReader<gq::v1::WriteRequest>* reader,
                     gq::v1::WriteResponse* response) override {
    gq::v1::WriteRequest request;
    std::string id;
    gq::v1::Digest digest;
    int budget;
    {
      absl::MutexLock lock(&mutex_);
      budget = Next(broken_writes_);
    }
    while (reader->Read(&request)) {
      absl::MutexLock lock(&mutex_);
      if (id.empty()) {
        id = request.upload_id();
        digest = request.digest();
      }
      if (budget-- == 0) return Unavailable();
      std::string& part = uploads_[id];
      if (request.offset() != static_cast<int64_t>(part.size())) {
        return Refuse(base::Reason::kUploadOffset);
      }
      part += request.data();
      received_ += static_cast<int64_t>(request.data().size());
      if (!request.finish()) continue;
      if (base::Sha256Hex(part) != digest.sha256()) return Refuse(base::Reason::kDigestMismatch);
      blobs_[digest.sha256()] = part;
      response->set_committed_size(static_cast<int64_t>(part.size()));
    }
    return grpc::Status::OK;
  }

  grpc::Status QueryWriteStatus(grpc::ServerContext*,
                                const gq::v1::QueryWriteStatusRequest* request,
                                gq::v1::QueryWriteStatusResponse* response) override {
    absl::MutexLock lock(&mutex_);
    response->set_committed_size(static_cast<int64_t>(uploads_[request->upload_id()].size()));
    response->set_complete(blobs_.contains(request->digest().sha256()));
    return grpc::Status::OK;
  }

  grpc::Status Read(grpc::ServerContext*, const gq::v1::ReadRequest* request,
                    grpc::ServerWriter<gq::v1::ReadResponse>* writer) override {
    absl::MutexLock lock(&mutex_);
    const auto blob = blobs_.find(request->digest().sha256());
    if (blob == blobs_.end()) return Refuse(base::Reason::kBlobMissing);
    int budget = Next(broken_reads_);
    auto offset = static_cast<size_t>(request->offset());
    do {
      if (budget-- == 0) return Unavailable();
      gq::v1::ReadResponse response;
      response.set_offset(static_cast<int64_t>(offset));
      response.set_data(blob->second.substr(offset, 1 << 20));
      if (damage_ && !response.data().empty()) (*response.mutable_data())[0] ^= 1;
      offset += response.data().size();
      sent_ += static_cast<int64_t>(response.data().size());
      writer->Write(response);
    } while (offset < blob->second.size());
    return grpc::Status::OK;
  }

 private:
  static int Next(std::vector<int>& budgets) {
    if (budgets.empty()) return -1;
    const int budget = budgets.front();
    budgets.erase(budgets.begin());
    return budget;
  }

  absl::Mutex mutex_;
  std::map<std::string, std::string> blobs_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> uploads_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> broken_writes_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> broken_reads_ ABSL_GUARDED_BY(mutex_);
  bool damage_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t received_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t sent_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Listens on a unix socket in `folder`.
class FakeServer {
 public:
  explicit FakeServer(const std::filesystem::path& folder)
      : address_("unix:" + (folder / "server.sock").string()) {
    Start();
  }
  ~FakeServer() { Stop(); }

  void Start() {
    agents.Reopen();
    grpc::ServerBuilder builder;
    // Else the end of a server can take ten seconds.
    builder.SetSyncServerOption(grpc::ServerBuilder::CQ_TIMEOUT_MSEC, 200);
    AddServerArguments(builder);
    builder.AddListeningPort(address_, grpc::experimental::LocalServerCredentials(UDS));
    builder.RegisterService(&agents);
    builder.RegisterService(&blobs);
    server_ = builder.BuildAndStart();
  }
  void Stop() {
    if (!server_) return;
    agents.Unblock();
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    server_->Wait();
    server_.reset();
  }
  std::shared_ptr<Channel> Connect(ChannelUse use = ChannelUse::kAgent) {
    ChannelOptions options;
    options.address = address_;
    options.use = use;
    return Channel::Create(options).value();
  }

  FakeAgentService agents;
  FakeBlobService blobs;

 private:
  const std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace gq::rpc
