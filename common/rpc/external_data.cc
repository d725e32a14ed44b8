#include "common/rpc/external_data.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <utility>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/step_layout.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl.h"
#include "google/protobuf/wire_format_lite.h"

namespace gq::rpc {
namespace {

using base::MakeError;
using base::Reason;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr size_t kMaxFiles = 10000;
constexpr int kMaxDepth = 100;
constexpr uint32_t kMaxEntryBytes = 1 << 16;

enum Kind {
  kModel,
  kTraining,
  kFunction,
  kGraph,
  kNode,
  kAttribute,
  kSparseTensor,
  kTensor,
  kEntry
};

struct Child {
  int field;
  Kind kind;
};

// The fields of onnx.proto that lead to a tensor.
std::span<const Child> ChildrenOf(Kind kind) {
  static constexpr std::array kOfModel = {Child{7, kGraph}, Child{20, kTraining},
                                          Child{25, kFunction}};
  static constexpr std::array kOfTraining = {Child{1, kGraph}, Child{2, kGraph}};
  static constexpr std::array kOfFunction = {Child{7, kNode}, Child{11, kAttribute}};
  static constexpr std::array kOfGraph = {Child{1, kNode}, Child{5, kTensor},
                                          Child{15, kSparseTensor}};
  static constexpr std::array kOfNode = {Child{5, kAttribute}};
  static constexpr std::array kOfAttribute = {Child{5, kTensor},        Child{6, kGraph},
                                              Child{10, kTensor},       Child{11, kGraph},
                                              Child{22, kSparseTensor}, Child{23, kSparseTensor}};
  static constexpr std::array kOfSparseTensor = {Child{1, kTensor}, Child{2, kTensor}};
  static constexpr std::array kOfTensor = {Child{13, kEntry}};
  switch (kind) {
    case kModel:
      return kOfModel;
    case kTraining:
      return kOfTraining;
    case kFunction:
      return kOfFunction;
    case kGraph:
      return kOfGraph;
    case kNode:
      return kOfNode;
    case kAttribute:
      return kOfAttribute;
    case kSparseTensor:
      return kOfSparseTensor;
    case kTensor:
      return kOfTensor;
    case kEntry:
      break;
  }
  return {};
}

class Scanner {
 public:
  explicit Scanner(CodedInputStream& in) : in_(in) {}

  // False when the bytes are no such message.
  bool Scan(Kind kind, int depth = 0) {
    if (depth > kMaxDepth) return false;
    if (kind == kEntry) return ScanEntry();
    while (const uint32_t tag = in_.ReadTag()) {
      const int field = WireFormatLite::GetTagFieldNumber(tag);
      const auto children = ChildrenOf(kind);
      const auto child = std::find_if(children.begin(), children.end(),
                                      [&](const Child& c) { return c.field == field; });
      if (child == children.end() ||
          WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
        if (!WireFormatLite::SkipField(&in_, tag)) return false;
        continue;
      }
      found_graph_ |= child->kind == kGraph;
      int length;
      if (!in_.ReadVarintSizeAsInt(&length)) return false;
      const auto limit = in_.PushLimit(length);
      if (!Scan(child->kind, depth + 1)) return false;
      in_.PopLimit(limit);
    }
    return in_.ConsumedEntireMessage();
  }

  bool found_graph() const { return found_graph_; }
  std::vector<std::string> TakeLocations() { return std::move(locations_); }

 private:
  bool ScanEntry() {
    std::string key;
    std::string value;
    while (const uint32_t tag = in_.ReadTag()) {
      const int field = WireFormatLite::GetTagFieldNumber(tag);
      const bool is_text =
          WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
      if (!is_text || field > 2) {
        if (!WireFormatLite::SkipField(&in_, tag)) return false;
        continue;
      }
      uint32_t length;
      if (!in_.ReadVarint32(&length) || length > kMaxEntryBytes) return false;
      if (!in_.ReadString(field == 1 ? &key : &value, static_cast<int>(length))) return false;
    }
    if (key == "location") locations_.push_back(value);
    return in_.ConsumedEntireMessage();
  }

  CodedInputStream& in_;
  bool found_graph_ = false;
  std::vector<std::string> locations_;
};

// Locations in the text form of a model: `["location": "weights.bin", ...]`.
std::vector<std::string> LocationsInText(std::string_view text) {
  constexpr std::string_view kKey = "\"location\"";
  std::vector<std::string> locations;
  for (size_t at = text.find(kKey); at != std::string_view::npos; at = text.find(kKey, at)) {
    at += kKey.size();
    const size_t colon = text.find_first_not_of(" \t\r\n", at);
    if (colon == std::string_view::npos || text[colon] != ':') continue;
    const size_t open = text.find_first_not_of(" \t\r\n", colon + 1);
    if (open == std::string_view::npos || text[open] != '"') continue;
    const size_t close = text.find('"', open + 1);
    if (close == std::string_view::npos) break;
    locations.emplace_back(text.substr(open + 1, close - open - 1));
    at = close + 1;
  }
  return locations;
}

absl::StatusOr<std::vector<std::string>> LocationsInFile(const std::filesystem::path& path) {
  if (path.extension() == ".onnxtxt") {
    GQ_ASSIGN_OR_RETURN(const std::string text, base::ReadFile(path));
    return LocationsInText(text);
  }
  base::FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    return MakeError(Reason::kFileUnreadable, base::StrCat(path.string(), ": cannot be opened"));
  }
  google::protobuf::io::FileInputStream file(fd.get());
  CodedInputStream in(&file);
  Scanner scanner(in);
  if (!scanner.Scan(kModel) || !scanner.found_graph()) {
    return MakeError(Reason::kModelInvalid,
                     base::StrCat(path.string(), ": not an ONNX model, or damaged"),
                     "Give a file written by an ONNX exporter; check it with onnx.checker.");
  }
  return scanner.TakeLocations();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ListExternalDataFiles(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return MakeError(Reason::kFileNotFound, base::StrCat(path.string(), ": no such file"),
                     "Check the path of the model.");
  }
  if (!std::filesystem::is_regular_file(path, error)) {
    return MakeError(Reason::kFileUnreadable, base::StrCat(path.string(), ": not a file"));
  }
  GQ_ASSIGN_OR_RETURN(std::vector<std::string> locations, LocationsInFile(path));
  std::set<std::string> seen;
  std::vector<std::string> files;
  for (const std::string& location : locations) {
    const std::string normal = std::filesystem::path(location).lexically_normal().string();
    if (!IsSafeRelativePath(normal)) {
      return MakeError(Reason::kExternalDataInvalid,
                       base::StrCat(path.string(), ": external data at '", location,
                                    "' lies outside the folder of the model"),
                       "Save the model with its external data beside it.");
    }
    if (seen.insert(normal).second) files.push_back(normal);
    if (files.size() > kMaxFiles) {
      return MakeError(
          Reason::kExternalDataInvalid,
          base::StrCat(path.string(), ": more than ", kMaxFiles, " external data files"),
          "Save the model with all external data in one file.");
    }
  }
  return files;
}

}  // namespace gq::rpc
