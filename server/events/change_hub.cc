#include "server/events/change_hub.h"

#include <utility>
#include <vector>

#include "common/base/text.h"

namespace gq::server {

std::string JobTopic(std::string_view job_id) { return base::StrCat("job:", job_id); }
std::string LogTopic(std::string_view job_id) { return base::StrCat("log:", job_id); }
std::string AgentTopic(std::string_view agent) { return base::StrCat("agent:", agent); }

ChangeHub::Subscription& ChangeHub::Subscription::operator=(Subscription&& other) noexcept {
  Reset();
  hub_ = std::exchange(other.hub_, nullptr);
  topic_ = std::move(other.topic_);
  id_ = other.id_;
  return *this;
}

void ChangeHub::Subscription::Reset() {
  if (hub_ == nullptr) return;
  absl::MutexLock lock(&hub_->mutex_);
  const auto topic = hub_->topics_.find(topic_);
  if (topic != hub_->topics_.end()) {
    topic->second.erase(id_);
    if (topic->second.empty()) hub_->topics_.erase(topic);
  }
  hub_ = nullptr;
}

ChangeHub::Subscription ChangeHub::Subscribe(std::string topic, Callback callback) {
  absl::MutexLock lock(&mutex_);
  const int64_t id = next_id_++;
  topics_[topic].emplace(id, std::make_shared<Callback>(std::move(callback)));
  return Subscription(this, std::move(topic), id);
}

void ChangeHub::Publish(std::string_view topic) {
  std::vector<std::shared_ptr<Callback>> callbacks;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = topics_.find(topic);
    if (found == topics_.end()) return;
    for (const auto& [id, callback] : found->second) callbacks.push_back(callback);
  }
  for (const auto& callback : callbacks) (*callback)();
}

}  // namespace gq::server
