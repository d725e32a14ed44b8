// Agents, boards and reservations.
#include <algorithm>

#include "common/base/status.h"
#include "common/base/text.h"
#include "nlohmann/json.hpp"
#include "server/ledger/failure.h"
#include "server/ledger/job_rows.h"
#include "server/ledger/sqlite_ledger.h"

namespace gq::server {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

// So many sessions within the window mean that an agent keeps coming and going.
constexpr int kLoopingSessions = 5;
constexpr absl::Duration kLoopingWindow = absl::Minutes(10);

absl::Status BoardNotFound(std::string_view board) {
  return MakeError(Reason::kNotFound, StrCat("there is no board '", board, "'"),
                   "`gq boards list` shows the boards");
}

bool BoardExists(Connection& db, std::string_view board) {
  Query query = db.Prepare("SELECT 1 FROM board WHERE name = ? AND removed = 0");
  query.Bind(board);
  return query.Next();
}

void AppendBoardEvent(Connection& db, absl::Time now, std::string_view board, std::string_view kind,
                      std::string_view detail) {
  db.Prepare("INSERT INTO board_event (board, time_us, kind, detail) VALUES (?, ?, ?, ?)")
      .Bind(board, ToMicros(now), kind, detail)
      .Run();
}

// The order of map entries and unknown bytes do not matter here: a report has neither.
std::string ReportBytes(const gq::v1::BoardReport& report) { return report.SerializeAsString(); }

struct BoardRow {
  std::string agent;
  bool agent_connected = false;
  gq::v1::BoardReport report;
  std::string report_bytes;
  bool removed = false;
};

std::optional<BoardRow> LoadBoard(Connection& db, std::string_view name) {
  Query query = db.Prepare(
      "SELECT b.agent, a.connected, b.report, b.removed FROM board b JOIN agent a ON a.id = b.agent"
      " WHERE b.name = ?");
  query.Bind(name);
  if (!query.Next()) return std::nullopt;
  BoardRow row{query.Text(0), query.Int(1) != 0, {}, query.Text(2), query.Int(3) != 0};
  row.report.ParseFromString(row.report_bytes);
  return row;
}

// True when the stored board is new or another one than before.
absl::StatusOr<bool> RegisterBoard(Connection& db, absl::Time now, const std::string& agent,
                                   const gq::v1::BoardReport& report) {
  const std::string bytes = ReportBytes(report);
  const std::optional<BoardRow> known = LoadBoard(db, report.name());
  if (known && known->agent != agent && known->agent_connected && !known->removed) {
    return MakeError(Reason::kAlreadyExists,
                     StrCat("board '", report.name(), "' belongs to agent '", known->agent, "'"),
                     "give the board another name, or stop that agent");
  }
  if (known && known->agent == agent && known->report_bytes == bytes && !known->removed) {
    return false;
  }
  db.Prepare(
        "INSERT INTO board (name, agent, device, backend, report) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET agent = excluded.agent, device = excluded.device,"
        " backend = excluded.backend, report = excluded.report, removed = 0")
      .Bind(report.name(), agent, report.device(), report.backend(), Bytes{bytes})
      .Run();
  if (!known) AppendBoardEvent(db, now, report.name(), "registered", agent);
  if (!known || known->report.health() != report.health()) {
    AppendBoardEvent(
        db, now, report.name(), "health",
        StrCat(gq::v1::BoardHealth_Name(report.health()), " ", report.health_detail()));
  }
  return true;
}

struct ReservationRow {
  std::string principal;
  std::string note;
  int64_t until_us;
};

std::optional<ReservationRow> OpenReservation(Connection& db, absl::Time now,
                                              std::string_view board) {
  Query query = db.Prepare(
      "SELECT principal, note, until_us FROM reservation WHERE board = ? AND released_us IS NULL "
      "AND"
      " until_us > ?");
  query.Bind(board, ToMicros(now));
  if (!query.Next()) return std::nullopt;
  return ReservationRow{query.Text(0), query.Text(1), query.Int(2)};
}

// `*` in `pattern` stands for any run of characters; everything else for itself.
bool MatchesPattern(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern.front() == '*') {
    return MatchesPattern(pattern.substr(1), text) ||
           (!text.empty() && MatchesPattern(pattern, text.substr(1)));
  }
  return !text.empty() && pattern.front() == text.front() &&
         MatchesPattern(pattern.substr(1), text.substr(1));
}

}  // namespace

absl::StatusOr<ContactOutcome> SqliteLedger::RecordContact(const AgentContact& contact) {
  return Write<ContactOutcome>([&](Connection& db) -> absl::StatusOr<ContactOutcome> {
    const absl::Time now = Now();
    ContactOutcome outcome;
    std::string stored_session;
    bool known = false;
    bool was_connected = false;
    {
      Query query = db.Prepare("SELECT session, connected FROM agent WHERE id = ?");
      query.Bind(contact.agent);
      known = query.Next();
      if (known) {
        stored_session = query.Text(0);
        was_connected = query.Int(1) != 0;
      }
    }
    outcome.new_session = stored_session != contact.session;
    if (outcome.new_session) {
      Query query = db.Prepare("SELECT 1 FROM agent_session WHERE agent = ? AND session = ?");
      query.Bind(contact.agent, contact.session);
      if (query.Next()) {
        return MakeError(Reason::kLeaseLost,
                         StrCat("another process took over the name '", contact.agent, "'"),
                         "give every worker and agent a name of its own");
      }
    }
    db.Prepare(
          "INSERT INTO agent (id, session, version, host, capabilities, local, connected,"
          " last_seen_us) VALUES (?, ?, ?, ?, ?, 0, 1, ?) ON CONFLICT (id) DO UPDATE SET"
          " session = excluded.session, version = excluded.version, host = excluded.host,"
          " capabilities = excluded.capabilities, connected = 1,"
          " last_seen_us = excluded.last_seen_us")
        .Bind(contact.agent, contact.session, contact.version, contact.host,
              nlohmann::json(contact.capabilities).dump(), ToMicros(now))
        .Run();
    if (outcome.new_session) {
      db.Prepare("INSERT INTO agent_session (agent, session, started_us) VALUES (?, ?, ?)")
          .Bind(contact.agent, contact.session, ToMicros(now))
          .Run();
      outcome.ended =
          LoadLeases(db, "a.agent = ? AND a.session <> ?", {contact.agent, contact.session});
      const gq::v1::Failure failure =
          MakeFailure(Reason::kWorkerLost, StrCat("'", contact.agent, "' was restarted"));
      for (const LeaseRecord& lease : outcome.ended) {
        EndAttempt(db, now, lease, gq::v1::ATTEMPT_STATE_LOST, &failure, /*reported=*/false);
        CountBoardOutcome(db, now, lease.board, /*failed=*/true, failure.message());
        MoveOn(db, now, lease, gq::v1::ATTEMPT_STATE_LOST, failure, "");
      }
    }
    outcome.boards_changed = outcome.new_session || !known || !was_connected;
    for (const gq::v1::BoardReport& report : contact.boards) {
      absl::StatusOr<bool> changed = RegisterBoard(db, now, contact.agent, report);
      if (!changed.ok()) return changed.status();
      outcome.boards_changed |= *changed;
    }
    for (const LeaseKey& key : contact.leases) {
      Query query = db.Prepare(
          "UPDATE attempt SET expires_us = MAX(expires_us, ?), confirmed = 1 WHERE lease_id = ? AND"
          " generation = ? AND agent = ? AND session = ? AND state = 'RUNNING'");
      query.Bind(ToMicros(now + contact.ttl), key.lease_id, key.generation, contact.agent,
                 contact.session);
      if (query.Run() == 0) outcome.lost.push_back(key);
    }
    return outcome;
  });
}

absl::Status SqliteLedger::RegisterLocalAgent(std::string_view agent) {
  return writer_.Apply([&](Connection& db) -> absl::Status {
    db.Prepare(
          "INSERT INTO agent (id, session, version, host, capabilities, local, connected,"
          " last_seen_us) VALUES (?, '', '', '', '[]', 1, 0, 0) ON CONFLICT (id) DO UPDATE SET"
          " local = 1")
        .Bind(agent)
        .Run();
    return absl::OkStatus();
  });
}

absl::Status SqliteLedger::KeepLocalAgents(std::span<const std::string> names) {
  return writer_.Apply([&](Connection& db) -> absl::Status {
    std::vector<std::string> gone;
    {
      Query query = db.Prepare("SELECT id FROM agent WHERE local = 1");
      while (query.Next()) {
        const std::string id = query.Text(0);
        if (std::find(names.begin(), names.end(), id) == names.end()) gone.push_back(id);
      }
    }
    for (const std::string& id : gone) {
      db.Prepare("DELETE FROM board WHERE agent = ?").Bind(id).Run();
      db.Prepare("DELETE FROM agent WHERE id = ?").Bind(id).Run();
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<Agent>> SqliteLedger::ListAgents() {
  return Read<std::vector<Agent>>([](Connection& db) -> absl::StatusOr<std::vector<Agent>> {
    Query query = db.Prepare(
        "SELECT id, session, version, host, capabilities, local, last_seen_us, connected FROM agent"
        " ORDER BY id");
    std::vector<Agent> agents;
    while (query.Next()) {
      Agent& agent = agents.emplace_back();
      agent.id = query.Text(0);
      agent.session = query.Text(1);
      agent.version = query.Text(2);
      agent.host = query.Text(3);
      agent.capabilities = nlohmann::json::parse(query.Text(4)).get<std::vector<std::string>>();
      agent.local = query.Int(5) != 0;
      agent.last_seen = FromMicros(query.Int(6));
      agent.connected = query.Int(7) != 0;
    }
    return agents;
  });
}

absl::StatusOr<std::vector<BoardRecord>> SqliteLedger::ListBoards(absl::Duration online_within) {
  return Read<std::vector<BoardRecord>>(
      [&](Connection& db) -> absl::StatusOr<std::vector<BoardRecord>> {
        const absl::Time now = Now();
        Query query = db.Prepare(
            "SELECT b.name, b.agent, b.report, b.forced_health, b.forced_note, b.draining,"
            " b.failures, b.check_due, a.capabilities, a.connected, a.last_seen_us,"
            " (SELECT job_id FROM attempt t WHERE t.board = b.name AND t.state = 'RUNNING' AND"
            " t.exclusive = 1),"
            " (SELECT COUNT(*) FROM agent_session s WHERE s.agent = b.agent AND s.started_us > ?)"
            " FROM board b JOIN agent a ON a.id = b.agent WHERE b.removed = 0 ORDER BY b.name");
        query.Bind(ToMicros(now - kLoopingWindow));
        std::vector<BoardRecord> boards;
        while (query.Next()) {
          BoardRecord& record = boards.emplace_back();
          gq::v1::Board& board = record.board;
          gq::v1::BoardReport report;
          report.ParseFromString(query.Text(2));
          board.set_name(query.Text(0));
          board.set_agent(query.Text(1));
          board.set_device(report.device());
          board.set_backend(report.backend());
          *board.mutable_tags() = report.tags();
          *board.mutable_schemes() = report.schemes();
          board.set_simulated(report.simulated());
          board.set_facts_json(report.facts_json());
          *board.mutable_absent() = report.absent();
          const auto forced = static_cast<gq::v1::BoardHealth>(query.Int(3));
          if (forced != gq::v1::BOARD_HEALTH_UNSPECIFIED) {
            board.set_health(forced);
            board.set_health_detail(query.Text(4));
          } else if (query.Int(12) >= kLoopingSessions) {
            board.set_health(gq::v1::BOARD_HEALTH_LOOPING);
            board.set_health_detail(
                StrCat("its agent started ", query.Int(12), " times within 10 minutes"));
          } else {
            // A newer agent may know more kinds of health.
            board.set_health(report.health() == gq::v1::BOARD_HEALTH_UNSPECIFIED ||
                                     !gq::v1::BoardHealth_IsValid(report.health())
                                 ? gq::v1::BOARD_HEALTH_UNKNOWN
                                 : report.health());
            board.set_health_detail(report.health_detail());
          }
          record.draining = query.Int(5) != 0;
          board.set_consecutive_failures(static_cast<int>(query.Int(6)));
          record.health_check_due = query.Int(7) != 0;
          for (const auto& capability : nlohmann::json::parse(query.Text(8))) {
            board.add_capabilities(capability.get<std::string>());
          }
          const absl::Time last_seen = FromMicros(query.Int(10));
          record.online = query.Int(9) != 0 && last_seen + online_within >= now;
          SetTimestamp(query.Int(10), board.mutable_last_seen());
          board.set_job_id(query.Text(11));
          if (const auto reservation = OpenReservation(db, now, board.name())) {
            board.set_reserved_by(reservation->principal);
            SetTimestamp(reservation->until_us, board.mutable_reserved_until());
            record.reservation_note = reservation->note;
          }
        }
        return boards;
      });
}

absl::Status SqliteLedger::ReserveBoard(const Actor& actor, std::string_view board,
                                        absl::Time until, std::string_view note) {
  return writer_.Apply([&](Connection& db) -> absl::Status {
    const absl::Time now = Now();
    if (!BoardExists(db, board)) return BoardNotFound(board);
    const auto open = OpenReservation(db, now, board);
    if (open && open->principal != actor.principal) {
      return MakeError(Reason::kBoardReserved,
                       StrCat("board ", board, " is reserved by ", open->principal, " until ",
                              absl::FormatTime("%Y-%m-%d %H:%M UTC", FromMicros(open->until_us),
                                               absl::UTCTimeZone())),
                       "choose another board, or wait until it is free");
    }
    if (open) {
      db.Prepare(
            "UPDATE reservation SET until_us = ? WHERE board = ? AND released_us IS NULL AND"
            " until_us > ?")
          .Bind(ToMicros(until), board, ToMicros(now))
          .Run();
    } else {
      db.Prepare(
            "INSERT INTO reservation (board, principal, note, from_us, until_us)"
            " VALUES (?, ?, ?, ?, ?)")
          .Bind(board, actor.principal, note, ToMicros(now), ToMicros(until))
          .Run();
    }
    AppendBoardEvent(db, now, board, "reserved", actor.principal);
    Audit(db, now, actor, board, note);
    return absl::OkStatus();
  });
}

absl::Status SqliteLedger::ReleaseBoard(const Actor& actor, std::string_view board, bool force) {
  return writer_.Apply([&](Connection& db) -> absl::Status {
    const absl::Time now = Now();
    if (!BoardExists(db, board)) return BoardNotFound(board);
    const auto open = OpenReservation(db, now, board);
    if (!open) return absl::OkStatus();
    if (open->principal != actor.principal && !force) {
      return MakeError(Reason::kPermissionDenied,
                       StrCat("the reservation of board ", board, " is ", open->principal, "'s"),
                       "only its owner, an operator or an administrator can end it");
    }
    db.Prepare("UPDATE reservation SET released_us = ? WHERE board = ? AND released_us IS NULL")
        .Bind(ToMicros(now), board)
        .Run();
    AppendBoardEvent(db, now, board, "released", actor.principal);
    Audit(db, now, actor, board, "");
    return absl::OkStatus();
  });
}

absl::Status SqliteLedger::SetBoardHealth(const Actor& actor, std::string_view board,
                                          gq::v1::BoardHealth health, std::string_view note) {
  return writer_.Apply([&](Connection& db) -> absl::Status {
    const absl::Time now = Now();
    if (!BoardExists(db, board)) return BoardNotFound(board);
    const bool hands_back = health == gq::v1::BOARD_HEALTH_UNKNOWN;
    db.Prepare(
          "UPDATE board SET forced_health = ?, forced_note = ?, failures = 0,"
          " check_due = (check_due OR ?) WHERE name = ?")
        .Bind(hands_back ? 0 : static_cast<int>(health), note, hands_back, board)
        .Run();
    AppendBoardEvent(db, now, board, "health",
                     StrCat(gq::v1::BoardHealth_Name(health), " set by ", actor.principal));
    Audit(db, now, actor, board, StrCat(gq::v1::BoardHealth_Name(health), " ", note));
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<std::string>> SqliteLedger::DrainBoards(const Actor& actor,
                                                                   std::string_view pattern,
                                                                   bool drain) {
  return Write<std::vector<std::string>>(
      [&](Connection& db) -> absl::StatusOr<std::vector<std::string>> {
        const absl::Time now = Now();
        std::vector<std::string> matched;
        {
          Query query = db.Prepare("SELECT name FROM board WHERE removed = 0 ORDER BY name");
          while (query.Next()) {
            std::string name = query.Text(0);
            if (MatchesPattern(pattern, name)) matched.push_back(std::move(name));
          }
        }
        if (matched.empty()) return BoardNotFound(pattern);
        for (const std::string& name : matched) {
          db.Prepare("UPDATE board SET draining = ? WHERE name = ?").Bind(drain, name).Run();
          AppendBoardEvent(db, now, name, drain ? "drain" : "undrain", actor.principal);
        }
        Audit(db, now, actor, pattern, drain ? "drain" : "undrain");
        return matched;
      });
}

absl::Status SqliteLedger::RequestHealthCheck(const Actor& actor, std::string_view board) {
  return writer_.Apply([&](Connection& db) -> absl::Status {
    if (!BoardExists(db, board)) return BoardNotFound(board);
    db.Prepare("UPDATE board SET check_due = 1 WHERE name = ?").Bind(board).Run();
    Audit(db, Now(), actor, board, "");
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<std::string>> SqliteLedger::TakeHealthChecks(std::string_view agent) {
  const auto due = [&](Connection& db) {
    Query query = db.Prepare(
        "SELECT name FROM board WHERE agent = ? AND check_due = 1 AND removed = 0 ORDER BY name");
    query.Bind(agent);
    std::vector<std::string> names;
    while (query.Next()) names.push_back(query.Text(0));
    return names;
  };
  absl::StatusOr<std::vector<std::string>> some = Read<std::vector<std::string>>(
      [&](Connection& db) -> absl::StatusOr<std::vector<std::string>> { return due(db); });
  if (!some.ok() || some->empty()) return some;
  return Write<std::vector<std::string>>(
      [&](Connection& db) -> absl::StatusOr<std::vector<std::string>> {
        std::vector<std::string> names = due(db);
        db.Prepare("UPDATE board SET check_due = 0 WHERE agent = ?").Bind(agent).Run();
        return names;
      });
}

absl::Status SqliteLedger::RemoveBoard(const Actor& actor, std::string_view board) {
  return writer_.Apply([&](Connection& db) -> absl::Status {
    const absl::Time now = Now();
    if (!BoardExists(db, board)) return BoardNotFound(board);
    Query query = db.Prepare("SELECT job_id FROM attempt WHERE board = ? AND state = 'RUNNING'");
    query.Bind(board);
    if (query.Next()) {
      return MakeError(Reason::kBoardBusy, StrCat("board ", board, " runs job ", query.Text(0)),
                       "drain it and wait, or cancel the job");
    }
    db.Prepare("UPDATE board SET removed = 1 WHERE name = ?").Bind(board).Run();
    AppendBoardEvent(db, now, board, "removed", actor.principal);
    Audit(db, now, actor, board, "");
    return absl::OkStatus();
  });
}

}  // namespace gq::server
