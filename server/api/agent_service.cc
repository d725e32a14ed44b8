#include "server/api/agent_service.h"

#include <atomic>
#include <exception>
#include <random>

#include "common/base/status.h"
#include "common/base/text.h"
#include "server/api/wake_gate.h"

namespace gq::server {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

constexpr size_t kMaxLogChunk = 64 << 10;
constexpr int kDrainRetrySeconds = 2;

// Agents act as such; the local administrator may do it for tests and by hand.
absl::Status RequireAgent(const Caller& caller) {
  if (caller.principal.role == Role::kAdmin) return absl::OkStatus();
  return RequireRole(caller.principal, Role::kAgent);
}

// An agent with an identity of its own speaks for itself only.
absl::Status CheckName(const Principal& principal, std::string_view agent) {
  const std::string_view own = AgentOfPrincipal(principal.name);
  if (own.empty() || own == agent) return absl::OkStatus();
  return MakeError(Reason::kPermissionDenied,
                   StrCat("the token is that of agent '", own, "', not of '", agent, "'"),
                   StrCat("start it with --name ", own, ", or enrol it under its own name"));
}

absl::Duration UpTo(absl::Duration limit) {
  thread_local std::minstd_rand random(std::random_device{}());
  return limit * std::uniform_real_distribution<double>(0, 1)(random);
}

}  // namespace

// One call of Synchronize: takes the report in once, then looks for orders until there are some,
// the time to hold the answer is over, or the agent calls anew.
class SyncCall final : public grpc::ServerUnaryReactor,
                       public std::enable_shared_from_this<SyncCall> {
 public:
  SyncCall(const Backend& backend, const gq::v1::SynchronizeRequest* request,
           gq::v1::SynchronizeResponse* response)
      : backend_(backend), request_(*request), response_(response) {}

  void Start(OpenSyncCalls* open_calls) {
    self_ = shared_from_this();
    const std::string& agent = request_.agent_id();
    open_calls->Replace(agent, self_);
    const auto waker = [weak = weak_from_this()] {
      if (auto call = weak.lock()) call->Wake();
    };
    agent_subscription_ = backend_.hub.Subscribe(AgentTopic(agent), waker);
    queue_subscription_ = backend_.hub.Subscribe(std::string(kQueueTopic), waker);
    const bool busy = request_.leases_size() > 0;
    const ApiLimits& limits = backend_.limits;
    const absl::Duration hold =
        busy ? limits.busy_hold : limits.idle_hold + UpTo(limits.idle_hold_jitter);
    backend_.executor.PostAfter(hold, [weak = weak_from_this()] {
      if (auto call = weak.lock()) call->Release();
    });
    Post();
  }

  void Refuse(const absl::Status& status) {
    self_ = shared_from_this();
    End(status);
  }

  // Answers now, with whatever there is.
  void Release() {
    release_ = true;
    Wake();
  }

  void Wake() {
    if (gate_.Wake()) Post();
  }

 private:
  void Post() {
    backend_.executor.Post([call = shared_from_this()] { call->Step(); });
  }

  void Step() {
    absl::Status status;
    bool answer = false;
    try {
      status = Look(&answer);
    } catch (const std::exception& error) {
      status = MakeError(Reason::kInternal, error.what());
    }
    if (!status.ok() || answer || release_ || cancelled_) return End(status);
    if (gate_.LookAgain()) Post();
  }

  absl::Status Look(bool* answer) {
    if (!report_taken_) {
      GQ_ASSIGN_OR_RETURN(*response_, backend_.scheduler.TakeReport(request_));
      report_taken_ = true;
    }
    // An answer that nobody will read hands out nothing.
    if (cancelled_ || release_) return absl::OkStatus();
    GQ_ASSIGN_OR_RETURN(*answer, backend_.scheduler.AddOrders(request_, response_));
    return absl::OkStatus();
  }

  void End(const absl::Status& status) {
    gate_.Close();
    if (backend_.scheduler.draining()) {
      response_->mutable_next_sync_in()->set_seconds(kDrainRetrySeconds);
    }
    Finish(Respond("AgentService.Synchronize", status));
  }

  void OnCancel() override {
    cancelled_ = true;
    Wake();
  }
  void OnDone() override { self_.reset(); }

  const Backend& backend_;
  const gq::v1::SynchronizeRequest request_;
  gq::v1::SynchronizeResponse* const response_;
  bool report_taken_ = false;
  std::atomic<bool> release_ = false;
  std::atomic<bool> cancelled_ = false;
  WakeGate gate_;
  ChangeHub::Subscription agent_subscription_;
  ChangeHub::Subscription queue_subscription_;
  std::shared_ptr<SyncCall> self_;
};

void OpenSyncCalls::Replace(const std::string& agent, const std::shared_ptr<SyncCall>& call) {
  std::shared_ptr<SyncCall> before;
  {
    absl::MutexLock lock(&mutex_);
    std::weak_ptr<SyncCall>& entry = calls_[agent];
    before = entry.lock();
    entry = call;
  }
  if (before) before->Release();
}

grpc::ServerUnaryReactor* AgentService::Synchronize(grpc::CallbackServerContext* context,
                                                    const gq::v1::SynchronizeRequest* request,
                                                    gq::v1::SynchronizeResponse* response) {
  auto call = std::make_shared<SyncCall>(backend_, request, response);
  absl::StatusOr<Caller> caller = Identify(backend_, *context, "AgentService.Synchronize");
  absl::Status status = caller.ok() ? RequireAgent(*caller) : caller.status();
  if (status.ok()) status = CheckName(caller->principal, request->agent_id());
  if (status.ok()) {
    call->Start(&open_calls_);
  } else {
    call->Refuse(status);
  }
  return call.get();
}

grpc::ServerUnaryReactor* AgentService::AppendLog(grpc::CallbackServerContext* context,
                                                  const gq::v1::AppendLogRequest* request,
                                                  gq::v1::AppendLogResponse* response) {
  return RunCall(
      backend_, context, "AgentService.AppendLog", [=, this](const Caller& caller) -> absl::Status {
        GQ_RETURN_IF_ERROR(RequireAgent(caller));
        if (request->data().size() > kMaxLogChunk || request->offset() < 0) {
          return MakeError(Reason::kInvalidFlag,
                           StrCat("data has at most ", kMaxLogChunk, " bytes"));
        }
        GQ_ASSIGN_OR_RETURN(
            const LeaseRecord lease,
            backend_.scheduler.CheckLease({request->lease_id(), request->generation()}));
        GQ_ASSIGN_OR_RETURN(
            const int64_t size,
            backend_.logs.Append(lease.job_id, lease.attempt, request->offset(), request->data()));
        backend_.hub.Publish(LogTopic(lease.job_id));
        GQ_RETURN_IF_ERROR(backend_.logs.Sync(lease.job_id, lease.attempt));
        response->set_committed_size(size);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* AgentService::ReportIteration(
    grpc::CallbackServerContext* context, const gq::v1::ReportIterationRequest* request,
    gq::v1::ReportIterationResponse*) {
  return RunCall(backend_, context, "AgentService.ReportIteration",
                 [=, this](const Caller& caller) -> absl::Status {
                   GQ_RETURN_IF_ERROR(RequireAgent(caller));
                   const LeaseKey key{request->lease_id(), request->generation()};
                   GQ_ASSIGN_OR_RETURN(const LeaseRecord lease, backend_.scheduler.CheckLease(key));
                   GQ_RETURN_IF_ERROR(backend_.ledger.RecordIteration(key, request->iteration()));
                   backend_.hub.Publish(JobTopic(lease.job_id));
                   return absl::OkStatus();
                 });
}

}  // namespace gq::server
