// Errors as values: an absl::Status that also carries a reason (reason.h) and a hint.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/reason.h"

namespace gq::base {

// An error with the canonical code of `reason`. `message` says what was wrong and what was
// expected; `hint` says what to do next and may be empty.
absl::Status MakeError(Reason reason, std::string_view message, std::string_view hint = "");

// Reason of an error; kInternal for one that was not made by MakeError. The status must not be ok.
Reason GetReason(const absl::Status& status);

// Hint of an error; empty when it has none.
std::string GetHint(const absl::Status& status);

// The same error with `context` and ": " before its message; reason and hint stay.
absl::Status AddContext(const absl::Status& status, std::string_view context);

}  // namespace gq::base

// Returns from the enclosing function when `expression`, an absl::Status, is not ok.
#define GQ_RETURN_IF_ERROR(expression)                                               \
  do {                                                                               \
    if (absl::Status gq_status_ = (expression); !gq_status_.ok()) return gq_status_; \
  } while (false)

#define GQ_STATUS_CONCAT_INNER_(a, b) a##b
#define GQ_STATUS_CONCAT_(a, b) GQ_STATUS_CONCAT_INNER_(a, b)

// Evaluates `expression`, an absl::StatusOr, and moves its value into `declaration`, or returns its
// error.
#define GQ_ASSIGN_OR_RETURN(declaration, expression) \
  GQ_ASSIGN_OR_RETURN_IMPL_(GQ_STATUS_CONCAT_(gq_statusor_, __LINE__), declaration, expression)
#define GQ_ASSIGN_OR_RETURN_IMPL_(statusor, declaration, expression) \
  auto statusor = (expression);                                      \
  if (!statusor.ok()) return std::move(statusor).status();           \
  declaration = std::move(statusor).value()
