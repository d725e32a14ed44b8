// Text building and splitting over std::string_view.
//
// The distribution's Abseil has its own string_view type, so absl::StrCat and its kin do not take a
// std::string_view. These do; std::string, literals, numbers and characters work as well.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gq::base {

// For calls of Abseil that take its own string_view.
inline absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view FromAbsl(absl::string_view text) { return {text.data(), text.size()}; }

namespace internal {

template <typename T>
void AppendPiece(std::string* destination, const T& piece) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    destination->append(std::string_view(piece));
  } else if constexpr (std::is_same_v<T, absl::string_view>) {
    destination->append(piece.data(), piece.size());
  } else if constexpr (std::is_same_v<T, char>) {
    destination->push_back(piece);
  } else {
    const absl::AlphaNum number(piece);
    destination->append(number.data(), number.size());
  }
}

}  // namespace internal

template <typename... Pieces>
void StrAppend(std::string* destination, const Pieces&... pieces) {
  (internal::AppendPiece(destination, pieces), ...);
}

template <typename... Pieces>
[[nodiscard]] std::string StrCat(const Pieces&... pieces) {
  std::string result;
  StrAppend(&result, pieces...);
  return result;
}

// The elements of `range`, anything StrCat takes, with `separator` between them.
template <typename Range>
[[nodiscard]] std::string StrJoin(const Range& range, std::string_view separator) {
  std::string result;
  bool first = true;
  for (const auto& element : range) {
    if (!first) result += separator;
    first = false;
    StrAppend(&result, element);
  }
  return result;
}

// The parts of `text` between the separators, empty ones too; they point into `text`.
[[nodiscard]] std::vector<std::string_view> StrSplit(std::string_view text, char separator);

// Without white space at both ends.
[[nodiscard]] std::string_view StripSpace(std::string_view text);

// Number of insertions, deletions and replacements that turn one text into the other.
[[nodiscard]] size_t EditDistance(std::string_view a, std::string_view b);

// Those of `candidates` that a person may have meant by `text`, closest first, at most `limit`.
[[nodiscard]] std::vector<std::string> ClosestNames(std::string_view text,
                                                    const std::vector<std::string>& candidates,
                                                    size_t limit = 3);

}  // namespace gq::base
