// What every test of the ledger needs: an empty ledger, time that stands still, a job to submit.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ledger/ledger.h"
#include "server/ledger/sqlite_ledger.h"
#include "tests/server/manual_clock.h"
#include "tests/temporary_folder.h"

namespace gq::server {

inline const Actor kAlice{"alice", "Test"};

inline gq::v1::Digest DigestOf(char digit, int64_t size) {
  gq::v1::Digest digest;
  digest.set_sha256(std::string(64, digit));
  digest.set_size_bytes(size);
  return digest;
}

inline StepPlan CpuStep(gq::v1::StepKind kind, std::string title) {
  return {kind, std::move(title), {}};
}

// Two CPU steps, the second one judges.
inline NewJob TwoSteps(const std::string& request_id = "", const std::string& digest = "d1") {
  NewJob job;
  job.spec.set_name("two steps");
  job.steps = {CpuStep(gq::v1::STEP_KIND_GRAPH_OPTIMIZE, "Graph Optimize"),
               CpuStep(gq::v1::STEP_KIND_EVALUATE, "Evaluate")};
  job.request_id = request_id;
  job.request_digest = digest;
  job.actor = kAlice;
  return job;
}

// The ledgers that the conformance suite runs against.
using LedgerFactory = std::unique_ptr<Ledger> (*)(const std::filesystem::path&, const base::Clock&);

inline std::unique_ptr<Ledger> MakeSqliteLedger(const std::filesystem::path& folder,
                                                const base::Clock& clock) {
  auto ledger = SqliteLedger::Open(folder / "ledger.db", clock);
  EXPECT_TRUE(ledger.ok()) << ledger.status();
  return ledger.ok() ? std::move(*ledger) : nullptr;
}

class LedgerTest : public testing::TestWithParam<LedgerFactory> {
 protected:
  LedgerTest() { Reopen(); }

  void Reopen() {
    ledger_.reset();
    ledger_ = GetParam()(folder_.path(), clock_);
  }

  gq::v1::Job Submit(const NewJob& job) {
    auto created = ledger_->CreateJob(job);
    EXPECT_TRUE(created.ok()) << created.status();
    return created.value_or(gq::v1::Job());
  }

  // Makes `agent` known with one session.
  ContactOutcome Contact(const std::string& agent, const std::string& session,
                         std::vector<LeaseKey> leases = {}) {
    AgentContact contact;
    contact.agent = agent;
    contact.session = session;
    contact.capabilities = {"cpu"};
    contact.leases = std::move(leases);
    contact.ttl = absl::Seconds(60);
    auto outcome = ledger_->RecordContact(contact);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.value_or(ContactOutcome());
  }

  absl::StatusOr<LeaseRecord> Claim(const std::string& job_id, int step,
                                    const std::string& agent = "worker-1",
                                    const std::string& session = "s1") {
    return ledger_->ClaimStep({.job_id = job_id,
                               .step_index = step,
                               .agent = agent,
                               .session = session,
                               .ttl = absl::Seconds(60)});
  }

  static gq::v1::StepResult Succeeded() {
    gq::v1::StepResult result;
    result.set_state(gq::v1::ATTEMPT_STATE_SUCCEEDED);
    return result;
  }

  static gq::v1::StepResult Ended(gq::v1::AttemptState state, const std::string& reason) {
    gq::v1::StepResult result;
    result.set_state(state);
    result.mutable_failure()->set_reason(reason);
    result.mutable_failure()->set_message("because");
    return result;
  }

  gq::v1::Job Get(const std::string& id) { return ledger_->GetJob(id).value_or(gq::v1::Job()); }

  tests::TemporaryFolder folder_;
  ManualClock clock_;
  std::unique_ptr<Ledger> ledger_;
};

}  // namespace gq::server
