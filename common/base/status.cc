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

}  // namespace

absl::Status MakeError(Reason reason, std::string_view message, std::string_view hint) {
  absl::Status status(GetReasonInfo(reason).code, ToAbsl(message));
  status.SetPayload(kReasonUrl, absl::Cord(ToAbsl(ReasonName(reason))));
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
