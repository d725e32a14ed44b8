// Tokens of list pages: where the last page ended, tied to the arguments it was asked with.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace gq::server {

std::string MakePageToken(std::string_view last_key, std::string_view arguments);

// The key inside; empty for an empty token. Fails with kInvalidFlag when the token is damaged or
// was made for other arguments.
absl::StatusOr<std::string> ReadPageToken(std::string_view token, std::string_view arguments);

// 50 when 0, at most 1000. Fails with kInvalidFlag on a negative size.
absl::StatusOr<int> PageSize(int requested);

}  // namespace gq::server
