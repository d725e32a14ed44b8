#include "common/report/escape.h"

#include "common/base/log_format.h"

namespace gq::report {

std::string EscapeHtml(std::string_view text) {
  std::string result;
  for (const char c : base::StripControl(text)) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string EscapeMarkdown(std::string_view text) {
  constexpr std::string_view kActive = "\\`*_{}[]()#|~!@";
  std::string result;
  for (const char c : base::StripControl(text)) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      default:
        if (kActive.find(c) != std::string_view::npos) result += '\\';
        result += c;
    }
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
