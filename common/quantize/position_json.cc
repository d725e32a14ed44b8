#include "common/quantize/position_json.h"

#include <charconv>
#include <cstdint>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::quantize {
namespace {

using base::StrCat;

constexpr int kMaxDepth = 64;

class Parser {
 public:
  Parser(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  absl::StatusOr<JsonValue> Run() {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
    JsonValue value;
    GQ_RETURN_IF_ERROR(Value(0, &value));
    SkipSpace();
    if (at_ != text_.size()) return Error("text behind the end of the document");
    return value;
  }

 private:
  absl::Status Error(std::string_view what) const {
    return base::MakeError(base::Reason::kConfigInvalid,
                           StrCat(name_, ", line ", line_, ", column ", Column(), ": ", what),
                           "Correct the file; JSON has no comments and no trailing commas.");
  }
  int Column() const { return static_cast<int>(at_ - line_start_) + 1; }

  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void SkipSpace() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return;
      ++at_;
      if (c == '\n') {
        ++line_;
        line_start_ = at_;
      }
    }
  }

  absl::Status Value(int depth, JsonValue* value) {
    if (depth > kMaxDepth) return Error("more than 64 levels");
    SkipSpace();
    value->line = line_;
    value->column = Column();
    switch (Peek()) {
      case '{':
        return Object(depth, value);
      case '[':
        return Array(depth, value);
      case '"':
        value->kind = JsonValue::Kind::kString;
        return String(&value->text);
      case 't':
        value->boolean = true;
        value->kind = JsonValue::Kind::kBool;
        return Word("true");
      case 'f':
        value->kind = JsonValue::Kind::kBool;
        return Word("false");
      case 'n':
        return Word("null");
      default:
        return Number(value);
    }
  }

  absl::Status Word(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return Error("expected a value");
    at_ += word.size();
    return absl::OkStatus();
  }

  absl::Status Number(JsonValue* value) {
    const size_t start = at_;
    while (at_ < text_.size() &&
           std::string_view("+-.eE0123456789").find(text_[at_]) != std::string_view::npos) {
      ++at_;
    }
    const std::string_view digits = text_.substr(start, at_ - start);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value->number);
    const std::string_view magnitude = digits.starts_with('-') ? digits.substr(1) : digits;
    const bool leading_zero =
        magnitude.size() > 1 && magnitude[0] == '0' && magnitude[1] >= '0' && magnitude[1] <= '9';
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() ||
        digits[0] == '+' || leading_zero) {
      at_ = start;
      return Error("expected a value");
    }
    value->kind = JsonValue::Kind::kNumber;
    value->text = std::string(digits);
    return absl::OkStatus();
  }

  absl::Status Array(int depth, JsonValue* value) {
    value->kind = JsonValue::Kind::kArray;
    ++at_;
    SkipSpace();
    if (Peek() == ']') {
      ++at_;
      return absl::OkStatus();
    }
    while (true) {
      GQ_RETURN_IF_ERROR(Value(depth + 1, &value->items.emplace_back()));
      SkipSpace();
      if (Peek() == ']') break;
      if (Peek() != ',') return Error("expected ',' or ']'");
      ++at_;
    }
    ++at_;
    return absl::OkStatus();
  }

  absl::Status Object(int depth, JsonValue* value) {
    value->kind = JsonValue::Kind::kObject;
    ++at_;
    SkipSpace();
    if (Peek() == '}') {
      ++at_;
      return absl::OkStatus();
    }
    while (true) {
      SkipSpace();
      if (Peek() != '"') return Error("expected a key in double quotes");
      std::string key;
      GQ_RETURN_IF_ERROR(String(&key));
      if (value->Find(key) != nullptr) return Error(StrCat("key \"", key, "\" is there twice"));
      SkipSpace();
      if (Peek() != ':') return Error("expected ':'");
      ++at_;
      JsonValue member;
      GQ_RETURN_IF_ERROR(Value(depth + 1, &member));
      value->members.emplace_back(std::move(key), std::move(member));
      SkipSpace();
      if (Peek() == '}') break;
      if (Peek() != ',') return Error("expected ',' or '}'");
      ++at_;
    }
    ++at_;
    return absl::OkStatus();
  }

  absl::Status String(std::string* text) {
    ++at_;
    while (true) {
      if (at_ >= text_.size()) return Error("text without its closing quote");
      const char c = text_[at_];
      if (c == '"') break;
      if (static_cast<unsigned char>(c) < 0x20) return Error("control character in a text");
      if (c != '\\') {
        text->push_back(c);
        ++at_;
        continue;
      }
      GQ_RETURN_IF_ERROR(Escape(text));
    }
    ++at_;
    return absl::OkStatus();
  }

  absl::Status Escape(std::string* text) {
    const char c = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    constexpr std::string_view kFrom = "\"\\/bfnrt";
    constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    if (const size_t place = kFrom.find(c); c != '\0' && place != std::string_view::npos) {
      text->push_back(kTo[place]);
      at_ += 2;
      return absl::OkStatus();
    }
    if (c != 'u') return Error("unknown escape in a text");
    uint32_t code = 0;
    if (!HexAt(at_ + 2, &code)) return Error("expected four hexadecimal digits");
    at_ += 6;
    if (code >= 0xD800 && code < 0xE000) {
      uint32_t low = 0;
      if (code >= 0xDC00 || !text_.substr(at_).starts_with("\\u") || !HexAt(at_ + 2, &low) ||
          low < 0xDC00 || low > 0xDFFF) {
        return Error("half of a surrogate pair");
      }
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      at_ += 6;
    }
    AppendUtf8(code, text);
    return absl::OkStatus();
  }

  bool HexAt(size_t start, uint32_t* code) const {
    if (start + 4 > text_.size()) return false;
    const char* first = text_.data() + start;
    const auto [end, error] = std::from_chars(first, first + 4, *code, 16);
    return error == std::errc() && end == first + 4;
  }

  static void AppendUtf8(uint32_t code, std::string* text) {
    if (code < 0x80) {
      text->push_back(static_cast<char>(code));
    } else if (code < 0x800) {
      text->push_back(static_cast<char>(0xC0 | code >> 6));
      text->push_back(static_cast<char>(0x80 | (code & 0x3F)));
    } else {
      if (code < 0x10000) {
        text->push_back(static_cast<char>(0xE0 | code >> 12));
      } else {
        text->push_back(static_cast<char>(0xF0 | code >> 18));
        text->push_back(static_cast<char>(0x80 | (code >> 12 & 0x3F)));
      }
      text->push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
      text->push_back(static_cast<char>(0x80 | (code & 0x3F)));
    }
  }

  std::string_view text_;
  std::string_view name_;
  size_t at_ = 0;
  size_t line_start_ = 0;
  int line_ = 1;
};

}  // namespace

const JsonValue* JsonValue::Find(std::string_view key) const {
  for (const auto& [name, value] : members) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::string_view JsonKindName(JsonValue::Kind kind) {
  switch (kind) {
    case JsonValue::Kind::kNull:
      return "null";
    case JsonValue::Kind::kBool:
      return "true or false";
    case JsonValue::Kind::kNumber:
      return "a number";
    case JsonValue::Kind::kString:
      return "a text";
    case JsonValue::Kind::kArray:
      return "a list";
    case JsonValue::Kind::kObject:
      return "an object";
  }
  return "";
}

absl::StatusOr<JsonValue> ParseJson(std::string_view text, std::string_view name) {
  return Parser(text, name).Run();
}

}  // namespace gq::quantize
