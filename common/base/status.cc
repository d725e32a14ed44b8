#include "common/base/status.h"

#include <optional>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace gq::base {
namespace {

constexpr std::string_view kReasonUrl = "gq/reason";
constexpr std::string_view kHintUrl = "gq/hint";

}  // namespace

absl::Status MakeError(Reason reason, std::string_view message, std::string_view hint) {
  absl::Status status(GetReasonInfo(reason).code, message);
  status.SetPayload(kReasonUrl, absl::Cord(ReasonName(reason)));
  if (!hint.empty()) status.SetPayload(kHintUrl, absl::Cord(hint));
  return status;
}

Reason GetReason(const absl::Status& status) {
  if (std::optional<absl::Cord> payload = status.GetPayload(kReasonUrl)) {
    if (auto reason = ReasonFromName(std::string(*payload))) return *reason;
  }
  return Reason::kInternal;
}

std::string GetHint(const absl::Status& status) {
  std::optional<absl::Cord> payload = status.GetPayload(kHintUrl);
  return payload ? std::string(*payload) : std::string();
}

absl::Status AddContext(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  absl::Status result(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&result](std::string_view url, const absl::Cord& payload) {
    result.SetPayload(url, payload);
  });
  return result;
}

}  // namespace gq::base
