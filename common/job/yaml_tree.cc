#include "common/job/yaml_tree.h"

#include <exception>
#include <sstream>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/exceptions.h"
#include "yaml-cpp/mark.h"
#include "yaml-cpp/parser.h"

namespace gq::job {
namespace {

using base::StrCat;

// Leaves the parser of the library, which knows no other way to stop.
struct Stop : std::exception {
  Stop(const YAML::Mark& where, std::string text)
      : line(where.line + 1), column(where.column + 1), what_text(std::move(text)) {}
  const char* what() const noexcept override { return what_text.c_str(); }
  int line, column;
  std::string what_text;
};

class Builder : public YAML::EventHandler {
 public:
  YamlNode TakeRoot() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Add(Node(mark, "?", anchor, YamlNode::Kind::kNull));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Stop(mark, "aliases (*name) are not taken; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node = Node(mark, tag, anchor, YamlNode::Kind::kScalar);
    node.text = value;
    node.quoted = tag == "!";
    const bool null = !node.quoted && (value == "null" || value == "~" || value == "Null" ||
                                       value == "NULL" || value.empty());
    if (null) node.kind = YamlNode::Kind::kNull;
    Add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(Node(mark, tag, anchor, YamlNode::Kind::kList), mark);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(Node(mark, tag, anchor, YamlNode::Kind::kMap), mark);
  }
  void OnMapEnd() override { Close(); }

 private:
  struct Level {
    YamlNode node;
    YamlNode key;
    bool has_key = false;
  };

  YamlNode Node(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                YamlNode::Kind kind) {
    if (++count_ > kMaxYamlNodes) {
      throw Stop(mark, StrCat("more than ", kMaxYamlNodes, " values"));
    }
    if (anchor != 0) throw Stop(mark, "anchors (&name) are not taken; write the value out");
    if (!tag.empty() && tag != "?" && tag != "!") {
      throw Stop(mark, StrCat("the tag '", tag, "' is not taken; leave it out"));
    }
    YamlNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    return node;
  }

  void Open(YamlNode node, const YAML::Mark& mark) {
    if (static_cast<int>(levels_.size()) >= kMaxYamlDepth) {
      throw Stop(mark, StrCat("more than ", kMaxYamlDepth, " levels"));
    }
    levels_.push_back({std::move(node), {}, false});
  }

  void Close() {
    YamlNode node = std::move(levels_.back().node);
    levels_.pop_back();
    Add(std::move(node));
  }

  void Add(YamlNode node) {
    if (levels_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = levels_.back();
    if (level.node.kind == YamlNode::Kind::kList) {
      level.node.items.push_back(std::move(node));
      return;
    }
    if (level.has_key) {
      level.node.entries.push_back({std::move(level.key), std::move(node)});
      level.has_key = false;
      return;
    }
    const YAML::Mark where = MarkOf(node);
    if (node.kind != YamlNode::Kind::kScalar) throw Stop(where, "a key must be a plain name");
    if (const YamlNode* before = level.node.Find(node.text)) {
      (void)before;
      throw Stop(where, StrCat("the key '", node.text, "' stands here twice"));
    }
    level.key = std::move(node);
    level.has_key = true;
  }

  static YAML::Mark MarkOf(const YamlNode& node) {
    YAML::Mark mark;
    mark.line = node.line - 1;
    mark.column = node.column - 1;
    return mark;
  }

  YamlNode root_;
  std::vector<Level> levels_;
  int count_ = 0;
};

absl::Status Invalid(std::string_view file, int line, int column, std::string_view what) {
  return base::MakeError(base::Reason::kConfigInvalid,
                         StrCat(file, ":", line, ":", column, ": ", what),
                         "'gq init' writes a file with every key and its legal values");
}

}  // namespace

const YamlNode* YamlNode::Find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name.text == key) return &value;
  }
  return nullptr;
}

std::string_view YamlKindName(YamlNode::Kind kind) {
  switch (kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kScalar:
      return "a value";
    case YamlNode::Kind::kList:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a mapping";
  }
  return "nothing";
}

absl::StatusOr<YamlNode> ParseYaml(std::string_view text, std::string_view file) {
  if (text.size() > kMaxYamlBytes) {
    return Invalid(
        file, 1, 1,
        StrCat("the file has ", text.size(), " bytes, at most ", kMaxYamlBytes, " are read"));
  }
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return Invalid(file, 1, 1, "the file holds a zero byte; expected text");
  }
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    Builder builder;
    if (!parser.HandleNextDocument(builder)) return YamlNode{.line = 1, .column = 1};
    Builder rest;
    if (parser.HandleNextDocument(rest)) {
      return Invalid(file, 1, 1, "the file holds several documents; expected one");
    }
    return builder.TakeRoot();
  } catch (const Stop& stop) {
    return Invalid(file, stop.line, stop.column, stop.what());
  } catch (const YAML::Exception& error) {
    return Invalid(file, error.mark.line + 1, error.mark.column + 1, error.msg);
  } catch (const std::exception& error) {
    return Invalid(file, 1, 1, error.what());
  }
}

}  // namespace gq::job
