#include "board_agent/backends/board_options.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::agent {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;

namespace {

constexpr std::string_view kEnvironment = "env.";

bool IsVariable(std::string_view name) {
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

bool IsSafe(std::string_view word) {
  constexpr std::string_view kMarks = "_-./@:+~";
  return !word.starts_with('-') && std::all_of(word.begin(), word.end(), [&](unsigned char c) {
    return std::isalnum(c) || kMarks.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

}  // namespace

absl::StatusOr<BoardOptions> BoardOptions::Read(const BoardSpec& board,
                                                std::vector<std::string> known) {
  for (const auto& [key, value] : board.options) {
    if (key.starts_with(kEnvironment) && IsVariable(key.substr(kEnvironment.size()))) continue;
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const auto close = base::ClosestNames(key, known, 1);
    return MakeError(
        Reason::kConfigInvalid,
        StrCat("board ", board.name, ": backend ", board.backend, " has no option '", key, "'"),
        close.empty() ? StrCat("Options: ", base::StrJoin(known, ", "), ", env.NAME.")
                      : StrCat("Did you mean ", close.front(), "?"));
  }
  return BoardOptions(board);
}

std::string BoardOptions::Get(std::string_view key, std::string_view otherwise) const {
  const auto found = values_.find(std::string(key));
  return found != values_.end() && !found->second.empty() ? found->second : std::string(otherwise);
}

absl::Status BoardOptions::Bad(std::string_view key, std::string_view expected) const {
  return MakeError(Reason::kConfigInvalid, StrCat("board ", name_, ": option ", key, " is '",
                                                  Get(key), "', expected ", expected));
}

absl::StatusOr<int> BoardOptions::Number(std::string_view key, int otherwise) const {
  const std::string text = Get(key);
  if (text.empty()) return otherwise;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) {
    return Bad(key, "a whole number of at least 1");
  }
  return value;
}

absl::StatusOr<absl::Duration> BoardOptions::Seconds(std::string_view key, int otherwise) const {
  GQ_ASSIGN_OR_RETURN(const int seconds, Number(key, otherwise));
  return absl::Seconds(seconds);
}

absl::StatusOr<std::string> BoardOptions::SafeWord(std::string_view key,
                                                   std::string_view otherwise) const {
  std::string word = Get(key, otherwise);
  if (!IsSafe(word)) return Bad(key, "letters, digits and _-./@:+~, not a dash first");
  return word;
}

std::map<std::string, std::string> BoardOptions::Environment() const {
  std::map<std::string, std::string> environment;
  for (const auto& [key, value] : values_) {
    if (key.starts_with(kEnvironment)) environment[key.substr(kEnvironment.size())] = value;
  }
  return environment;
}

std::vector<std::string> BoardOptions::Scripts() const {
  std::vector<std::string> scripts;
  if (Has(kScriptKey)) scripts.push_back(Get(kScriptKey));
  const std::string more = Get(kScriptsKey);
  for (const std::string_view script : base::StrSplit(more, ':')) {
    if (!script.empty()) scripts.emplace_back(script);
  }
  return scripts;
}

absl::StatusOr<fs::path> BoardOptions::ActivationScript(std::string_view wanted) const {
  if (wanted.empty()) return fs::path(Get(kScriptKey));
  const std::vector<std::string> scripts = Scripts();
  if (std::find(scripts.begin(), scripts.end(), wanted) != scripts.end()) return fs::path(wanted);
  return MakeError(Reason::kInvalidFlag,
                   StrCat("activation script '", wanted, "' is not allowed on board ", name_),
                   scripts.empty() ? std::string("The board's configuration allows none.")
                                   : StrCat("Allowed: ", base::StrJoin(scripts, ", "), "."));
}

std::vector<std::string> BoardOptions::UnusableScripts() const {
  std::vector<std::string> unusable;
  for (const std::string& script : Scripts()) {
    if (::access(script.c_str(), R_OK) == 0) continue;
    unusable.push_back(StrCat("activation script ", script, ": ", std::strerror(errno)));
  }
  return unusable;
}

}  // namespace gq::agent
