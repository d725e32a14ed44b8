// One connection to the ledger file, with its statements kept compiled.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "SQLiteCpp/Database.h"
#include "SQLiteCpp/Statement.h"

namespace gq::server {

// A statement in use: bound, stepped, and reset when it goes out of scope. Not thread-safe.
class Query {
 public:
  explicit Query(SQLite::Statement& statement) : statement_(statement) {}
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  // Binds the values in order, from the first parameter on. Text is bound as TEXT, Bytes as BLOB.
  template <typename... Values>
  Query& Bind(const Values&... values) {
    (BindOne(values), ...);
    return *this;
  }

  // Moves to the next row; false at the end.
  bool Next() { return statement_.executeStep(); }
  // Runs a statement that returns nothing; the number of rows it changed.
  int Run() { return statement_.exec(); }

  int64_t Int(int column) { return statement_.getColumn(column).getInt64(); }
  double Real(int column) { return statement_.getColumn(column).getDouble(); }
  std::string Text(int column) { return statement_.getColumn(column).getString(); }
  bool IsNull(int column) { return statement_.getColumn(column).isNull(); }

 private:
  void BindOne(std::string_view text) { statement_.bind(++bound_, std::string(text)); }
  void BindOne(const std::string& text) { statement_.bind(++bound_, text); }
  void BindOne(const char* text) { statement_.bind(++bound_, text); }
  void BindOne(bool value) { statement_.bind(++bound_, value ? 1 : 0); }
  void BindOne(int value) { statement_.bind(++bound_, value); }
  void BindOne(int64_t value) { statement_.bind(++bound_, value); }
  void BindOne(std::nullptr_t) { statement_.bind(++bound_); }
  void BindOne(const struct Bytes& bytes);

  SQLite::Statement& statement_;
  int bound_ = 0;
};

// Marks bytes that go into a BLOB column.
struct Bytes {
  std::string_view value;
};

// Throws SQLite::Exception, as its members do; Writer and Reader turn that into kLedgerFailed. Used
// by one thread at a time.
class Connection {
 public:
  enum class Mode { kWrite, kRead };
  Connection(const std::string& path, Mode mode);

  // `sql` is compiled once for each distinct text.
  [[nodiscard]] Query Prepare(std::string_view sql);
  void Execute(const std::string& sql) { database_.exec(sql); }
  // Rows changed by the latest statement.
  int Changes() { return database_.getChanges(); }
  SQLite::Database& database() { return database_; }

 private:
  SQLite::Database database_;
  std::unordered_map<std::string, std::unique_ptr<SQLite::Statement>> statements_;
};

}  // namespace gq::server
