// StripControl of log_format.h.
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/log_format.h"

namespace gq::base {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Length of the escape sequence at the start of `text`, which begins with ESC: CSI up to its final
// byte, OSC and the other string sequences up to BEL or ST, else two bytes.
size_t EscapeLength(std::string_view text) {
  if (text.size() < 2) return text.size();
  const char kind = text[1];
  if (kind == '[') {
    size_t i = 2;
    while (i < text.size() && text[i] >= 0x20 && text[i] < 0x40) ++i;
    return i < text.size() && text[i] >= 0x40 && text[i] < 0x7f ? i + 1 : i;
  }
  if (kind == ']' || kind == 'P' || kind == '^' || kind == '_' || kind == 'X') {
    for (size_t i = 2; i < text.size(); ++i) {
      if (text[i] == '\a') return i + 1;
      if (text[i] == '\033' && i + 1 < text.size() && text[i + 1] == '\\') return i + 2;
    }
    return text.size();
  }
  return kind >= 0x20 && kind < 0x7f ? 2 : 1;
}

struct Decoded {
  uint32_t code = 0;
  size_t length = 0;  // 0 when the bytes are not UTF-8
};

Decoded DecodeUtf8(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return {};
  uint32_t code = first & (0x7f >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {};
  return {code, length};
}

bool ActsOnTerminal(uint32_t code) {
  return (code < 0x20 && code != '\t') || (code >= 0x7f && code < 0xa0) || code == 0x200e ||
         code == 0x200f || (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

std::string StripControl(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    if (text[0] == '\033') {
      text.remove_prefix(EscapeLength(text));
      continue;
    }
    const Decoded decoded = DecodeUtf8(text);
    if (decoded.length == 0) {
      result += kReplacement;
      text.remove_prefix(1);
      continue;
    }
    if (!ActsOnTerminal(decoded.code)) result += text.substr(0, decoded.length);
    text.remove_prefix(decoded.length);
  }
  return result;
}

}  // namespace gq::base
