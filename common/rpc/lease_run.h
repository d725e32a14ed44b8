// One lease on the agent, from its assignment to the acknowledgement of its result.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/reporter.h"
#include "common/rpc/agent_session.h"
#include "common/rpc/channel.h"
#include "common/rpc/input_cache.h"
#include "common/rpc/lease_store.h"
#include "common/rpc/log_spool.h"
#include "common/rpc/steady_time.h"
#include "common/rpc/step_runner.h"
#include "gq/v1/agent_service.grpc.pb.h"

namespace gq::rpc {

// Why work is to stop. Of several the last line that applies wins.
enum class StopReason {
  kNone,
  kCancelled,  // by a person: CANCELLED
  kTimeout,    // the step's time limit: FAILED with TIMEOUT
  kShutdown,   // this program ends: LOST
  kFenced,     // the server was out of reach for too long: LOST
  kLeaseLost,  // the lease is somebody else's by now: nothing is reported
};

// What a lease needs of its session. Outlives the lease.
struct LeaseServices {
  const AgentSessionOptions& options;
  std::shared_ptr<Channel> channel;
  StepRunner& runner;
  LeaseStore& store;
  InputCache& cache;
  // The report has changed; `urgent` when the server should know at once. Called from any thread.
  std::function<void(bool urgent)> changed;
};

// Thread-safe. The destructor stops the work and waits for its end.
class LeaseRun : private StepEvents {
 public:
  // Writes the lease to disk and starts the work. An error when that is not possible.
  static absl::StatusOr<std::unique_ptr<LeaseRun>> Start(LeaseServices& services,
                                                         const gq::v1::Lease& lease);
  // Takes up a lease of an earlier process: delivers what is left of its log, then its result, or
  // LOST when it has none.
  static absl::StatusOr<std::unique_ptr<LeaseRun>> Recover(LeaseServices& services,
                                                           const StoredLease& stored);
  ~LeaseRun() override;

  const gq::v1::Lease& lease() const { return lease_; }
  gq::v1::LeaseReport Report() const;

  void Stop(StopReason reason);
  // Stops the work when its time is up.
  // `now` is SteadyNow().
  void CheckTimeout(absl::Duration now);

  // The work is over and its result is on disk.
  bool work_over() const;
  // And the log is stored, so that the result can be reported; or there is nothing to report.
  bool ended() const;
  // Ended, and nobody wants to know: forget it.
  bool abandoned() const;

 private:
  LeaseRun(LeaseServices& services, gq::v1::Lease lease, std::unique_ptr<LogSpool> log);
  static absl::StatusOr<std::unique_ptr<LeaseRun>> Make(LeaseServices& services,
                                                        const gq::v1::Lease& lease);

  void Work();
  void Deliver(gq::v1::StepResult result);
  absl::Status FetchInputs();
  absl::Status UploadArtifacts(gq::v1::StepResult& result);
  gq::v1::StepResult Perform();
  void LogStart();
  void LogEnd(const gq::v1::StepResult& result, absl::Duration elapsed);
  void LogLine(base::LogLevel level, std::string_view component, std::string_view text);
  void SetPhase(gq::v1::LeasePhase phase);
  StopReason stop_reason() const;
  BlobClient Blobs();

  // StepEvents
  void Log(std::string_view stored_lines) override;
  void Progress(const gq::v1::StepProgress& progress) override;
  absl::Status Iteration(const gq::v1::Iteration& iteration) override;

  LeaseServices& services_;
  const gq::v1::Lease lease_;
  const absl::Duration start_ = SteadyNow();
  const std::unique_ptr<gq::v1::AgentService::Stub> stub_;
  // Ends the work, and ends the delivery of log and result.
  std::stop_source work_stop_;
  std::stop_source delivery_stop_;
  mutable absl::Mutex mutex_;
  gq::v1::LeaseReport report_ ABSL_GUARDED_BY(mutex_);
  StopReason stop_reason_ ABSL_GUARDED_BY(mutex_) = StopReason::kNone;
  bool work_over_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<LogSpool> log_;
  std::thread thread_;
};

}  // namespace gq::rpc
