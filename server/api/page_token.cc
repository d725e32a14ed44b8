#include "server/api/page_token.h"

#include <algorithm>

#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::server {
namespace {

constexpr int kDefaultPage = 50;
constexpr int kLargestPage = 1000;
constexpr size_t kMarkLength = 12;

std::string Mark(std::string_view last_key, std::string_view arguments) {
  return base::Sha256Hex(base::StrCat(last_key, "\n", arguments)).substr(0, kMarkLength);
}

}  // namespace

std::string MakePageToken(std::string_view last_key, std::string_view arguments) {
  return base::StrCat(Mark(last_key, arguments), last_key);
}

absl::StatusOr<std::string> ReadPageToken(std::string_view token, std::string_view arguments) {
  if (token.empty()) return std::string();
  if (token.size() > kMarkLength) {
    const std::string_view key = token.substr(kMarkLength);
    if (token.substr(0, kMarkLength) == Mark(key, arguments)) return std::string(key);
  }
  return base::MakeError(base::Reason::kInvalidFlag,
                         "page_token does not belong to a request with these arguments",
                         "repeat the arguments of the first page, or begin without a token");
}

absl::StatusOr<int> PageSize(int requested) {
  if (requested < 0) {
    return base::MakeError(base::Reason::kInvalidFlag, "page_size is negative");
  }
  return requested == 0 ? kDefaultPage : std::min(requested, kLargestPage);
}

}  // namespace gq::server
