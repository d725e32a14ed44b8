#include "board_agent/board_pool.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::agent {

using base::Reason;
using base::StrCat;

absl::StatusOr<std::unique_ptr<BoardPool>> BoardPool::Create(std::vector<BoardSpec> boards,
                                                             absl::Duration period,
                                                             base::Reporter& reporter) {
  std::vector<Entry> entries;
  std::set<std::string> names;
  for (BoardSpec& board : boards) {
    if (board.name.empty() || !names.insert(board.name).second) {
      return base::MakeError(Reason::kInvalidFlag,
                             StrCat("board '", board.name, "': the name is empty or used twice"));
    }
    Entry entry;
    GQ_ASSIGN_OR_RETURN(entry.backend, FindBackend(board.backend));
    GQ_ASSIGN_OR_RETURN(const Probe probe, entry.backend->ProbeBoard(board));
    entry.capabilities = probe.capabilities;
    entry.report.set_name(board.name);
    entry.report.set_device(board.device);
    entry.report.set_backend(board.backend);
    entry.report.set_simulated(probe.simulated);
    entry.report.set_facts_json(probe.facts_json);
    for (const std::string& tag : board.tags) entry.report.add_tags(tag);
    for (const std::string& scheme : probe.schemes) entry.report.add_schemes(scheme);
    for (const std::string& absent : probe.absent) entry.report.add_absent(absent);
    entry.spec = std::move(board);
    entries.push_back(std::move(entry));
  }
  return std::unique_ptr<BoardPool>(new BoardPool(std::move(entries), period, reporter));
}

BoardPool::BoardPool(std::vector<Entry> entries, absl::Duration period, base::Reporter& reporter)
    : entries_(std::move(entries)), period_(period), reporter_(reporter) {
  absl::MutexLock lock(&mutex_);
  for (const Entry& entry : entries_) wanted_.insert(entry.spec.name);
}

BoardPool::~BoardPool() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void BoardPool::Start() {
  thread_ = std::jthread([this](std::stop_token stop) { CheckBoards(std::move(stop)); });
}

std::vector<gq::v1::BoardReport> BoardPool::Boards() {
  absl::MutexLock lock(&mutex_);
  std::vector<gq::v1::BoardReport> reports;
  for (const Entry& entry : entries_) reports.push_back(entry.report);
  return reports;
}

void BoardPool::StartHealthCheck(const std::string& board) {
  absl::MutexLock lock(&mutex_);
  wanted_.insert(board);
}

std::vector<std::string> BoardPool::Capabilities() const {
  std::set<std::string> all;
  for (const Entry& entry : entries_) {
    all.insert(entry.capabilities.begin(), entry.capabilities.end());
  }
  return {all.begin(), all.end()};
}

void BoardPool::CheckBoards(std::stop_token stop) {
  while (!stop.stop_requested()) {
    std::set<std::string> wanted;
    {
      absl::MutexLock lock(&mutex_);
      const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !wanted_.empty();
      };
      if (!mutex_.AwaitWithTimeout(absl::Condition(&due), period_)) {
        for (const Entry& entry : entries_) wanted_.insert(entry.spec.name);
      }
      if (stopping_) return;
      wanted.swap(wanted_);
    }
    for (Entry& entry : entries_) {
      if (wanted.contains(entry.spec.name)) Check(entry);
    }
    if (on_change_) on_change_();
  }
}

void BoardPool::Check(Entry& entry) {
  const absl::StatusOr<std::string> health = entry.backend->CheckHealth(entry.spec, reporter_);
  const std::string detail =
      health.ok() ? *health : std::string(base::FromAbsl(health.status().message()));
  reporter_.Log(health.ok() ? base::LogLevel::kInfo : base::LogLevel::kWarn, "Health",
                StrCat(entry.spec.name, ": ", detail));
  absl::MutexLock lock(&mutex_);
  entry.report.set_health(health.ok() ? gq::v1::BOARD_HEALTH_GOOD : gq::v1::BOARD_HEALTH_BAD);
  entry.report.set_health_detail(detail);
}

}  // namespace gq::agent
