// A server stream that is pulled: the next message is looked for when the one before has left, so a
// slow reader costs one message of memory and holds up nobody.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status.h"
#include "grpcpp/support/server_callback.h"
#include "server/api/call.h"
#include "server/api/wake_gate.h"

namespace gq::server {

enum class Pull {
  kSend,      // the message is to be sent
  kSendLast,  // it is the last one
  kWait,      // nothing now; Next is called again after Wake
  kEnd,       // nothing any more
};

// Derived classes implement Next; it runs on the executor, never twice at once. Everything else is
// done here, with one call of Finish whatever happens.
template <typename Message>
class PullStream : public grpc::ServerWriteReactor<Message>,
                   public std::enable_shared_from_this<PullStream<Message>> {
 public:
  PullStream(const Backend& backend, Executor& executor, std::string_view method)
      : backend_(backend), executor_(executor), method_(method) {}

  // Begins; the stream owns itself until it is done.
  static grpc::ServerWriteReactor<Message>* Start(std::shared_ptr<PullStream> stream,
                                                  absl::StatusOr<Caller> caller) {
    PullStream* raw = stream.get();
    raw->self_ = std::move(stream);
    if (!caller.ok()) {
      raw->Fail(caller.status());
      return raw;
    }
    if (open_streams_.fetch_add(1) >= raw->backend_.limits.max_streams) {
      open_streams_.fetch_sub(1);
      raw->Fail(base::MakeError(base::Reason::kOverloaded, "too many streams are open",
                                "try again in a few seconds"));
      return raw;
    }
    raw->counted_ = true;
    raw->caller_ = *std::move(caller);
    raw->Post();
    raw->ScheduleHeartbeat();
    return raw;
  }

  // Something may have changed. Thread-safe.
  void Wake() {
    if (gate_.Wake()) Post();
  }

 protected:
  // Fills in the next message, or says that there is none. `heartbeat` is true when nothing was
  // sent for a while; a sign of life is due then.
  virtual absl::StatusOr<Pull> Next(Message* message, bool heartbeat) = 0;

  const Backend& backend() const { return backend_; }
  const Caller& caller() const { return caller_; }

  // A callback for ChangeHub that wakes this stream while it lives.
  ChangeHub::Callback Waker() {
    return [weak = this->weak_from_this()] {
      if (auto stream = weak.lock()) stream->Wake();
    };
  }

 private:
  void Post() {
    executor_.Post([stream = this->shared_from_this()] { stream->Step(); });
  }

  void Step() {
    if (cancelled_)
      return Fail(base::MakeError(base::Reason::kCancelled, "the call was cancelled"));
    if (last_sent_) return Fail(absl::OkStatus());
    message_.Clear();
    absl::StatusOr<Pull> pull = absl::InternalError("");
    try {
      pull = Next(&message_, heartbeat_.exchange(false));
    } catch (const std::exception& error) {
      pull = base::MakeError(base::Reason::kInternal, error.what());
    }
    if (!pull.ok()) return Fail(pull.status());
    switch (*pull) {
      case Pull::kSendLast:
        last_sent_ = true;
        [[fallthrough]];
      case Pull::kSend:
        sent_since_heartbeat_ = true;
        this->StartWrite(&message_);
        return;
      case Pull::kEnd:
        return Fail(absl::OkStatus());
      case Pull::kWait:
        break;
    }
    if (gate_.LookAgain()) Post();
  }

  void Fail(const absl::Status& status) {
    gate_.Close();
    this->Finish(Respond(method_, status));
  }

  void ScheduleHeartbeat() {
    executor_.PostAfter(backend_.limits.heartbeat, [weak = this->weak_from_this()] {
      auto stream = weak.lock();
      if (!stream) return;
      if (!stream->sent_since_heartbeat_.exchange(false)) {
        stream->heartbeat_ = true;
        stream->Wake();
      }
      stream->ScheduleHeartbeat();
    });
  }

  void OnWriteDone(bool ok) final {
    if (!ok) cancelled_ = true;
    Post();
  }
  void OnCancel() final {
    cancelled_ = true;
    Wake();
  }
  void OnDone() final {
    if (counted_) open_streams_.fetch_sub(1);
    self_.reset();
  }

  static inline std::atomic<int> open_streams_ = 0;

  const Backend& backend_;
  Executor& executor_;
  const std::string_view method_;
  Caller caller_;
  Message message_;
  bool counted_ = false;
  bool last_sent_ = false;  // touched by one step at a time
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> heartbeat_ = false;
  std::atomic<bool> sent_since_heartbeat_ = false;
  WakeGate gate_;
  std::shared_ptr<PullStream> self_;
};

}  // namespace gq::server
