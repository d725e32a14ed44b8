// Schema of the ledger file as a list of forward-only migrations.
#pragma once

#include <span>
#include <string_view>

namespace gq::server {

// Marks the file as ours (`PRAGMA application_id`): "gqLg".
inline constexpr int kApplicationId = 0x67714c67;

// Migration i brings a file of `user_version` i to i + 1. Published ones are never edited.
std::span<const std::string_view> Migrations();

}  // namespace gq::server
