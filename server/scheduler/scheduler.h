// Decides who does what: answers agents, watches leases and time-outs, explains waits.
#pragma once

#include <atomic>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "gq/v1/agent_service.pb.h"
#include "server/events/change_hub.h"
#include "server/ledger/ledger.h"
#include "server/logs/log_store.h"

namespace gq::server {

struct LeaseTimes {
  absl::Duration ttl = absl::Seconds(60);
  absl::Duration grace = absl::Seconds(30);
  // After a restart of the server, for the leases of agents that have to find it again.
  absl::Duration restart_grace = absl::Seconds(150);
  // Agents that were not heard of for so long count as offline.
  absl::Duration online_within = absl::Seconds(90);
  // A Board Run step is given up when no board that fits was there for so long.
  absl::Duration board_gone = absl::Minutes(5);
  // Past work that counts for fair share.
  absl::Duration fair_share_window = absl::Hours(24);
};

// Thread-safe. Calls block on the ledger.
class Scheduler {
 public:
  // All outlive the scheduler.
  Scheduler(Ledger& ledger, LogStore& logs, ChangeHub& hub, const base::Clock& clock,
            LeaseTimes times = {});

  // Called once before the first agent calls: brings the ledger's leases in line with a restart.
  // `local_agents` are the child processes that will be started.
  absl::Status Recover(const std::vector<std::string>& local_agents);

  // --- Agents -----------------------------------------------------------------------------------

  // Takes in what an agent says: renews leases, stores results. The answer acknowledges results and
  // names leases that are lost. Fails with kLeaseLost, kAlreadyExists, kInvalidFlag.
  absl::StatusOr<gq::v1::SynchronizeResponse> TakeReport(const gq::v1::SynchronizeRequest& request);

  // Adds to the answer what the agent should do. True when there is something that it has not been
  // told yet, so that the answer must not wait. May be called again for the same request.
  absl::StatusOr<bool> AddOrders(const gq::v1::SynchronizeRequest& request,
                                 gq::v1::SynchronizeResponse* response);

  // The lease of a write by an agent, or kLeaseLost.
  absl::StatusOr<LeaseRecord> CheckLease(const LeaseKey& key) { return ledger_.CheckLease(key); }

  // A child process has ended: so have its leases. `counts` is false when the server stopped it.
  absl::Status AgentExited(std::string_view agent, std::string_view how, bool counts);

  // --- Time -------------------------------------------------------------------------------------

  // Ends what has run out of time. Called every second.
  void Sweep();

  // --- Questions --------------------------------------------------------------------------------

  // Fails with kNoEligibleBoard or kDeviceUnknown when no registered board could ever run a step.
  absl::Status CheckRunnable(const std::vector<StepPlan>& steps);
  // True while child processes with boards have not called yet; an answer of CheckRunnable may
  // change then.
  bool LocalAgentsStarting();
  // The device of the first registered board that takes the scheme; empty when there is none.
  std::string DeviceForScheme(std::string_view scheme);

  // Fills in what only the present tells: waiting reason, progress, sizes of logs.
  void Enrich(gq::v1::Job* job) { EnrichAll({job, 1}); }
  void EnrichAll(std::span<gq::v1::Job> jobs);
  absl::StatusOr<std::vector<BoardRecord>> Boards();
  absl::StatusOr<std::vector<gq::v1::Capability>> Capabilities();

  // Latest progress of a job's running step; false when there is none.
  bool Progress(std::string_view job_id, int* step_index, gq::v1::StepProgress* progress);

  // --- Changes that others made -----------------------------------------------------------------

  // A job was submitted, retried, cancelled ...
  void JobChanged(const gq::v1::Job& job);
  void BoardsChanged();

  // No new work from now on.
  void StartDraining();
  bool draining();
  // Leases that are live on child processes of the server.
  int LocalLeases();

 private:
  void AttemptsEnded(const std::vector<LeaseRecord>& leases);
  void AttemptEnded(std::string_view job_id, int attempt);
  void EnrichWithProgress(gq::v1::Job* job);
  void NoteProgress(const gq::v1::SynchronizeRequest& request);
  absl::Status StoreResult(const gq::v1::LeaseReport& report,
                           gq::v1::SynchronizeResponse* response);
  absl::Status HandOut(const gq::v1::SynchronizeRequest& request, int places,
                       gq::v1::SynchronizeResponse* response);
  void StopOverdue();
  void GiveUpHopeless();
  void OfferAgain();
  absl::Status PlanSkips(const LeaseKey& key, const gq::v1::StepResult& result);
  void Tidy();
  bool IsLocal(std::string_view agent);

  Ledger& ledger_;
  LogStore& logs_;
  ChangeHub& hub_;
  const base::Clock& clock_;
  const LeaseTimes times_;

  std::atomic<bool> sweep_failed_ = false;

  // Makes one choice at a time, so that each sees the one before.
  absl::Mutex choice_mutex_;

  absl::Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::string, std::less<>> local_agents_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> starting_ ABSL_GUARDED_BY(mutex_);
  absl::Time starting_until_ ABSL_GUARDED_BY(mutex_);
  absl::Time tidied_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  // Stop orders that were told, by lease; forgotten with the lease.
  std::set<std::string, std::less<>> told_to_stop_ ABSL_GUARDED_BY(mutex_);
  // Since when the boards that a job waits for are all gone.
  std::map<std::string, absl::Time, std::less<>> hopeless_ ABSL_GUARDED_BY(mutex_);
  struct JobProgress {
    int step_index = 0;
    gq::v1::StepProgress progress;
  };
  std::map<std::string, JobProgress, std::less<>> progress_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gq::server
