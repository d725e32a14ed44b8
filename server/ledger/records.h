// What the ledger stores and returns, where the messages of the public contract do not already say
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gq/v1/agent_service.pb.h"
#include "gq/v1/board_service.pb.h"
#include "gq/v1/job_service.pb.h"

namespace gq::server {

// Who does something, for the audit log that is written with every change.
struct Actor {
  std::string principal;
  std::string method;  // e.g. `JobService.CancelJob`
};

// What a viewer may see: everything, or own jobs and those shared with the team.
struct Viewer {
  std::string principal;
  bool sees_all = false;
};

// What a step has to be given to run.
enum class NeedKind {
  kCpu,      // capability `cpu`
  kCompile,  // capability `compile:<backend>` of a board with the device
  kExec,     // capability `exec:<device>`, the board for itself alone
};

struct StepNeed {
  NeedKind kind = NeedKind::kCpu;
  std::string device;             // wanted device; empty for CPU steps
  std::string scheme;             // must be legal on the device; empty means any
  std::string board;              // a board by name; empty means any
  std::vector<std::string> tags;  // all of them must be on the board
};

struct StepPlan {
  gq::v1::StepKind kind = gq::v1::STEP_KIND_UNSPECIFIED;
  std::string title;
  StepNeed need;
};

struct NewJob {
  gq::v1::JobSpec spec;         // with every default that the server fills in
  std::vector<StepPlan> steps;  // in order, at least one
  std::string request_id;       // UUID of the request; empty means no protection against repeats
  std::string request_digest;   // SHA-256 of the request as it was sent
  std::vector<gq::v1::Digest> blobs;  // everything the job refers to
  Actor actor;
};

struct JobFilter {
  Viewer viewer;
  std::vector<gq::v1::JobState> states;  // empty means all
  std::string principal;                 // empty means all
  std::string name_contains;
  std::vector<std::pair<std::string, std::string>> labels;
  std::string before_id;  // only jobs older than this one; empty means from the newest
  int limit = 50;
};

struct QueuedStep {
  std::string job_id;
  int step_index = 0;
  StepNeed need;
  std::string principal;
  int priority = 0;
  absl::Time queued;
  int tries = 0;
  std::string last_board;        // board of the try before; empty on the first
  bool waits_for_board = false;  // even if there is none
};

// Identity of a lease; every write of an agent carries it.
struct LeaseKey {
  std::string lease_id;
  int64_t generation = 0;
};

struct LeaseRecord {
  LeaseKey key;
  std::string job_id;
  int step_index = 0;
  int attempt = 0;
  std::string agent;
  std::string session;
  std::string board;
  bool confirmed = false;     // the agent has reported it
  std::string cancel_reason;  // empty unless it is to stop
  absl::Time started;
  absl::Time expires;
  absl::Duration run_timeout;  // zero means none
};

struct Claim {
  std::string job_id;
  int step_index = 0;
  std::string agent;
  std::string session;
  std::string board;       // empty for CPU steps
  bool exclusive = false;  // nobody else may use the board meanwhile
  absl::Duration ttl;      // first life of the lease
};

// One call of an agent: what it is and which leases it holds.
struct AgentContact {
  std::string agent;
  std::string session;
  std::string version;
  std::string host;
  std::vector<std::string> capabilities;
  std::vector<gq::v1::BoardReport> boards;
  std::vector<LeaseKey> leases;  // to renew
  absl::Duration ttl;
};

struct ContactOutcome {
  bool new_session = false;
  // Of the leases given, those that are not (or no longer) this session's.
  std::vector<LeaseKey> lost;
  // Attempts that ended because a new session began.
  std::vector<LeaseRecord> ended;
  // Names of boards that are new or changed.
  bool boards_changed = false;
};

struct Agent {
  std::string id;
  std::string session;
  std::string version;
  std::string host;
  std::vector<std::string> capabilities;
  bool local = false;  // a child process of the server
  absl::Time last_seen;
  bool connected = false;  // false once it is known to be gone
};

// A board and the facts that scheduling needs beside those of the public message.
struct BoardRecord {
  gq::v1::Board board;  // state is left for the scheduler to say
  bool draining = false;
  bool online = false;
  bool health_check_due = false;
  std::string reservation_note;
};

// How an attempt ended and what that did to its step and job.
struct Completion {
  bool duplicate = false;  // the result had been stored before
  std::string job_id;
  int attempt = 0;
  gq::v1::JobState job_state = gq::v1::JOB_STATE_UNSPECIFIED;
  bool queued_work = false;  // a step became ready
  std::string board;
};

// Work of one principal, for fair share.
struct Usage {
  std::string principal;
  int running = 0;
  double recent_seconds = 0;  // run time of attempts that ended within the window
};

struct TokenRecord {
  std::string id;
  std::string principal;
  std::string role;  // viewer, submitter, operator, admin, agent
  std::string hash;  // SHA-256, 32 bytes
  std::optional<absl::Time> expires;
};

}  // namespace gq::server
