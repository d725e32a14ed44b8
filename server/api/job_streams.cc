// The streams of JobService: events and logs of a job.
#include "common/base/status.h"
#include "common/base/text.h"
#include "server/api/job_service.h"
#include "server/api/pull_stream.h"
#include "server/ledger/enum_text.h"

namespace gq::server {
namespace {

constexpr int kEventBatch = 100;
constexpr int64_t kLogChunk = 64 << 10;

class EventStream final : public PullStream<gq::v1::JobEvent> {
 public:
  EventStream(const Backend& backend, const gq::v1::WatchJobRequest& request)
      : PullStream(backend, backend.executor, "JobService.WatchJob"),
        asked_id_(request.id()),
        next_(std::max<int64_t>(1, request.from_sequence())) {}

 protected:
  absl::StatusOr<Pull> Next(gq::v1::JobEvent* event, bool heartbeat) override {
    if (id_.empty()) {
      GQ_ASSIGN_OR_RETURN(id_, backend().ledger.ResolveJobId(caller().AsViewer(), asked_id_));
      subscription_ = backend().hub.Subscribe(JobTopic(id_), Waker());
    }
    if (position_ == batch_.size()) {
      position_ = 0;
      GQ_ASSIGN_OR_RETURN(batch_, backend().ledger.ListEvents(id_, next_, kEventBatch));
    }
    if (position_ < batch_.size()) {
      *event = std::move(batch_[position_++]);
      next_ = event->sequence() + 1;
      if (!IsFinal(event->job_state()) || position_ < batch_.size()) return Pull::kSend;
      GQ_ASSIGN_OR_RETURN(const gq::v1::Job job, backend().ledger.GetJob(id_));
      // A job that was retried has ended before, but not for good.
      const bool last = job.last_event() == event->sequence();
      event->set_final(last);
      return last ? Pull::kSendLast : Pull::kSend;
    }
    return Quiet(event, heartbeat);
  }

 private:
  // Nothing new is recorded: progress, signs of life, or the end.
  absl::StatusOr<Pull> Quiet(gq::v1::JobEvent* event, bool heartbeat) {
    int step = 0;
    gq::v1::StepProgress progress;
    const bool has_progress = backend().scheduler.Progress(id_, &step, &progress);
    const std::string shown = has_progress ? progress.SerializeAsString() : std::string();
    if (has_progress && shown != shown_progress_) {
      shown_progress_ = shown;
      *event->mutable_progress() = progress;
      event->set_step_index(step);
      event->set_step_state(gq::v1::STEP_STATE_RUNNING);
      event->set_job_state(gq::v1::JOB_STATE_RUNNING);
      SetTime(backend().clock.Now(), event->mutable_time());
      return Pull::kSend;
    }
    GQ_ASSIGN_OR_RETURN(const gq::v1::Job job, backend().ledger.GetJob(id_));
    if (job.last_event() >= next_) return Next(event, heartbeat);
    event->set_job_state(job.state());
    event->set_step_index(-1);
    SetTime(backend().clock.Now(), event->mutable_time());
    if (IsFinal(job.state())) {
      event->set_final(true);
      return Pull::kSendLast;
    }
    return heartbeat ? Pull::kSend : Pull::kWait;
  }

  const std::string asked_id_;
  std::string id_;
  int64_t next_;
  std::vector<gq::v1::JobEvent> batch_;
  size_t position_ = 0;
  std::string shown_progress_;
  ChangeHub::Subscription subscription_;
};

class LogStream final : public PullStream<gq::v1::TailLogResponse> {
 public:
  LogStream(const Backend& backend, const gq::v1::TailLogRequest& request)
      : PullStream(backend, backend.executor, "JobService.TailLog"),
        asked_id_(request.id()),
        follow_(request.follow()),
        attempt_(std::max(1, request.attempt())),
        offset_(std::max<int64_t>(0, request.offset())) {}

 protected:
  absl::StatusOr<Pull> Next(gq::v1::TailLogResponse* response, bool heartbeat) override {
    if (id_.empty()) {
      GQ_ASSIGN_OR_RETURN(id_, backend().ledger.ResolveJobId(caller().AsViewer(), asked_id_));
      log_subscription_ = backend().hub.Subscribe(LogTopic(id_), Waker());
      job_subscription_ = backend().hub.Subscribe(JobTopic(id_), Waker());
    }
    while (true) {
      GQ_ASSIGN_OR_RETURN(LogChunk chunk, backend().logs.Read(id_, attempt_, offset_, kLogChunk));
      if (!chunk.data.empty()) return Send(std::move(chunk), response);
      // While the log is open its end is known from the store alone.
      if (chunk.open && follow_) return Quiet(response, heartbeat);
      GQ_ASSIGN_OR_RETURN(const gq::v1::Job job, backend().ledger.GetJob(id_));
      // What came in before the job was read may be there only now.
      GQ_ASSIGN_OR_RETURN(chunk, backend().logs.Read(id_, attempt_, offset_, kLogChunk));
      if (!chunk.data.empty()) return Send(std::move(chunk), response);
      const Position position = Locate(job);
      if (position.ended && !chunk.open && position.has_next) {
        ++attempt_;
        offset_ = 0;
        continue;
      }
      const bool complete = IsFinal(job.state()) && !chunk.open && !position.running;
      if (complete || !follow_) {
        response->set_attempt(attempt_);
        response->set_offset(offset_);
        response->set_final(true);
        response->set_job_state(job.state());
        return Pull::kSendLast;
      }
      return Quiet(response, heartbeat);
    }
  }

 private:
  struct Position {
    bool ended = false;     // the attempt has ended
    bool running = false;   // it runs
    bool has_next = false;  // a later one exists
  };
  Position Locate(const gq::v1::Job& job) const {
    Position position;
    for (const gq::v1::Step& step : job.steps()) {
      for (const gq::v1::Attempt& attempt : step.attempts()) {
        if (attempt.number() > attempt_) position.has_next = true;
        if (attempt.number() != attempt_) continue;
        position.running = attempt.state() == gq::v1::ATTEMPT_STATE_RUNNING;
        position.ended = !position.running;
      }
    }
    return position;
  }

  Pull Send(LogChunk chunk, gq::v1::TailLogResponse* response) {
    response->set_attempt(attempt_);
    response->set_offset(offset_);
    offset_ += static_cast<int64_t>(chunk.data.size());
    response->set_data(std::move(chunk.data));
    return Pull::kSend;
  }

  Pull Quiet(gq::v1::TailLogResponse* response, bool heartbeat) const {
    if (!heartbeat) return Pull::kWait;
    response->set_attempt(attempt_);
    response->set_offset(offset_);
    return Pull::kSend;
  }

  const std::string asked_id_;
  const bool follow_;
  std::string id_;
  int attempt_;
  int64_t offset_;
  ChangeHub::Subscription log_subscription_;
  ChangeHub::Subscription job_subscription_;
};

}  // namespace

grpc::ServerWriteReactor<gq::v1::JobEvent>* JobService::WatchJob(
    grpc::CallbackServerContext* context, const gq::v1::WatchJobRequest* request) {
  return EventStream::Start(std::make_shared<EventStream>(backend_, *request),
                            Identify(backend_, *context, "JobService.WatchJob"));
}

grpc::ServerWriteReactor<gq::v1::TailLogResponse>* JobService::TailLog(
    grpc::CallbackServerContext* context, const gq::v1::TailLogRequest* request) {
  return LogStream::Start(std::make_shared<LogStream>(backend_, *request),
                          Identify(backend_, *context, "JobService.TailLog"));
}

}  // namespace gq::server
