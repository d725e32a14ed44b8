// A YAML file as a tree that knows where everything stands, read with limits, so that a file of
// unknown origin costs neither memory nor time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace gq::job {

struct YamlEntry;

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  std::string text;     // kScalar
  bool quoted = false;  // a quoted scalar is text whatever it looks like
  int line = 0;         // from 1
  int column = 0;
  std::vector<YamlNode> items;                       // kList
  std::vector<YamlEntry> entries;                    // kMap; keys are scalars, each once
  const YamlNode* Find(std::string_view key) const;  // kMap; null when absent
};

struct YamlEntry {
  YamlNode key;
  YamlNode value;
};

std::string_view YamlKindName(YamlNode::Kind kind);  // "nothing", "a value", "a list", "a mapping"

inline constexpr size_t kMaxYamlBytes = 1 << 20;
inline constexpr int kMaxYamlDepth = 32;
inline constexpr int kMaxYamlNodes = 100'000;

// Parses one document. `file` leads the messages: `run.yaml:3:5: ...`. CONFIG_INVALID for text that
// is no YAML, duplicate keys, keys that are no scalars, anchors, aliases and tags, a second
// document, and beyond the limits.
absl::StatusOr<YamlNode> ParseYaml(std::string_view text, std::string_view file);

}  // namespace gq::job
