// Reading jobs: ids, lists, events, iterations, artifacts, reports.
#include <algorithm>

#include "common/base/status.h"
#include "common/base/text.h"
#include "server/ledger/enum_text.h"
#include "server/ledger/job_rows.h"
#include "server/ledger/sqlite_ledger.h"

namespace gq::server {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

constexpr std::string_view kIdCharacters = "0123456789abcdefghjkmnpqrstvwxyz";

// SQL that is true for what the viewer may see, with one text parameter.
constexpr std::string_view kVisible = "(? = '' OR principal = ? OR visibility = 'team')";

std::string ViewerParameter(const Viewer& viewer) {
  return viewer.sees_all ? std::string() : viewer.principal;
}

// `%` and `_` in `text` stand for themselves; `\` is the escape character.
std::string LikePattern(std::string_view text) {
  std::string pattern = "%";
  for (const char c : text) {
    if (c == '%' || c == '_' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern + "%";
}

}  // namespace

absl::StatusOr<std::string> SqliteLedger::ResolveJobId(const Viewer& viewer, std::string_view id) {
  return Read<std::string>([&](Connection& db) -> absl::StatusOr<std::string> {
    const std::string who = ViewerParameter(viewer);
    if (id == "@last") {
      Query query = db.Prepare("SELECT id FROM job WHERE principal = ? ORDER BY id DESC LIMIT 1");
      query.Bind(viewer.principal);
      if (query.Next()) return query.Text(0);
      return MakeError(Reason::kNotFound, "you have no job yet", "`gq run` submits one");
    }
    if (id.empty() || id.find_first_not_of(kIdCharacters) != std::string_view::npos) {
      return JobNotFound(id);
    }
    // Every id with this prefix lies between the prefix and the prefix followed by a character
    // that is above all others.
    Query query = db.Prepare(
        StrCat("SELECT id FROM job WHERE id >= ? AND id < ? AND ", kVisible, " LIMIT 2"));
    query.Bind(id, StrCat(id, "~"), who, who);
    if (!query.Next()) return JobNotFound(id);
    std::string found = query.Text(0);
    if (found != id && query.Next()) {
      return MakeError(Reason::kAmbiguousId, StrCat("'", id, "' is the beginning of several ids"),
                       "give more characters");
    }
    return found;
  });
}

absl::StatusOr<std::vector<gq::v1::Job>> SqliteLedger::ListJobs(const JobFilter& filter) {
  return Read<std::vector<gq::v1::Job>>(
      [&](Connection& db) -> absl::StatusOr<std::vector<gq::v1::Job>> {
        const std::string who = ViewerParameter(filter.viewer);
        std::string sql = StrCat("SELECT ", kJobColumns, " FROM job WHERE ", kVisible);
        std::vector<std::string> parameters = {who, who};
        if (!filter.before_id.empty()) {
          sql += " AND id < ?";
          parameters.push_back(filter.before_id);
        }
        if (!filter.states.empty()) {
          sql += " AND state IN (";
          for (size_t i = 0; i < filter.states.size(); ++i) {
            sql += i == 0 ? "?" : ", ?";
            parameters.push_back(JobStateText(filter.states[i]));
          }
          sql += ")";
        }
        if (!filter.principal.empty()) {
          sql += " AND principal = ?";
          parameters.push_back(filter.principal);
        }
        if (!filter.name_contains.empty()) {
          sql += " AND name LIKE ? ESCAPE '\\'";
          parameters.push_back(LikePattern(filter.name_contains));
        }
        for (const auto& [key, value] : filter.labels) {
          sql +=
              " AND EXISTS (SELECT 1 FROM job_label l WHERE l.job_id = job.id AND l.key = ? AND"
              " l.value = ?)";
          parameters.push_back(key);
          parameters.push_back(value);
        }
        sql += " ORDER BY id DESC LIMIT ?";
        std::vector<gq::v1::Job> jobs;
        {
          Query query = db.Prepare(sql);
          for (const std::string& parameter : parameters) query.Bind(parameter);
          query.Bind(filter.limit);
          while (query.Next()) jobs.push_back(JobFromRow(query));
        }
        for (gq::v1::Job& job : jobs) LoadSteps(db, /*with_attempts=*/false, &job);
        return jobs;
      });
}

absl::StatusOr<std::vector<gq::v1::JobEvent>> SqliteLedger::ListEvents(std::string_view job_id,
                                                                       int64_t from, int limit) {
  return Read<std::vector<gq::v1::JobEvent>>(
      [&](Connection& db) -> absl::StatusOr<std::vector<gq::v1::JobEvent>> {
        Query query = db.Prepare(
            "SELECT seq, time_us, job_state, step_idx, step_state, attempt, message FROM job_event"
            " WHERE job_id = ? AND seq >= ? ORDER BY seq LIMIT ?");
        query.Bind(job_id, from, limit);
        std::vector<gq::v1::JobEvent> events;
        while (query.Next()) {
          gq::v1::JobEvent& event = events.emplace_back();
          event.set_sequence(query.Int(0));
          SetTimestamp(query.Int(1), event.mutable_time());
          event.set_job_state(static_cast<gq::v1::JobState>(query.Int(2)));
          event.set_step_index(static_cast<int>(query.Int(3)));
          event.set_step_state(static_cast<gq::v1::StepState>(query.Int(4)));
          event.set_attempt(static_cast<int>(query.Int(5)));
          event.set_message(query.Text(6));
        }
        return events;
      });
}

absl::StatusOr<std::vector<gq::v1::Iteration>> SqliteLedger::ListIterations(std::string_view job_id,
                                                                            int after, int limit) {
  return Read<std::vector<gq::v1::Iteration>>(
      [&](Connection& db) -> absl::StatusOr<std::vector<gq::v1::Iteration>> {
        Query query = db.Prepare(
            "SELECT data FROM iteration WHERE job_id = ? AND number > ? ORDER BY number LIMIT ?");
        query.Bind(job_id, after, limit);
        std::vector<gq::v1::Iteration> iterations;
        while (query.Next()) iterations.emplace_back().ParseFromString(query.Text(0));
        return iterations;
      });
}

absl::StatusOr<std::vector<gq::v1::Artifact>> SqliteLedger::ListArtifacts(std::string_view job_id) {
  return Read<std::vector<gq::v1::Artifact>>(
      [&](Connection& db) -> absl::StatusOr<std::vector<gq::v1::Artifact>> {
        Query query = db.Prepare(
            "SELECT path, sha256, size, step_idx, created_us FROM artifact WHERE job_id = ?"
            " ORDER BY path");
        query.Bind(job_id);
        std::vector<gq::v1::Artifact> artifacts;
        while (query.Next()) {
          gq::v1::Artifact& artifact = artifacts.emplace_back();
          artifact.set_path(query.Text(0));
          artifact.mutable_digest()->set_sha256(query.Text(1));
          artifact.mutable_digest()->set_size_bytes(query.Int(2));
          artifact.set_step_index(static_cast<int>(query.Int(3)));
          SetTimestamp(query.Int(4), artifact.mutable_create_time());
        }
        return artifacts;
      });
}

absl::StatusOr<std::map<int, std::string>> SqliteLedger::ListReports(std::string_view job_id) {
  return Read<std::map<int, std::string>>(
      [&](Connection& db) -> absl::StatusOr<std::map<int, std::string>> {
        Query query = db.Prepare("SELECT idx, json FROM step_report WHERE job_id = ? ORDER BY idx");
        query.Bind(job_id);
        std::map<int, std::string> reports;
        while (query.Next()) reports[static_cast<int>(query.Int(0))] = query.Text(1);
        return reports;
      });
}

absl::StatusOr<std::map<std::string, int64_t>> SqliteLedger::CountJobs() {
  return Read<std::map<std::string, int64_t>>(
      [](Connection& db) -> absl::StatusOr<std::map<std::string, int64_t>> {
        Query query = db.Prepare("SELECT state, COUNT(*) FROM job GROUP BY state");
        std::map<std::string, int64_t> counts;
        while (query.Next()) counts[query.Text(0)] = query.Int(1);
        return counts;
      });
}

}  // namespace gq::server
