#include "common/job/run_file_reader.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::job {

using base::StrCat;
using Kind = YamlNode::Kind;

YamlPlace YamlPlace::At(std::string_view key) const {
  return {node->Find(key), file, path.empty() ? std::string(key) : StrCat(path, ".", key)};
}

YamlPlace YamlPlace::At(size_t index) const {
  return {&node->items[index], file, StrCat(path, "[", index, "]")};
}

std::string YamlPlace::Where() const {
  return StrCat(file, ":", node->line, ":", node->column, ": ", path);
}

absl::Status YamlPlace::Error(std::string_view what, std::string_view hint,
                              base::Reason reason) const {
  const std::string shown =
      node->kind == Kind::kScalar ? StrCat(" '", node->text, "'") : std::string();
  return base::MakeError(
      reason, StrCat(Where(), shown, ": ", what),
      hint.empty() ? "'gq init' writes a file with every key and its legal values" : hint);
}

absl::Status YamlPlace::Expect(Kind kind) const {
  if (node->kind == kind) return absl::OkStatus();
  return Error(StrCat("expected ", YamlKindName(kind), ", found ", YamlKindName(node->kind)));
}

absl::Status YamlPlace::ExpectKeys(const std::vector<std::string>& keys) const {
  GQ_RETURN_IF_ERROR(Expect(Kind::kMap));
  for (const auto& [key, value] : node->entries) {
    if (std::find(keys.begin(), keys.end(), key.text) != keys.end()) continue;
    const YamlPlace place = {&key, file, path.empty() ? key.text : StrCat(path, ".", key.text)};
    const auto closest = base::ClosestNames(key.text, keys, 1);
    return base::MakeError(base::Reason::kConfigInvalid,
                           StrCat(place.Where(), ": unknown key; expected ",
                                  keys.size() <= 12 ? StrCat("one of ", base::StrJoin(keys, ", "))
                                                    : std::string("a key that 'gq init' lists")),
                           closest.empty() ? std::string("'gq init' writes a file with every key")
                                           : StrCat("did you mean ", closest[0], "?"));
  }
  return absl::OkStatus();
}

bool YamlPlace::Has(std::string_view key) const {
  const YamlNode* found = node->kind == Kind::kMap ? node->Find(key) : nullptr;
  return found != nullptr && found->kind != Kind::kNull;
}

absl::StatusOr<std::string> YamlPlace::Text() const {
  GQ_RETURN_IF_ERROR(Expect(Kind::kScalar));
  return node->text;
}

absl::StatusOr<std::string> YamlPlace::OneOf(const std::vector<std::string>& legal) const {
  GQ_ASSIGN_OR_RETURN(std::string text, Text());
  if (std::find(legal.begin(), legal.end(), text) != legal.end()) return text;
  return Error(StrCat("expected ", legal.size() > 1 ? "one of " : "", base::StrJoin(legal, ", ")));
}

absl::StatusOr<double> YamlPlace::Number(double above, double up_to,
                                         std::string_view expected) const {
  GQ_ASSIGN_OR_RETURN(const std::string text, Text());
  double value = 0;
  const bool fits = !node->quoted && absl::SimpleAtod(text, &value) && std::isfinite(value) &&
                    value > above && value <= up_to;
  if (!fits) return Error(StrCat("expected ", expected));
  return value;
}

absl::StatusOr<int64_t> YamlPlace::Integer(std::string_view expected) const {
  GQ_ASSIGN_OR_RETURN(const std::string text, Text());
  int64_t value = 0;
  if (node->quoted || !absl::SimpleAtoi(text, &value)) return Error(StrCat("expected ", expected));
  return value;
}

absl::StatusOr<bool> YamlPlace::Flag() const {
  GQ_ASSIGN_OR_RETURN(const std::string text, Text());
  for (const char* yes : {"true", "True", "TRUE", "yes", "on"}) {
    if (text == yes && !node->quoted) return true;
  }
  for (const char* no : {"false", "False", "FALSE", "no", "off"}) {
    if (text == no && !node->quoted) return false;
  }
  return Error("expected true or false");
}

absl::StatusOr<std::vector<std::string>> YamlPlace::Texts() const {
  std::vector<std::string> texts;
  if (node->kind == Kind::kScalar) {
    texts.push_back(node->text);
    return texts;
  }
  GQ_RETURN_IF_ERROR(Expect(Kind::kList));
  for (size_t i = 0; i < node->items.size(); ++i) {
    GQ_ASSIGN_OR_RETURN(std::string text, At(i).Text());
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace gq::job
