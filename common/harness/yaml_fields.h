// Reading a small YAML file of known keys: a value of a wrong kind or an unknown key is an error
// that names the file, the line and what was expected.
#pragma once

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/text.h"

namespace gq::harness {

// Errors are CONFIG_INVALID and end with `hint`, where they have none of their own.
class YamlFields {
 public:
  explicit YamlFields(std::filesystem::path file, std::string hint = "")
      : file_(std::move(file)), hint_(std::move(hint)) {}

  // Reads the file, of at most `limit` bytes. Also the errors of base::ReadFile.
  absl::StatusOr<YAML::Node> Load(size_t limit) const;

  // Reads the value of `key`; `expected` names its kind, as in "a list of texts".
  template <typename T>
  absl::Status Get(const YAML::Node& value, std::string_view key, std::string_view expected,
                   T& field) const {
    try {
      field = value.as<T>();
      return absl::OkStatus();
    } catch (const YAML::Exception&) {
      return Bad(value, base::StrCat(key, ": expected ", expected));
    }
  }

  // The name of a key. CONFIG_INVALID when it is no plain name.
  absl::StatusOr<std::string> Key(const YAML::Node& key) const;

  absl::Status UnknownKey(const YAML::Node& key, const std::vector<std::string>& known) const;
  absl::Status Bad(const YAML::Node& node, std::string_view what) const;

 private:
  std::string Place(const YAML::Node& node) const;

  std::filesystem::path file_;
  std::string hint_;
};

}  // namespace gq::harness
