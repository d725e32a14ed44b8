// What parent and child of a step tell each other besides log lines, over a socket pair that is
// file descriptor 3 of the child (environment GQ_EVENT_FD=3). Frames are a varint32 length and a
// serialized message:
//   child -> parent   google.protobuf.Any with a gq.v1.StepProgress or a gq.v1.Iteration
//   parent -> child   google.rpc.Status for every Iteration: recorded durably (code 0), or not
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "gq/v1/agent_service.pb.h"

namespace gq::rpc {

inline constexpr int kStepEventFd = 3;
inline constexpr char kStepEventFdVariable[] = "GQ_EVENT_FD";

// The child's end. Thread-safe. Without a parent (no GQ_EVENT_FD) everything is accepted and
// dropped.
class StepChannel {
 public:
  static std::unique_ptr<StepChannel> FromEnvironment();
  // Takes ownership of `fd`; -1 for none.
  explicit StepChannel(int fd) : fd_(fd) {}
  ~StepChannel();
  StepChannel(const StepChannel&) = delete;
  StepChannel& operator=(const StepChannel&) = delete;

  // Never blocks for long and never fails: progress is not worth an error.
  void SendProgress(const gq::v1::StepProgress& progress);

  // Returns when the iteration is recorded durably. Fails with kLeaseLost when it cannot be.
  absl::Status SendIteration(const gq::v1::Iteration& iteration);

 private:
  absl::Mutex mutex_;
  int fd_ ABSL_GUARDED_BY(mutex_);
};

// One frame as described above.
std::string EncodeFrame(std::string_view message);
// Takes the first whole frame off the front of `buffer`. False when there is none; `bad` is set
// when what is there can never become one.
bool DecodeFrame(std::string& buffer, std::string& message, bool& bad);

}  // namespace gq::rpc
