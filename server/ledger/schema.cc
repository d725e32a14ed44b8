#include "server/ledger/schema.h"

#include <array>

namespace gq::server {
namespace {

// Times are microseconds UTC. States are the names of the public enumerations without their prefix.
constexpr std::string_view kInitial = R"sql(
CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta (key, value) VALUES ('epoch', 0);

CREATE TABLE principal (
  name       TEXT PRIMARY KEY,
  created_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE token (
  id         TEXT PRIMARY KEY,
  principal  TEXT NOT NULL REFERENCES principal (name),
  role       TEXT NOT NULL CHECK (role IN ('viewer', 'submitter', 'operator', 'admin', 'agent')),
  hash       BLOB NOT NULL CHECK (length(hash) = 32),
  created_us INTEGER NOT NULL,
  expires_us INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE job (
  id            TEXT PRIMARY KEY,
  principal     TEXT NOT NULL REFERENCES principal (name),
  name          TEXT NOT NULL,
  state         TEXT NOT NULL CHECK (state IN
                  ('QUEUED', 'RUNNING', 'CANCELLING', 'SUCCEEDED', 'FAILED', 'CANCELLED')),
  visibility    TEXT NOT NULL CHECK (visibility IN ('private', 'team')),
  spec          BLOB NOT NULL,
  failure       BLOB,
  verdict       INTEGER NOT NULL DEFAULT 0,
  created_us    INTEGER NOT NULL,
  started_us    INTEGER,
  ended_us      INTEGER,
  last_event    INTEGER NOT NULL DEFAULT 0,
  last_attempt  INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX job_by_state ON job (state, id);
CREATE INDEX job_by_principal ON job (principal, id);

CREATE TABLE job_label (
  job_id TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  key    TEXT NOT NULL,
  value  TEXT NOT NULL,
  PRIMARY KEY (job_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE step (
  job_id        TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  idx           INTEGER NOT NULL,
  kind          INTEGER NOT NULL,
  title         TEXT NOT NULL,
  state         TEXT NOT NULL CHECK (state IN ('WAITING', 'QUEUED', 'RUNNING', 'SUCCEEDED', 'FAILED',
                  'CANCELLED', 'SKIPPED')),
  skip_reason   TEXT NOT NULL DEFAULT '',
  need          TEXT NOT NULL CHECK (need IN ('cpu', 'compile', 'exec')),
  device        TEXT NOT NULL,
  scheme        TEXT NOT NULL,
  board         TEXT NOT NULL,
  tags          TEXT NOT NULL,
  priority      INTEGER NOT NULL,
  principal     TEXT NOT NULL,
  queue_limit_us INTEGER NOT NULL,
  waits_for_board INTEGER NOT NULL CHECK (waits_for_board IN (0, 1)),
  queued_us     INTEGER NOT NULL DEFAULT 0,
  generation    INTEGER NOT NULL DEFAULT 0,
  failures      INTEGER NOT NULL DEFAULT 0,
  losses        INTEGER NOT NULL DEFAULT 0,
  last_failure  TEXT NOT NULL DEFAULT '',
  last_board    TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (job_id, idx)
) STRICT, WITHOUT ROWID;
CREATE INDEX step_queued ON step (queued_us) WHERE state = 'QUEUED';

CREATE TABLE step_report (
  job_id TEXT NOT NULL,
  idx    INTEGER NOT NULL,
  json   TEXT NOT NULL,
  PRIMARY KEY (job_id, idx),
  FOREIGN KEY (job_id, idx) REFERENCES step (job_id, idx) ON DELETE CASCADE
) STRICT;

CREATE TABLE attempt (
  job_id      TEXT NOT NULL,
  number      INTEGER NOT NULL,
  step_idx    INTEGER NOT NULL,
  lease_id    TEXT NOT NULL UNIQUE,
  generation  INTEGER NOT NULL,
  agent       TEXT NOT NULL,
  session     TEXT NOT NULL,
  principal   TEXT NOT NULL,
  board       TEXT NOT NULL,
  exclusive   INTEGER NOT NULL CHECK (exclusive IN (0, 1)),
  state       TEXT NOT NULL CHECK (state IN
                ('RUNNING', 'SUCCEEDED', 'FAILED', 'LOST', 'CANCELLED')),
  reported    INTEGER NOT NULL DEFAULT 0,
  confirmed   INTEGER NOT NULL DEFAULT 0,
  stop_reason TEXT NOT NULL DEFAULT '',
  failure     BLOB,
  started_us  INTEGER NOT NULL,
  ended_us    INTEGER,
  expires_us  INTEGER NOT NULL,
  PRIMARY KEY (job_id, number),
  FOREIGN KEY (job_id, step_idx) REFERENCES step (job_id, idx) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX attempt_of_step ON attempt (job_id, step_idx) WHERE state = 'RUNNING';
CREATE UNIQUE INDEX attempt_on_board ON attempt (board) WHERE state = 'RUNNING' AND exclusive = 1;
CREATE INDEX attempt_of_agent ON attempt (agent) WHERE state = 'RUNNING';
CREATE INDEX attempt_ended ON attempt (ended_us) WHERE ended_us IS NOT NULL;

CREATE TABLE log_segment (
  job_id    TEXT NOT NULL,
  attempt   INTEGER NOT NULL,
  size      INTEGER NOT NULL,
  sealed_us INTEGER NOT NULL,
  PRIMARY KEY (job_id, attempt),
  FOREIGN KEY (job_id, attempt) REFERENCES attempt (job_id, number) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE iteration (
  job_id TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  data   BLOB NOT NULL,
  PRIMARY KEY (job_id, number)
) STRICT;

CREATE TABLE blob (
  sha256     TEXT PRIMARY KEY CHECK (length(sha256) = 64),
  size       INTEGER NOT NULL CHECK (size >= 0),
  created_us INTEGER NOT NULL,
  touched_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE blob_owner (
  principal TEXT NOT NULL,
  sha256    TEXT NOT NULL REFERENCES blob (sha256) ON DELETE CASCADE,
  PRIMARY KEY (principal, sha256)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_owner_by_blob ON blob_owner (sha256);

CREATE TABLE job_blob (
  job_id TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  sha256 TEXT NOT NULL REFERENCES blob (sha256),
  PRIMARY KEY (job_id, sha256)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_blob_by_blob ON job_blob (sha256);

CREATE TABLE artifact (
  job_id     TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  path       TEXT NOT NULL,
  step_idx   INTEGER NOT NULL,
  sha256     TEXT NOT NULL REFERENCES blob (sha256),
  size       INTEGER NOT NULL,
  created_us INTEGER NOT NULL,
  PRIMARY KEY (job_id, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX artifact_by_blob ON artifact (sha256);

CREATE TABLE job_event (
  job_id     TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  seq        INTEGER NOT NULL,
  time_us    INTEGER NOT NULL,
  job_state  INTEGER NOT NULL,
  step_idx   INTEGER NOT NULL,
  step_state INTEGER NOT NULL,
  attempt    INTEGER NOT NULL,
  message    TEXT NOT NULL,
  PRIMARY KEY (job_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE submit_request (
  principal  TEXT NOT NULL,
  request_id TEXT NOT NULL,
  digest     TEXT NOT NULL,
  job_id     TEXT NOT NULL,
  created_us INTEGER NOT NULL,
  PRIMARY KEY (principal, request_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX submit_request_by_job ON submit_request (job_id);
CREATE INDEX submit_request_by_time ON submit_request (created_us);

CREATE TABLE agent (
  id           TEXT PRIMARY KEY,
  session      TEXT NOT NULL,
  version      TEXT NOT NULL,
  host         TEXT NOT NULL,
  capabilities TEXT NOT NULL,
  local        INTEGER NOT NULL CHECK (local IN (0, 1)),
  connected    INTEGER NOT NULL CHECK (connected IN (0, 1)),
  last_seen_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE agent_session (
  agent      TEXT NOT NULL REFERENCES agent (id) ON DELETE CASCADE,
  session    TEXT NOT NULL,
  started_us INTEGER NOT NULL,
  PRIMARY KEY (agent, session)
) STRICT, WITHOUT ROWID;

CREATE TABLE board (
  name            TEXT PRIMARY KEY,
  agent           TEXT NOT NULL REFERENCES agent (id),
  device          TEXT NOT NULL,
  backend         TEXT NOT NULL,
  report          BLOB NOT NULL,
  forced_health   INTEGER NOT NULL DEFAULT 0,
  forced_note     TEXT NOT NULL DEFAULT '',
  draining        INTEGER NOT NULL DEFAULT 0 CHECK (draining IN (0, 1)),
  failures        INTEGER NOT NULL DEFAULT 0,
  check_due       INTEGER NOT NULL DEFAULT 0 CHECK (check_due IN (0, 1)),
  removed         INTEGER NOT NULL DEFAULT 0 CHECK (removed IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE TABLE board_event (
  id      INTEGER PRIMARY KEY,
  board   TEXT NOT NULL,
  time_us INTEGER NOT NULL,
  kind    TEXT NOT NULL,
  detail  TEXT NOT NULL
) STRICT;
CREATE INDEX board_event_by_board ON board_event (board, id);

CREATE TABLE reservation (
  id          INTEGER PRIMARY KEY,
  board       TEXT NOT NULL,
  principal   TEXT NOT NULL,
  note        TEXT NOT NULL,
  from_us     INTEGER NOT NULL,
  until_us    INTEGER NOT NULL,
  released_us INTEGER
) STRICT;
CREATE INDEX reservation_open ON reservation (board, until_us) WHERE released_us IS NULL;

CREATE TABLE audit (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  time_us   INTEGER NOT NULL,
  principal TEXT NOT NULL,
  method    TEXT NOT NULL,
  target    TEXT NOT NULL,
  detail    TEXT NOT NULL
) STRICT;
)sql";

constexpr std::array<std::string_view, 1> kMigrations = {kInitial};

}  // namespace

std::span<const std::string_view> Migrations() { return kMigrations; }

}  // namespace gq::server
