// The record of a search: every candidate is written down before the next one is tried.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace gq::explore {

struct IterationRecord {
  int number = 0;         // from 1
  std::string kind;       // `preset`, `greedy`, `sensitivity`, `recovery`
  std::string candidate;  // what was tried, in words; with `kind` it names the candidate
  std::string decision;   // `promoted`, `skipped`, `rolled-back`, `kept`, `failed`
  std::map<std::string, double> metrics;
  std::string config_json;  // Quark JSON of the candidate
  double seconds = 0;
  std::string state;  // what a search that goes on has to know, as JSON
};

// Where records go. Record() returns when the record is durable.
class Journal {
 public:
  virtual ~Journal() = default;
  virtual absl::Status Record(const IterationRecord& record) = 0;
};

// Keeps records in memory; for runs that nobody goes on with.
class MemoryJournal : public Journal {
 public:
  absl::Status Record(const IterationRecord& record) override {
    records_.push_back(record);
    return absl::OkStatus();
  }
  const std::vector<IterationRecord>& records() const { return records_; }

 private:
  std::vector<IterationRecord> records_;
};

}  // namespace gq::explore
