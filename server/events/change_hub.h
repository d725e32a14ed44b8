// Tells those who wait that something has changed. Carries no data: whoever is told looks for
// itself.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace gq::server {

// What can change. `queue`: a step is ready or a place became free. `boards`: any board.
inline constexpr std::string_view kQueueTopic = "queue";
inline constexpr std::string_view kBoardsTopic = "boards";
// State, steps or progress of one job; its log; orders for one agent.
std::string JobTopic(std::string_view job_id);
std::string LogTopic(std::string_view job_id);
std::string AgentTopic(std::string_view agent);

// Thread-safe.
class ChangeHub {
 public:
  using Callback = std::function<void()>;

  // Ends its subscription when it is destroyed; a call that has begun may still go on then, so a
  // callback holds what it touches by a weak or shared pointer. Outlived by the hub.
  class Subscription {
   public:
    Subscription() = default;
    Subscription(ChangeHub* hub, std::string topic, int64_t id)
        : hub_(hub), topic_(std::move(topic)), id_(id) {}
    ~Subscription() { Reset(); }
    Subscription(Subscription&& other) noexcept { *this = std::move(other); }
    Subscription& operator=(Subscription&& other) noexcept;
    void Reset();

   private:
    ChangeHub* hub_ = nullptr;
    std::string topic_;
    int64_t id_ = 0;
  };

  // `callback` must be quick; it is called on the thread that publishes.
  [[nodiscard]] Subscription Subscribe(std::string topic, Callback callback);
  void Publish(std::string_view topic);

 private:
  absl::Mutex mutex_;
  int64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<std::string, std::map<int64_t, std::shared_ptr<Callback>>, std::less<>> topics_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace gq::server
