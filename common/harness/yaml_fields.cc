#include "common/harness/yaml_fields.h"

#include "common/base/file.h"
#include "common/base/status.h"

namespace gq::harness {

using base::MakeError;
using base::Reason;
using base::StrCat;

absl::StatusOr<YAML::Node> YamlFields::Load(size_t limit) const {
  GQ_ASSIGN_OR_RETURN(const std::string text, base::ReadFile(file_, limit));
  try {
    return YAML::Load(text);
  } catch (const YAML::Exception& e) {
    return MakeError(Reason::kConfigInvalid, StrCat(file_.string(), ": ", e.what()), hint_);
  }
}

absl::StatusOr<std::string> YamlFields::Key(const YAML::Node& key) const {
  if (key.IsScalar()) return key.Scalar();
  return Bad(key, "a key must be a plain name");
}

absl::Status YamlFields::UnknownKey(const YAML::Node& key,
                                    const std::vector<std::string>& known) const {
  const std::string& name = key.Scalar();
  const auto close = base::ClosestNames(name, known, 1);
  return MakeError(Reason::kConfigInvalid, StrCat(Place(key), "unknown key '", name, "'"),
                   close.empty() ? StrCat("Keys: ", base::StrJoin(known, ", "), ".")
                                 : StrCat("Did you mean ", close.front(), "?"));
}

absl::Status YamlFields::Bad(const YAML::Node& node, std::string_view what) const {
  return MakeError(Reason::kConfigInvalid, StrCat(Place(node), what), hint_);
}

std::string YamlFields::Place(const YAML::Node& node) const {
  return StrCat(file_.string(), ":", node.Mark().line + 1, ": ");
}

}  // namespace gq::harness
