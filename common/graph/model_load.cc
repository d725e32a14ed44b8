#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/external_data.h"
#include "common/graph/graph_index.h"
#include "common/graph/mapped_file.h"
#include "common/graph/model.h"
#include "common/graph/normalize.h"
#include "common/graph/tensor_data.h"
#include "common/graph/text_check.h"
#include "onnx/defs/parser.h"
#include "onnx/defs/schema.h"

namespace gq::graph {
namespace {

using base::Reason;
using base::StrCat;

// Nesting of brackets that the text parser, which recurses, is given.
constexpr int kMaxTextDepth = 200;

constexpr char kHint[] = "Check that the file is complete and that it is an ONNX model.";

// What a file that is no model may be instead.
std::string GuessContent(std::string_view bytes) {
  if (bytes.starts_with("version https://git-lfs")) return "; it is a Git LFS pointer";
  if (bytes.starts_with("PK\x03\x04")) return "; it is a zip archive";
  if (bytes.starts_with("<!DOCTYPE") || bytes.starts_with("<html")) return "; it is a web page";
  if (bytes.starts_with("\x1f\x8b")) return "; it is a gzip file";
  return "";
}

absl::Status ParseBinary(std::string_view bytes, onnx::ModelProto* model) {
  // A message is limited to 2 GiB, larger files were refused before.
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetTotalBytesLimit(std::numeric_limits<int>::max());
  if (model->ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage()) {
    return absl::OkStatus();
  }
  return base::MakeError(Reason::kModelInvalid,
                         StrCat("not an ONNX model, or cut short: the ", bytes.size(),
                                " bytes are no complete protobuf message", GuessContent(bytes)),
                         kHint);
}

absl::Status CheckTextDepth(std::string_view text) {
  int depth = 0;
  int line = 1;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (c == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
    if (quoted) continue;
    if (c == '{' || c == '[' || c == '(' || c == '<') ++depth;
    if ((c == '}' || c == ']' || c == ')' || c == '>') && depth > 0) --depth;
    if (depth > kMaxTextDepth) {
      return base::MakeError(
          Reason::kModelInvalid,
          StrCat("line ", line, ": brackets nested deeper than ", kMaxTextDepth, " levels"));
    }
  }
  return absl::OkStatus();
}

absl::Status ParseText(std::string_view bytes, onnx::ModelProto* model) {
  GQ_RETURN_IF_ERROR(CheckTextDepth(bytes));
  const std::string text(bytes);
  try {
    const auto status = onnx::OnnxParser::Parse(*model, text.c_str());
    if (status.IsOK()) return absl::OkStatus();
    std::string message = status.ErrorMessage();
    std::replace(message.begin(), message.end(), '\n', ' ');
    return base::MakeError(Reason::kModelInvalid,
                           StrCat("not a model in ONNX text form: ", message),
                           "The text form is that of onnx.parser; see the line in the message.");
  } catch (const std::exception& error) {
    return base::MakeError(Reason::kModelInvalid,
                           StrCat("not a model in ONNX text form: ", error.what()));
  }
}

absl::Status CheckHeader(const onnx::ModelProto& model) {
  if (model.ir_version() <= 0 || !model.has_graph()) {
    return base::MakeError(
        Reason::kModelInvalid,
        StrCat("not an ONNX model: it has no ", model.has_graph() ? "IR version" : "graph"), kHint);
  }
  if (model.ir_version() > onnx::Version::IR_VERSION) {
    return base::MakeError(Reason::kModelUnsupported,
                           StrCat("IR version ", model.ir_version(), ", versions up to ",
                                  static_cast<int>(onnx::Version::IR_VERSION), " are supported"),
                           "Export the model with an older IR version.");
  }
  const auto& ranges = onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
  int64_t opset = model.ir_version() < 3 ? 1 : 0;
  for (const auto& import : model.opset_import()) {
    if (import.domain().empty() || import.domain() == "ai.onnx") opset = import.version();
  }
  const int64_t newest = ranges.at("").second;
  if (opset > newest) {
    return base::MakeError(Reason::kModelUnsupported,
                           StrCat("opset ", opset, ", opsets up to ", newest, " are supported"),
                           StrCat("Export the model with opset ", newest, " or older."));
  }
  return absl::OkStatus();
}

// Sizes of all tensors of a graph, its attributes and subgraphs.
class TensorCheck {
 public:
  explicit TensorCheck(int64_t limit) : limit_(limit) {}

  absl::Status Graph(const onnx::GraphProto& graph) {
    for (const auto& tensor : graph.initializer()) GQ_RETURN_IF_ERROR(Tensor(tensor));
    for (const auto& node : graph.node()) {
      for (const auto& attribute : node.attribute()) {
        absl::Status status = Attribute(attribute);
        if (!status.ok()) return base::AddContext(status, Describe(node));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Attribute(const onnx::AttributeProto& attribute) {
    if (attribute.has_t()) GQ_RETURN_IF_ERROR(Tensor(attribute.t()));
    for (const auto& tensor : attribute.tensors()) GQ_RETURN_IF_ERROR(Tensor(tensor));
    if (attribute.has_g()) GQ_RETURN_IF_ERROR(Graph(attribute.g()));
    for (const auto& graph : attribute.graphs()) GQ_RETURN_IF_ERROR(Graph(graph));
    return absl::OkStatus();
  }

  absl::Status Tensor(const onnx::TensorProto& tensor) {
    GQ_RETURN_IF_ERROR(ValidateTensor(tensor));
    if (tensor.data_type() == onnx::TensorProto::STRING) return absl::OkStatus();
    GQ_ASSIGN_OR_RETURN(const int64_t bytes, TensorBytes(tensor));
    if (bytes > limit_ - total_) {
      return base::MakeError(Reason::kModelTooLarge,
                             StrCat("the tensors of the model need more than ", limit_, " bytes"));
    }
    total_ += bytes;
    return absl::OkStatus();
  }

  int64_t limit_;
  int64_t total_ = 0;
};

absl::Status InlineExternal(ExternalDataReader* reader, onnx::TensorProto* tensor) {
  if (tensor->data_location() != onnx::TensorProto::EXTERNAL) return absl::OkStatus();
  GQ_ASSIGN_OR_RETURN(const Buffer buffer, reader->Read(*tensor));
  ClearData(tensor);
  tensor->set_raw_data(buffer.bytes.data(), buffer.bytes.size());
  return absl::OkStatus();
}

// Tensors in attributes and subgraphs become part of the message.
absl::Status InlineExternalIn(ExternalDataReader* reader, bool main, onnx::GraphProto* graph) {
  for (auto& tensor : *graph->mutable_initializer()) {
    if (!main) GQ_RETURN_IF_ERROR(InlineExternal(reader, &tensor));
  }
  for (auto& node : *graph->mutable_node()) {
    absl::Status status;
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t()) status.Update(InlineExternal(reader, attribute.mutable_t()));
      for (auto& tensor : *attribute.mutable_tensors()) {
        status.Update(InlineExternal(reader, &tensor));
      }
    }
    ForEachMutableSubgraph(&node, [&](auto* inner) {
      if (status.ok()) status = InlineExternalIn(reader, /*main=*/false, inner);
    });
    GQ_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

// Reads the external data of a message into a model.
absl::StatusOr<Model> Resolve(onnx::ModelProto proto, const std::filesystem::path& folder) {
  ExternalDataReader reader(folder);
  GQ_RETURN_IF_ERROR(InlineExternalIn(&reader, /*main=*/true, proto.mutable_graph()));
  std::vector<std::pair<int, Buffer>> buffers;
  auto* initializers = proto.mutable_graph()->mutable_initializer();
  for (int i = 0; i < initializers->size(); ++i) {
    auto* tensor = initializers->Mutable(i);
    if (tensor->data_location() != onnx::TensorProto::EXTERNAL) continue;
    GQ_ASSIGN_OR_RETURN(Buffer buffer, reader.Read(*tensor));
    if (static_cast<int64_t>(buffer.bytes.size()) < kStoreThreshold) {
      GQ_RETURN_IF_ERROR(InlineExternal(&reader, tensor));
    } else {
      buffers.emplace_back(i, std::move(buffer));
    }
  }
  // FromProto takes data inside the message only: the external tensors get their data after it.
  std::vector<std::vector<int64_t>> dims;
  for (const auto& [i, buffer] : buffers) {
    auto* tensor = initializers->Mutable(i);
    dims.push_back(Dims(*tensor));
    ClearData(tensor);
    tensor->clear_dims();
    tensor->add_dims(0);
  }
  GQ_ASSIGN_OR_RETURN(Model model, Model::FromProto(std::move(proto)));
  for (size_t j = 0; j < buffers.size(); ++j) {
    auto* tensor = model.mutable_graph()->mutable_initializer(buffers[j].first);
    model.SetData(
        TensorView(tensor->data_type(), dims[j], buffers[j].second.bytes, buffers[j].second.owner),
        tensor);
  }
  if (!reader.first_location().empty()) {
    model.set_layout(DataLayout::kExternalFile);
    model.set_external_file(reader.first_location());
  }
  return model;
}

absl::StatusOr<Model> LoadFrom(std::string_view bytes, bool text,
                               const std::filesystem::path& folder, const LoadOptions& options) {
  if (bytes.empty()) return base::MakeError(Reason::kModelInvalid, "the file is empty", kHint);
  const int64_t limit =
      std::min<int64_t>(options.max_proto_bytes, std::numeric_limits<int32_t>::max());
  if (static_cast<int64_t>(bytes.size()) > limit) {
    return base::MakeError(Reason::kModelTooLarge,
                           StrCat("the file has ", bytes.size(), " bytes, at most ", limit,
                                  " are read; external data does not count"),
                           "Save the model with external data.");
  }
  onnx::ModelProto proto;
  GQ_RETURN_IF_ERROR(text ? ParseText(bytes, &proto) : ParseBinary(bytes, &proto));
  GQ_RETURN_IF_ERROR(CheckHeader(proto));
  GQ_RETURN_IF_ERROR(CheckText(proto));
  GQ_RETURN_IF_ERROR(TensorCheck(options.max_total_bytes).Graph(proto.graph()));
  std::vector<std::string> notes;
  if (options.normalize) GQ_RETURN_IF_ERROR(NormalizeModel(&proto, &notes));
  GQ_ASSIGN_OR_RETURN(Model model, Resolve(std::move(proto), folder));
  for (auto& note : notes) model.AddNote(std::move(note));
  if (options.check) GQ_RETURN_IF_ERROR(CheckModel(model));
  return model;
}

}  // namespace

absl::StatusOr<Model> LoadModel(const std::filesystem::path& path, const LoadOptions& options) {
  GQ_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  const std::string_view bytes(reinterpret_cast<const char*>(file->bytes().data()),
                               file->bytes().size());
  auto model = LoadFrom(bytes, path.extension() == ".onnxtxt", path.parent_path(), options);
  if (!model.ok()) return base::AddContext(model.status(), path.filename().string());
  return model;
}

absl::StatusOr<Model> LoadModelFromBytes(std::string_view bytes, std::string_view name,
                                         const LoadOptions& options) {
  // The folder does not exist: a model from memory has no files beside it.
  auto model = LoadFrom(bytes, name.ends_with(".onnxtxt"), "/nonexistent", options);
  if (!model.ok()) return base::AddContext(model.status(), name);
  return model;
}

}  // namespace gq::graph
