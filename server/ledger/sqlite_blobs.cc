// Which blobs are stored and who may have them; tokens.
#include "common/base/text.h"
#include "server/ledger/job_rows.h"
#include "server/ledger/sqlite_ledger.h"

namespace gq::server {
namespace {

using base::StrCat;

// True for blob b when no job refers to it and it was not touched since the parameter.
constexpr std::string_view kUnused =
    "b.touched_us < ? AND NOT EXISTS (SELECT 1 FROM job_blob j WHERE j.sha256 = b.sha256) AND NOT"
    " EXISTS (SELECT 1 FROM artifact a WHERE a.sha256 = b.sha256)";

}  // namespace

absl::Status SqliteLedger::RecordBlob(std::string_view principal, const gq::v1::Digest& digest) {
  return writer_.Apply([&](Connection& db) -> absl::Status {
    const int64_t now_us = ToMicros(Now());
    db.Prepare(
          "INSERT INTO blob (sha256, size, created_us, touched_us) VALUES (?, ?, ?, ?)"
          " ON CONFLICT (sha256) DO UPDATE SET touched_us = excluded.touched_us")
        .Bind(digest.sha256(), digest.size_bytes(), now_us, now_us)
        .Run();
    db.Prepare("INSERT OR IGNORE INTO blob_owner (principal, sha256) VALUES (?, ?)")
        .Bind(principal, digest.sha256())
        .Run();
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<gq::v1::Digest>> SqliteLedger::FindMissingBlobs(
    std::string_view principal, std::span<const gq::v1::Digest> digests) {
  return Write<std::vector<gq::v1::Digest>>(
      [&](Connection& db) -> absl::StatusOr<std::vector<gq::v1::Digest>> {
        const int64_t now_us = ToMicros(Now());
        std::vector<gq::v1::Digest> missing;
        for (const gq::v1::Digest& digest : digests) {
          Query query = db.Prepare(
              "UPDATE blob SET touched_us = ? WHERE sha256 = ? AND size = ? AND EXISTS (SELECT 1"
              " FROM blob_owner o WHERE o.sha256 = blob.sha256 AND o.principal = ?)");
          query.Bind(now_us, digest.sha256(), digest.size_bytes(), principal);
          if (query.Run() == 0) missing.push_back(digest);
        }
        return missing;
      });
}

absl::StatusOr<bool> SqliteLedger::MayReadBlob(const Viewer& viewer, const gq::v1::Digest& digest) {
  return Read<bool>([&](Connection& db) -> absl::StatusOr<bool> {
    if (viewer.sees_all) {
      Query query = db.Prepare("SELECT 1 FROM blob WHERE sha256 = ? AND size = ?");
      query.Bind(digest.sha256(), digest.size_bytes());
      return query.Next();
    }
    Query query = db.Prepare(
        "SELECT 1 FROM blob b WHERE b.sha256 = ? AND b.size = ? AND (EXISTS (SELECT 1 FROM"
        " blob_owner o WHERE o.sha256 = b.sha256 AND o.principal = ?) OR EXISTS (SELECT 1 FROM"
        " artifact a JOIN job j ON j.id = a.job_id WHERE a.sha256 = b.sha256 AND (j.principal = ?"
        " OR j.visibility = 'team')))");
    query.Bind(digest.sha256(), digest.size_bytes(), viewer.principal, viewer.principal);
    return query.Next();
  });
}

absl::StatusOr<std::vector<gq::v1::Digest>> SqliteLedger::ListUnusedBlobs(absl::Duration age) {
  return Read<std::vector<gq::v1::Digest>>(
      [&](Connection& db) -> absl::StatusOr<std::vector<gq::v1::Digest>> {
        Query query = db.Prepare(StrCat("SELECT b.sha256, b.size FROM blob b WHERE ", kUnused));
        query.Bind(ToMicros(Now() - age));
        std::vector<gq::v1::Digest> digests;
        while (query.Next()) {
          gq::v1::Digest& digest = digests.emplace_back();
          digest.set_sha256(query.Text(0));
          digest.set_size_bytes(query.Int(1));
        }
        return digests;
      });
}

absl::StatusOr<bool> SqliteLedger::ForgetBlob(const gq::v1::Digest& digest, absl::Duration age) {
  return Write<bool>([&](Connection& db) -> absl::StatusOr<bool> {
    Query query = db.Prepare(StrCat("DELETE FROM blob AS b WHERE b.sha256 = ? AND ", kUnused));
    query.Bind(digest.sha256(), ToMicros(Now() - age));
    return query.Run() == 1;
  });
}

absl::StatusOr<int64_t> SqliteLedger::BlobBytes() {
  return Read<int64_t>([](Connection& db) -> absl::StatusOr<int64_t> {
    Query query = db.Prepare("SELECT COALESCE(SUM(size), 0) FROM blob");
    return query.Next() ? query.Int(0) : 0;
  });
}

absl::Status SqliteLedger::AddToken(const Actor& actor, const TokenRecord& token) {
  return writer_.Apply([&](Connection& db) -> absl::Status {
    const absl::Time now = Now();
    EnsurePrincipal(db, now, token.principal);
    Query query = db.Prepare(
        "INSERT OR REPLACE INTO token (id, principal, role, hash, created_us, expires_us)"
        " VALUES (?, ?, ?, ?, ?, ?)");
    query.Bind(token.id, token.principal, token.role, Bytes{token.hash}, ToMicros(now));
    if (token.expires) {
      query.Bind(ToMicros(*token.expires));
    } else {
      query.Bind(nullptr);
    }
    query.Run();
    Audit(db, now, actor, token.id, StrCat(token.principal, " ", token.role));
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<TokenRecord>> SqliteLedger::ListTokens() {
  return Read<std::vector<TokenRecord>>(
      [](Connection& db) -> absl::StatusOr<std::vector<TokenRecord>> {
        Query query =
            db.Prepare("SELECT id, principal, role, hash, expires_us FROM token ORDER BY id");
        std::vector<TokenRecord> tokens;
        while (query.Next()) {
          TokenRecord& token = tokens.emplace_back();
          token.id = query.Text(0);
          token.principal = query.Text(1);
          token.role = query.Text(2);
          token.hash = query.Text(3);
          if (!query.IsNull(4)) token.expires = FromMicros(query.Int(4));
        }
        return tokens;
      });
}

}  // namespace gq::server
