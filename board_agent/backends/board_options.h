// Reading the options of a board (BoardSpec::options) for the backends that run tools.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "board_agent/backends/backend.h"

namespace gq::agent {

// Values of one board. Keys `env.NAME` are environment variables of the tools.
class BoardOptions {
 public:
  // Fails with kConfigInvalid for a key that is neither in `known` nor `env.NAME`.
  static absl::StatusOr<BoardOptions> Read(const BoardSpec& board, std::vector<std::string> known);

  std::string Get(std::string_view key, std::string_view otherwise = "") const;
  bool Has(std::string_view key) const { return !Get(key).empty(); }
  // A number of at least 1; kConfigInvalid otherwise.
  absl::StatusOr<int> Number(std::string_view key, int otherwise) const;
  absl::StatusOr<absl::Duration> Seconds(std::string_view key, int otherwise) const;
  // A word of letters, digits and `_-./@:+~` that does not begin with a dash: safe as an argument
  // and in a remote shell. kConfigInvalid otherwise.
  absl::StatusOr<std::string> SafeWord(std::string_view key, std::string_view otherwise = "") const;

  std::map<std::string, std::string> Environment() const;

  // The activation script to use: `wanted` (by the job) when the board allows it, that is, it is
  // the board's `script` or one of `scripts` (separated by colons); the board's own when the job
  // names none, empty when it has none. Fails with kInvalidFlag, listing those that are allowed.
  absl::StatusOr<std::filesystem::path> ActivationScript(std::string_view wanted) const;
  // Every allowed script that cannot be read, with the reason.
  std::vector<std::string> UnusableScripts() const;

 private:
  explicit BoardOptions(const BoardSpec& board) : name_(board.name), values_(board.options) {}
  std::vector<std::string> Scripts() const;
  absl::Status Bad(std::string_view key, std::string_view expected) const;

  std::string name_;
  std::map<std::string, std::string> values_;
};

// Keys of every board with an activation script.
inline constexpr std::string_view kScriptKey = "script";
inline constexpr std::string_view kScriptsKey = "scripts";

}  // namespace gq::agent
