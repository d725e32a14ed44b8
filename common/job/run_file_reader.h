// Checked access to a YAML tree: every error names file, line, column and path.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/reason.h"
#include "common/job/yaml_tree.h"

namespace gq::job {

// A node and the path that leads to it.
struct YamlPlace {
  const YamlNode* node;
  std::string file;
  std::string path;  // `steps[1].graph_quantize[0].scheme`

  YamlPlace At(std::string_view key) const;  // of a mapping that has it
  YamlPlace At(size_t index) const;          // of a list
  std::string Where() const;                 // `run.yaml:4:13: steps[1]`
  absl::Status Error(std::string_view what, std::string_view hint = "",
                     base::Reason reason = base::Reason::kConfigInvalid) const;

  bool IsNull() const { return node->kind == YamlNode::Kind::kNull; }
  // CONFIG_INVALID unless the node is of this kind.
  absl::Status Expect(YamlNode::Kind kind) const;
  // CONFIG_INVALID for a key of the mapping that is not among `keys`, with the closest of them.
  absl::Status ExpectKeys(const std::vector<std::string>& keys) const;
  bool Has(std::string_view key) const;  // and is not null

  absl::StatusOr<std::string> Text() const;
  absl::StatusOr<std::string> OneOf(const std::vector<std::string>& legal) const;
  absl::StatusOr<double> Number(double above, double up_to, std::string_view expected) const;
  absl::StatusOr<int64_t> Integer(std::string_view expected) const;
  absl::StatusOr<bool> Flag() const;
  absl::StatusOr<std::vector<std::string>> Texts() const;  // a value, or a list of values
};

}  // namespace gq::job
