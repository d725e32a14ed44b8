#include "common/rpc/agent_session.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/log_format.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/backoff.h"
#include "common/rpc/input_cache.h"
#include "common/rpc/lease_run.h"
#include "common/rpc/lease_store.h"
#include "common/rpc/random_id.h"
#include "common/rpc/status_mapping.h"
#include "common/rpc/steady_time.h"
#include "gq/v1/agent_service.grpc.pb.h"

namespace gq::rpc {
namespace {

using base::Reason;

// The server holds a call for at most 45 s when the agent is idle and 10 s when it is busy.
constexpr absl::Duration kIdleTimeout = absl::Seconds(60);
constexpr absl::Duration kBusyTimeout = absl::Seconds(25);
// Of the call in which a stopping session tells its last results.
constexpr absl::Duration kFarewellTimeout = absl::Seconds(2);
// Of the call after a drain.
constexpr absl::Duration kLastLookTimeout = absl::Milliseconds(300);
// Between two calls, should the server ever answer without holding.
constexpr absl::Duration kMinInterval = absl::Milliseconds(10);
constexpr absl::Duration kDefaultTimeToLive = absl::Seconds(60);
constexpr absl::Duration kTick = absl::Milliseconds(100);
constexpr absl::Duration kRecoveryTimeout = absl::Seconds(15);
// Stopped work has the runner's kill delay to end; then it is not waited for any longer.
constexpr absl::Duration kStopTimeout = absl::Seconds(15);

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

StopReason StopReasonFrom(const std::string& name) {
  if (name == base::ReasonName(Reason::kLeaseLost)) return StopReason::kLeaseLost;
  if (name == base::ReasonName(Reason::kTimeout)) return StopReason::kTimeout;
  return StopReason::kCancelled;
}

}  // namespace

class AgentSession::Impl {
 public:
  Impl(AgentSessionOptions options, std::shared_ptr<Channel> channel, StepRunner* runner,
       BoardSource* boards)
      : options_(std::move(options)),
        channel_(std::move(channel)),
        runner_(runner),
        boards_(boards),
        stub_(gq::v1::AgentService::NewStub(channel_->grpc())) {}

  absl::Status Run();
  void Drain() {
    Change([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { draining_ = true; });
  }
  void Wake() {
    Change([] {});
  }
  void Stop() {
    Change([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { draining_ = stopping_ = true; });
    StopAll(StopReason::kShutdown);
  }

 private:
  using Runs = std::map<std::pair<std::string, int64_t>, std::shared_ptr<LeaseRun>>;

  // Changes the state under the lock and makes the session call the server again.
  template <typename F>
  void Change(F change) {
    absl::MutexLock lock(&mutex_);
    change();
    changed_ = true;
    BreakOff();
  }
  void BreakOff() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (call_ != nullptr) call_->TryCancel();
  }
  void OnLeaseChanged(bool urgent) {
    absl::MutexLock lock(&mutex_);
    if (!urgent) {
      progressed_ = true;
      return;
    }
    changed_ = true;
    BreakOff();
  }

  std::vector<std::shared_ptr<LeaseRun>> AllRuns() {
    absl::MutexLock lock(&mutex_);
    std::vector<std::shared_ptr<LeaseRun>> runs;
    for (const auto& [key, run] : runs_) runs.push_back(run);
    return runs;
  }
  void StopAll(StopReason reason) {
    for (const auto& run : AllRuns()) run->Stop(reason);
  }

  void Recover();
  absl::Status Loop();
  void Farewell();
  // Until `over` holds for all leases.
  void WaitForAll(bool (LeaseRun::*over)() const, absl::Duration timeout);
  bool stopping();
  bool Finished();
  gq::v1::SynchronizeRequest MakeRequest();
  grpc::Status Call(const gq::v1::SynchronizeRequest& request, absl::Duration timeout,
                    gq::v1::SynchronizeResponse& response);
  void Handle(const gq::v1::SynchronizeResponse& response);
  void StartLease(const gq::v1::Lease& lease);
  void Forget(const std::shared_ptr<LeaseRun>& run);
  void ForgetAbandoned();
  void WaitForChange(absl::Duration timeout);

  // The watch: time limits, self-fencing, progress, the state of the connection.
  void Watch(std::stop_token stop);
  void CheckFence(absl::Duration now);
  void CheckConnection();
  void Say(base::LogLevel level, std::string_view text) {
    if (options_.reporter != nullptr) options_.reporter->Log(level, "Session", text);
  }

  const AgentSessionOptions options_;
  const std::shared_ptr<Channel> channel_;
  StepRunner* const runner_;
  BoardSource* const boards_;
  const std::unique_ptr<gq::v1::AgentService::Stub> stub_;
  const std::string session_id_ = RandomUuid();
  std::optional<LeaseStore> store_;
  std::optional<InputCache> cache_;
  std::optional<LeaseServices> services_;
  bool disconnected_ = false;  // of the watch only

  absl::Mutex mutex_;
  Runs runs_ ABSL_GUARDED_BY(mutex_);
  // Reports of leases that could not even be started.
  std::map<std::string, gq::v1::LeaseReport> refused_ ABSL_GUARDED_BY(mutex_);
  grpc::ClientContext* call_ ABSL_GUARDED_BY(mutex_) = nullptr;
  absl::Duration call_start_ ABSL_GUARDED_BY(mutex_);
  absl::Duration last_contact_ ABSL_GUARDED_BY(mutex_) = SteadyNow();
  absl::Duration time_to_live_ ABSL_GUARDED_BY(mutex_) = kDefaultTimeToLive;
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;
  bool progressed_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::Status AgentSession::Impl::Run() {
  GQ_ASSIGN_OR_RETURN(LeaseStore store, LeaseStore::Open(options_.state_dir));
  store_.emplace(std::move(store));
  cache_.emplace(store_->CacheFolder(), options_.cache_bytes);
  services_.emplace(LeaseServices{options_, channel_, *runner_, *store_, *cache_,
                                  [this](bool urgent) { OnLeaseChanged(urgent); }});
  Recover();
  std::jthread watch([this](std::stop_token stop) { Watch(std::move(stop)); });
  const absl::Status status = Loop();
  if (!status.ok()) StopAll(StopReason::kShutdown);
  Farewell();
  watch.request_stop();
  watch.join();
  Runs left;
  {
    absl::MutexLock lock(&mutex_);
    left.swap(runs_);
  }
  return status;
}

// Work of an earlier process is over; its results are told in the first call, because a new session
// ends the leases of older ones.
void AgentSession::Impl::Recover() {
  for (const StoredLease& stored : store_->Load()) {
    absl::StatusOr<std::unique_ptr<LeaseRun>> run = LeaseRun::Recover(*services_, stored);
    if (!run.ok()) {
      Say(base::LogLevel::kWarn, base::FromAbsl(run.status().message()));
      store_->Remove(stored.lease);
      continue;
    }
    absl::MutexLock lock(&mutex_);
    runs_[{stored.lease.lease_id(), stored.lease.generation()}] = *std::move(run);
  }
  WaitForAll(&LeaseRun::ended, kRecoveryTimeout);
}

void AgentSession::Impl::WaitForAll(bool (LeaseRun::*over)() const, absl::Duration timeout) {
  const absl::Duration deadline = SteadyNow() + timeout;
  while (SteadyNow() < deadline) {
    {
      absl::MutexLock lock(&mutex_);
      changed_ = false;
    }
    const auto runs = AllRuns();
    if (std::all_of(runs.begin(), runs.end(), [&](const auto& run) { return (*run.*over)(); }))
      return;
    WaitForChange(kTick);
  }
}

absl::Status AgentSession::Impl::Loop() {
  Backoff backoff;
  bool looked_last = false;
  while (true) {
    ForgetAbandoned();
    absl::Duration timeout = AllRuns().empty() ? kIdleTimeout : kBusyTimeout;
    if (Finished()) {
      // The answer that was broken off by the drain may have held an assignment; the server repeats
      // it, and it is still done.
      if (looked_last || stopping()) return absl::OkStatus();
      looked_last = true;
      timeout = kLastLookTimeout;
    }
    const absl::Duration start = SteadyNow();
    gq::v1::SynchronizeResponse response;
    const grpc::Status status = Call(MakeRequest(), timeout, response);
    if (status.ok()) {
      {
        absl::MutexLock lock(&mutex_);
        last_contact_ = start;
      }
      backoff.Reset();
      Handle(response);
      const absl::Duration pause = kMinInterval - (SteadyNow() - start);
      if (!Finished()) WaitForChange(std::max(FromProto(response.next_sync_in()), pause));
      continue;
    }
    {
      // Broken off because there is something new to tell.
      absl::MutexLock lock(&mutex_);
      if (status.error_code() == grpc::StatusCode::CANCELLED && changed_) continue;
    }
    const absl::Status error = FromGrpcStatus(status);
    const Reason reason = base::GetReason(error);
    const bool refused = reason == Reason::kUnauthenticated || reason == Reason::kPermissionDenied;
    if (refused && AllRuns().empty()) return error;
    if (reason == Reason::kLeaseLost) {
      // A newer session of the same agent has taken over.
      StopAll(StopReason::kLeaseLost);
      return error;
    }
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) continue;
    const absl::Duration delay = backoff.Next(RetryDelay(status).value_or(absl::ZeroDuration()));
    Say(base::LogLevel::kWarn, base::StrCat(base::FromAbsl(error.message()), "; trying again in ",
                                            base::FormatDuration(delay)));
    WaitForChange(delay);
  }
}

// Tells the results of work that was stopped.
void AgentSession::Impl::Farewell() {
  WaitForAll(&LeaseRun::work_over, kStopTimeout);
  WaitForAll(&LeaseRun::ended, kFarewellTimeout);
  ForgetAbandoned();
  if (AllRuns().empty()) return;
  gq::v1::SynchronizeResponse response;
  if (Call(MakeRequest(), kFarewellTimeout, response).ok()) Handle(response);
}

bool AgentSession::Impl::stopping() {
  absl::MutexLock lock(&mutex_);
  return stopping_;
}

bool AgentSession::Impl::Finished() {
  absl::MutexLock lock(&mutex_);
  return stopping_ || (draining_ && runs_.empty() && refused_.empty());
}

gq::v1::SynchronizeRequest AgentSession::Impl::MakeRequest() {
  gq::v1::SynchronizeRequest request;
  request.set_agent_id(options_.agent_id);
  request.set_session_id(session_id_);
  request.set_version(options_.version);
  request.set_host(options_.host);
  request.set_process_id(::getpid());
  for (const std::string& capability : options_.capabilities) request.add_capabilities(capability);
  {
    // Before the state is read: what changes from here on calls for another request.
    absl::MutexLock lock(&mutex_);
    changed_ = false;
    progressed_ = false;
  }
  if (boards_ != nullptr) {
    for (gq::v1::BoardReport& board : boards_->Boards()) *request.add_boards() = std::move(board);
  }
  int running = 0;
  for (const auto& run : AllRuns()) {
    *request.add_leases() = run->Report();
    if (!run->ended()) ++running;
  }
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, report] : refused_) *request.add_leases() = report;
  request.set_free_slots(draining_ ? 0 : std::max(0, options_.slots - running));
  return request;
}

grpc::Status AgentSession::Impl::Call(const gq::v1::SynchronizeRequest& request,
                                      absl::Duration timeout,
                                      gq::v1::SynchronizeResponse& response) {
  grpc::ClientContext context;
  channel_->Prepare(context, timeout);
  {
    absl::MutexLock lock(&mutex_);
    if (changed_) return {grpc::StatusCode::CANCELLED, "outdated"};
    call_ = &context;
    call_start_ = SteadyNow();
  }
  const grpc::Status status = stub_->Synchronize(&context, request, &response);
  absl::MutexLock lock(&mutex_);
  call_ = nullptr;
  return status;
}

void AgentSession::Impl::Handle(const gq::v1::SynchronizeResponse& response) {
  {
    absl::MutexLock lock(&mutex_);
    if (response.has_lease_ttl()) time_to_live_ = FromProto(response.lease_ttl());
    if (response.drain()) draining_ = true;
  }
  const auto runs = AllRuns();
  for (const std::string& id : response.acknowledged()) {
    for (const auto& run : runs) {
      if (run->lease().lease_id() == id && run->ended()) Forget(run);
    }
    absl::MutexLock lock(&mutex_);
    refused_.erase(id);
  }
  for (const gq::v1::CancelLease& cancel : response.cancel()) {
    for (const auto& run : runs) {
      if (run->lease().lease_id() == cancel.lease_id()) run->Stop(StopReasonFrom(cancel.reason()));
    }
    absl::MutexLock lock(&mutex_);
    refused_.erase(cancel.lease_id());
  }
  for (const gq::v1::Lease& lease : response.run()) StartLease(lease);
  if (boards_ == nullptr) return;
  for (const std::string& board : response.health_checks()) boards_->StartHealthCheck(board);
}

void AgentSession::Impl::StartLease(const gq::v1::Lease& lease) {
  {
    absl::MutexLock lock(&mutex_);
    if (runs_.contains({lease.lease_id(), lease.generation()}) || stopping_) return;
  }
  absl::StatusOr<std::unique_ptr<LeaseRun>> run = LeaseRun::Start(*services_, lease);
  absl::MutexLock lock(&mutex_);
  if (run.ok()) {
    runs_[{lease.lease_id(), lease.generation()}] = *std::move(run);
    return;
  }
  gq::v1::LeaseReport& report = refused_[lease.lease_id()];
  report.set_lease_id(lease.lease_id());
  report.set_generation(lease.generation());
  report.set_phase(gq::v1::LEASE_PHASE_ENDED);
  report.mutable_result()->set_state(gq::v1::ATTEMPT_STATE_LOST);
  *report.mutable_result()->mutable_failure() = ToFailure(run.status());
  changed_ = true;
}

void AgentSession::Impl::Forget(const std::shared_ptr<LeaseRun>& run) {
  {
    absl::MutexLock lock(&mutex_);
    runs_.erase({run->lease().lease_id(), run->lease().generation()});
  }
  store_->Remove(run->lease());
}

void AgentSession::Impl::ForgetAbandoned() {
  for (const auto& run : AllRuns()) {
    if (!run->abandoned()) continue;
    Say(base::LogLevel::kWarn,
        base::StrCat("lease ", run->lease().lease_id(), " was lost; its work was dropped"));
    Forget(run);
  }
}

void AgentSession::Impl::WaitForChange(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&changed_), timeout);
}

void AgentSession::Impl::Watch(std::stop_token stop) {
  while (SleepFor(kTick, stop)) {
    const absl::Duration now = SteadyNow();
    for (const auto& run : AllRuns()) run->CheckTimeout(now);
    CheckFence(now);
    CheckConnection();
    absl::MutexLock lock(&mutex_);
    if (progressed_ && call_ != nullptr && now - call_start_ >= options_.progress_interval) {
      changed_ = true;
      BreakOff();
    }
  }
}

void AgentSession::Impl::CheckFence(absl::Duration now) {
  {
    absl::MutexLock lock(&mutex_);
    if (now - last_contact_ < time_to_live_ + options_.grace) return;
  }
  for (const auto& run : AllRuns()) {
    if (run->ended() || run->Report().phase() == gq::v1::LEASE_PHASE_ENDED) continue;
    run->Stop(StopReason::kFenced);
  }
}

void AgentSession::Impl::CheckConnection() {
  const grpc_connectivity_state state = channel_->grpc()->GetState(/*try_to_connect=*/false);
  if (state == GRPC_CHANNEL_TRANSIENT_FAILURE && !disconnected_) {
    disconnected_ = true;
    Say(base::LogLevel::kWarn,
        base::StrCat("the server at ", channel_->address(), " cannot be reached; trying again"));
  } else if (state == GRPC_CHANNEL_READY && disconnected_) {
    disconnected_ = false;
    Say(base::LogLevel::kInfo, base::StrCat("connected to ", channel_->address(), " again"));
  }
}

AgentSession::AgentSession(AgentSessionOptions options, std::shared_ptr<Channel> channel,
                           StepRunner* runner, BoardSource* boards)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(channel), runner, boards)) {}
AgentSession::~AgentSession() = default;
absl::Status AgentSession::Run() { return impl_->Run(); }
void AgentSession::Drain() { impl_->Drain(); }
void AgentSession::Stop() { impl_->Stop(); }
void AgentSession::Wake() { impl_->Wake(); }

}  // namespace gq::rpc
