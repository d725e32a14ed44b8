#include "common/base/status.h"

#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "absl/types/optional.h"
#include "common/base/text.h"

namespace gq::base {
namespace {

constexpr absl::string_view kReasonUrl = "gq/reason";
constexpr absl::string_view kHintUrl = "gq/hint";

// What to do about an error of this reason where the caller does not say; empty where only the
// message can tell.
std::string_view DefaultHint(Reason reason) {
  switch (reason) {
    case Reason::kFileNotFound:
      return "Check the path.";
    case Reason::kFileUnreadable:
      return "Check that it is a file and that you may read it.";
    case Reason::kModelInvalid:
      return "Export the model again, or check it with onnx.checker.check_model.";
    case Reason::kModelUnsupported:
      return "Export the model without it, or cut it off before the export.";
    case Reason::kModelTooLarge:
      return "Save the model with external data, or use a smaller one.";
    case Reason::kExternalDataInvalid:
      return "Keep the data files beside the model as they were exported.";
    case Reason::kDataInvalid:
      return "Save the data with numpy.save or numpy.savez.";
    case Reason::kDataEmpty:
      return "Give at least one sample.";
    case Reason::kDataShapeMismatch:
      return "Give the same number of samples for every input, each of the input's shape.";
    case Reason::kRuntimeFailed:
      return "Check that the model runs in ONNX Runtime on the same data.";
    case Reason::kResourceLimit:
      return "Use fewer or smaller samples, or a smaller model.";
    default:
      return "";
  }
}

}  // namespace

absl::Status MakeError(Reason reason, std::string_view message, std::string_view hint) {
  absl::Status status(GetReasonInfo(reason).code, ToAbsl(message));
  status.SetPayload(kReasonUrl, absl::Cord(ToAbsl(ReasonName(reason))));
  if (hint.empty()) hint = DefaultHint(reason);
  if (!hint.empty()) status.SetPayload(kHintUrl, absl::Cord(ToAbsl(hint)));
  return status;
}

Reason GetReason(const absl::Status& status) {
  if (absl::optional<absl::Cord> payload = status.GetPayload(kReasonUrl)) {
    if (auto reason = ReasonFromName(std::string(*payload))) return *reason;
  }
  return Reason::kInternal;
}

std::string GetHint(const absl::Status& status) {
  absl::optional<absl::Cord> payload = status.GetPayload(kHintUrl);
  return payload ? std::string(*payload) : std::string();
}

absl::Status AddContext(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  absl::Status result(status.code(), StrCat(context, ": ", status.message()));
  status.ForEachPayload([&result](absl::string_view url, const absl::Cord& payload) {
    result.SetPayload(url, payload);
  });
  return result;
}

}  // namespace gq::base
