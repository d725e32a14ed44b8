#include "common/graph/text_check.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::graph {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Bytes of the character at the beginning of `text`; 0 when it is none (RFC 3629: no overlong
// forms, no surrogates, nothing beyond U+10FFFF).
size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t count = first < 0xC2   ? 0
                       : first < 0xE0 ? 2
                       : first < 0xF0 ? 3
                       : first < 0xF5 ? 4
                                      : 0;
  if (count == 0 || text.size() < count) return 0;
  for (size_t i = 1; i < count; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) ||
      (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) {
    return 0;
  }
  return count;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

// The text with every byte that is none written as \xNN.
std::string Escaped(std::string_view text) {
  constexpr size_t kShown = 80;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string shown;
  while (!text.empty() && shown.size() < kShown) {
    const size_t bytes = CharacterBytes(text);
    if (bytes == 0) {
      const auto byte = static_cast<unsigned char>(text[0]);
      shown += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      shown += text.substr(0, bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return shown;
}

absl::Status Check(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  const auto* reflection = message.GetReflection();
  for (const auto* field : fields) {
    const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      for (int i = 0; i < count; ++i) {
        GQ_RETURN_IF_ERROR(Check(field->is_repeated()
                                     ? reflection->GetRepeatedMessage(message, field, i)
                                     : reflection->GetMessage(message, field)));
      }
    } else if (field->type() == FieldDescriptor::TYPE_STRING) {
      std::string scratch;
      for (int i = 0; i < count; ++i) {
        const std::string& text =
            field->is_repeated()
                ? reflection->GetRepeatedStringReference(message, field, i, &scratch)
                : reflection->GetStringReference(message, field, &scratch);
        if (IsUtf8(text)) continue;
        return base::MakeError(
            base::Reason::kModelInvalid,
            base::StrCat("the ", std::string(field->name()), " '", Escaped(text), "' of a ",
                         std::string(message.GetDescriptor()->name()), " is no UTF-8 text"),
            "Export the model with names in UTF-8.");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckText(const onnx::ModelProto& model) { return Check(model); }

}  // namespace gq::graph
