#include "server/ledger/sqlite_connection.h"

#include <sqlite3.h>

namespace gq::server {
namespace {

constexpr int kBusyTimeoutMs = 5000;

int OpenFlags(Connection::Mode mode) {
  const int common = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  return mode == Connection::Mode::kWrite ? common | SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE
                                          : common | SQLite::OPEN_READONLY;
}

}  // namespace

Query::~Query() {
  statement_.tryReset();
  try {
    statement_.clearBindings();
  } catch (const SQLite::Exception&) {
    // Never happens: clearing bindings of a compiled statement cannot fail.
  }
}

void Query::BindOne(const Bytes& bytes) {
  statement_.bind(++bound_, bytes.value.data(), static_cast<int>(bytes.value.size()));
}

Connection::Connection(const std::string& path, Mode mode)
    : database_(path, OpenFlags(mode), kBusyTimeoutMs) {
  sqlite3_db_config(database_.getHandle(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  database_.exec("PRAGMA foreign_keys=ON; PRAGMA trusted_schema=OFF; PRAGMA temp_store=MEMORY");
  if (mode == Mode::kWrite) {
    database_.exec(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-32000;"
        "PRAGMA journal_size_limit=67108864; PRAGMA wal_autocheckpoint=1000");
  } else {
    database_.exec("PRAGMA query_only=ON");
  }
}

Query Connection::Prepare(std::string_view sql) {
  auto [entry, added] = statements_.try_emplace(std::string(sql));
  if (added) entry->second = std::make_unique<SQLite::Statement>(database_, entry->first);
  return Query(*entry->second);
}

}  // namespace gq::server
