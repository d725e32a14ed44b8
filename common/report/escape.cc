#include "common/report/escape.h"

#include "common/base/log_format.h"

namespace gq::report {

namespace {

// What a character becomes that HTML, and Markdown with it, takes as its own; empty for all others.
std::string_view Entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    default:
      return {};
  }
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string result;
  for (const char c : base::StripControl(text)) {
    if (const std::string_view entity = Entity(c); !entity.empty()) {
      result += entity;
    } else if (c == '"') {
      result += "&quot;";
    } else if (c == '\'') {
      result += "&#39;";
    } else {
      result += c;
    }
  }
  return result;
}

std::string EscapeMarkdown(std::string_view text) {
  constexpr std::string_view kActive = "\\`*_{}[]()#|~!@";
  std::string result;
  for (const char c : base::StripControl(text)) {
    if (const std::string_view entity = Entity(c); !entity.empty()) {
      result += entity;
      continue;
    }
    if (kActive.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

std::string EscapeJsonForScript(std::string_view json) {
  std::string result;
  result.reserve(json.size());
  for (const char c : json) {
    switch (c) {
      case '<':
        result += "\\u003c";
        break;
      case '>':
        result += "\\u003e";
        break;
      case '&':
        result += "\\u0026";
        break;
      default:
        result += c;
    }
  }
  return result;
}

}  // namespace gq::report
