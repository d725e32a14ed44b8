// The reasons for which gq refuses or fails, in one table: reason -> canonical code -> exit code of
// the client -> class of the failure. docs/errors.md has one entry a reason, under the reason's
// name in lower case.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"

namespace gq::base {

enum class Reason {
  // Requests and files of the user.
  kInvalidFlag,
  kNotAvailable,
  kFileNotFound,
  kFileUnreadable,
  kFileUnwritable,
  kModelInvalid,
  kModelUnsupported,
  kModelTooLarge,
  kExternalDataInvalid,
  kDynamicShape,
  kAlreadyQuantized,
  kNotQuantized,
  kDataInvalid,
  kDataEmpty,
  kDataShapeMismatch,
  kDataTypeMismatch,
  kDataKeyMismatch,
  kDataNonfinite,
  kConfigInvalid,
  kPatternInvalid,
  kPatternUnmatched,
  kSchemeIllegal,
  kTargetInvalid,
  kConsentRequired,
  // The engine and the programs around it.
  kRuntimeMissing,
  kRuntimeFailed,
  kSanityCheckFailed,
  kCompileFailed,
  kBoardFailed,
  kToolMissing,
  kResourceLimit,
  kTimeout,
  kCancelled,
  // The service.
  kNotFound,
  kAmbiguousId,
  kAlreadyExists,
  kRequestIdReused,
  kJobNotFinished,
  kJobFinished,
  kDeviceUnknown,
  kNoEligibleBoard,
  kBoardReserved,
  kBoardBusy,
  kLeaseLost,
  kLogGap,
  kBlobMissing,
  kDigestMismatch,
  kUploadOffset,
  kQuotaExceeded,
  kDiskFull,
  kOverloaded,
  kDraining,
  kUnauthenticated,
  kPermissionDenied,
  kServerUnreachable,
  kAttemptsExhausted,
  kWorkerLost,
  kDataFolderLocked,
  kLedgerTooNew,
  kLedgerFailed,
  kInternal,
};

enum class FailureClass { kUser, kPlatform, kTimeout };

struct ReasonInfo {
  Reason reason;
  std::string_view name;  // upper snake case, e.g. DATA_SHAPE_MISMATCH
  absl::StatusCode code;
  int exit_code;  // of the client, workflow.md "Exit codes"
  FailureClass failure_class;
};

// Every reason, in the order of the enumeration.
std::span<const ReasonInfo> AllReasons();
const ReasonInfo& GetReasonInfo(Reason reason);
std::string_view ReasonName(Reason reason);
std::optional<Reason> ReasonFromName(std::string_view name);

}  // namespace gq::base
