#include "common/base/reason.h"

#include <array>
#include <cstddef>

namespace gq::base {
namespace {

using absl::StatusCode;
using enum FailureClass;

constexpr std::array kReasons = {
    ReasonInfo{Reason::kInvalidFlag, "INVALID_FLAG", StatusCode::kInvalidArgument, 2, kUser},
    ReasonInfo{Reason::kNotAvailable, "NOT_AVAILABLE", StatusCode::kUnimplemented, 2, kUser},
    ReasonInfo{Reason::kFileNotFound, "FILE_NOT_FOUND", StatusCode::kNotFound, 2, kUser},
    ReasonInfo{Reason::kFileUnreadable, "FILE_UNREADABLE", StatusCode::kFailedPrecondition, 2,
               kUser},
    ReasonInfo{Reason::kFileUnwritable, "FILE_UNWRITABLE", StatusCode::kFailedPrecondition, 2,
               kUser},
    ReasonInfo{Reason::kModelInvalid, "MODEL_INVALID", StatusCode::kInvalidArgument, 2, kUser},
    ReasonInfo{Reason::kModelUnsupported, "MODEL_UNSUPPORTED", StatusCode::kInvalidArgument, 2,
               kUser},
    ReasonInfo{Reason::kModelTooLarge, "MODEL_TOO_LARGE", StatusCode::kInvalidArgument, 2, kUser},
    ReasonInfo{Reason::kExternalDataInvalid, "EXTERNAL_DATA_INVALID", StatusCode::kInvalidArgument,
               2, kUser},
    ReasonInfo{Reason::kDynamicShape, "DYNAMIC_SHAPE", StatusCode::kInvalidArgument, 2, kUser},
    ReasonInfo{Reason::kAlreadyQuantized, "ALREADY_QUANTIZED", StatusCode::kFailedPrecondition, 2,
               kUser},
    ReasonInfo{Reason::kNotQuantized, "NOT_QUANTIZED", StatusCode::kFailedPrecondition, 2, kUser},
    ReasonInfo{Reason::kDataInvalid, "DATA_INVALID", StatusCode::kInvalidArgument, 2, kUser},
    ReasonInfo{Reason::kDataEmpty, "DATA_EMPTY", StatusCode::kInvalidArgument, 2, kUser},
    ReasonInfo{Reason::kDataShapeMismatch, "DATA_SHAPE_MISMATCH", StatusCode::kInvalidArgument, 2,
               kUser},
    ReasonInfo{Reason::kDataTypeMismatch, "DATA_TYPE_MISMATCH", StatusCode::kInvalidArgument, 2,
               kUser},
    ReasonInfo{Reason::kDataKeyMismatch, "DATA_KEY_MISMATCH", StatusCode::kInvalidArgument, 2,
               kUser},
    ReasonInfo{Reason::kDataNonfinite, "DATA_NONFINITE", StatusCode::kInvalidArgument, 2, kUser},
    ReasonInfo{Reason::kConfigInvalid, "CONFIG_INVALID", StatusCode::kInvalidArgument, 2, kUser},
    ReasonInfo{Reason::kPatternInvalid, "PATTERN_INVALID", StatusCode::kInvalidArgument, 2, kUser},
    ReasonInfo{Reason::kPatternUnmatched, "PATTERN_UNMATCHED", StatusCode::kInvalidArgument, 2,
               kUser},
    ReasonInfo{Reason::kSchemeIllegal, "SCHEME_ILLEGAL", StatusCode::kInvalidArgument, 2, kUser},
    ReasonInfo{Reason::kTargetInvalid, "TARGET_INVALID", StatusCode::kInvalidArgument, 2, kUser},
    ReasonInfo{Reason::kConsentRequired, "CONSENT_REQUIRED", StatusCode::kFailedPrecondition, 2,
               kUser},
    ReasonInfo{Reason::kRuntimeMissing, "RUNTIME_MISSING", StatusCode::kFailedPrecondition, 1,
               kPlatform},
    ReasonInfo{Reason::kRuntimeFailed, "RUNTIME_FAILED", StatusCode::kInternal, 5, kUser},
    ReasonInfo{Reason::kSanityCheckFailed, "SANITY_CHECK_FAILED", StatusCode::kInternal, 5,
               kPlatform},
    ReasonInfo{Reason::kCompileFailed, "COMPILE_FAILED", StatusCode::kInternal, 5, kUser},
    ReasonInfo{Reason::kBoardFailed, "BOARD_FAILED", StatusCode::kInternal, 5, kPlatform},
    ReasonInfo{Reason::kToolMissing, "TOOL_MISSING", StatusCode::kFailedPrecondition, 5, kPlatform},
    ReasonInfo{Reason::kResourceLimit, "RESOURCE_LIMIT", StatusCode::kResourceExhausted, 5, kUser},
    ReasonInfo{Reason::kTimeout, "TIMEOUT", StatusCode::kDeadlineExceeded, 9, kTimeout},
    ReasonInfo{Reason::kCancelled, "CANCELLED", StatusCode::kCancelled, 8, kUser},
    ReasonInfo{Reason::kNotFound, "NOT_FOUND", StatusCode::kNotFound, 4, kUser},
    ReasonInfo{Reason::kAmbiguousId, "AMBIGUOUS_ID", StatusCode::kInvalidArgument, 4, kUser},
    ReasonInfo{Reason::kAlreadyExists, "ALREADY_EXISTS", StatusCode::kAlreadyExists, 2, kUser},
    ReasonInfo{Reason::kRequestIdReused, "REQUEST_ID_REUSED", StatusCode::kInvalidArgument, 2,
               kUser},
    ReasonInfo{Reason::kJobNotFinished, "JOB_NOT_FINISHED", StatusCode::kFailedPrecondition, 2,
               kUser},
    ReasonInfo{Reason::kJobFinished, "JOB_FINISHED", StatusCode::kFailedPrecondition, 2, kUser},
    ReasonInfo{Reason::kDeviceUnknown, "DEVICE_UNKNOWN", StatusCode::kInvalidArgument, 2, kUser},
    ReasonInfo{Reason::kNoEligibleBoard, "NO_ELIGIBLE_BOARD", StatusCode::kFailedPrecondition, 7,
               kUser},
    ReasonInfo{Reason::kBoardReserved, "BOARD_RESERVED", StatusCode::kFailedPrecondition, 7, kUser},
    ReasonInfo{Reason::kBoardBusy, "BOARD_BUSY", StatusCode::kFailedPrecondition, 7, kUser},
    ReasonInfo{Reason::kLeaseLost, "LEASE_LOST", StatusCode::kAborted, 1, kPlatform},
    ReasonInfo{Reason::kLogGap, "LOG_GAP", StatusCode::kOutOfRange, 1, kPlatform},
    ReasonInfo{Reason::kBlobMissing, "BLOB_MISSING", StatusCode::kFailedPrecondition, 1, kUser},
    ReasonInfo{Reason::kDigestMismatch, "DIGEST_MISMATCH", StatusCode::kInvalidArgument, 1, kUser},
    ReasonInfo{Reason::kUploadOffset, "UPLOAD_OFFSET", StatusCode::kOutOfRange, 1, kUser},
    ReasonInfo{Reason::kQuotaExceeded, "QUOTA_EXCEEDED", StatusCode::kResourceExhausted, 7, kUser},
    ReasonInfo{Reason::kDiskFull, "DISK_FULL", StatusCode::kResourceExhausted, 7, kPlatform},
    ReasonInfo{Reason::kOverloaded, "OVERLOADED", StatusCode::kResourceExhausted, 7, kPlatform},
    ReasonInfo{Reason::kDraining, "DRAINING", StatusCode::kUnavailable, 6, kPlatform},
    ReasonInfo{Reason::kUnauthenticated, "UNAUTHENTICATED", StatusCode::kUnauthenticated, 3, kUser},
    ReasonInfo{Reason::kPermissionDenied, "PERMISSION_DENIED", StatusCode::kPermissionDenied, 3,
               kUser},
    ReasonInfo{Reason::kServerUnreachable, "SERVER_UNREACHABLE", StatusCode::kUnavailable, 6,
               kPlatform},
    ReasonInfo{Reason::kAttemptsExhausted, "ATTEMPTS_EXHAUSTED", StatusCode::kAborted, 5,
               kPlatform},
    ReasonInfo{Reason::kWorkerLost, "WORKER_LOST", StatusCode::kAborted, 5, kPlatform},
    ReasonInfo{Reason::kDataFolderLocked, "DATA_FOLDER_LOCKED", StatusCode::kFailedPrecondition, 1,
               kUser},
    ReasonInfo{Reason::kLedgerTooNew, "LEDGER_TOO_NEW", StatusCode::kFailedPrecondition, 1, kUser},
    ReasonInfo{Reason::kLedgerFailed, "LEDGER_FAILED", StatusCode::kInternal, 1, kPlatform},
    ReasonInfo{Reason::kInternal, "INTERNAL", StatusCode::kInternal, 1, kPlatform},
};

static_assert(kReasons.size() == static_cast<size_t>(Reason::kInternal) + 1,
              "every reason has one row, in the order of the enumeration");

}  // namespace

std::span<const ReasonInfo> AllReasons() { return kReasons; }

const ReasonInfo& GetReasonInfo(Reason reason) { return kReasons[static_cast<size_t>(reason)]; }

std::string_view ReasonName(Reason reason) { return GetReasonInfo(reason).name; }

std::optional<Reason> ReasonFromName(std::string_view name) {
  for (const ReasonInfo& info : kReasons) {
    if (info.name == name) return info.reason;
  }
  return std::nullopt;
}

}  // namespace gq::base
