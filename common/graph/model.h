// The one in-memory form of a model: a small onnx::ModelProto and, outside of it, the bytes of the
// large tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/graph/tensor_store.h"
#include "common/graph/tensor_view.h"
#include "onnx/onnx_pb.h"

namespace gq::graph {

// How a model lies, or shall lie, on disk.
enum class DataLayout {
  kInline,        // everything in the .onnx file
  kExternalFile,  // large tensors together in one file beside it
};

// Cheap to copy: the bytes of initializers of kStoreThreshold bytes or more are shared between
// copies and are never written. In proto() such a tensor has data_location EXTERNAL, location
// "gq:store" and a key; read it with Data(). Only initializers of the main graph live in the store;
// tensors in attributes and subgraphs stay in the proto.
//
// Edits work on the proto directly (mutable_graph(), edits.h); new or changed data goes through
// SetData or MakeInitializer. Not thread-safe for writing; const use from many threads is fine.
class Model {
 public:
  Model() = default;

  // Takes a message whose tensors hold their data (no external data) and moves large initializers
  // into the store. MODEL_INVALID when a tensor's data does not fit its type and dims.
  static absl::StatusOr<Model> FromProto(onnx::ModelProto proto);

  const onnx::ModelProto& proto() const { return proto_; }
  onnx::ModelProto* mutable_proto() { return &proto_; }
  const onnx::GraphProto& graph() const { return proto_.graph(); }
  onnx::GraphProto* mutable_graph() { return proto_.mutable_graph(); }
  const TensorStore& store() const { return store_; }
  TensorStore* mutable_store() { return &store_; }

  // Version of the default domain; 0 when the model does not import it.
  int64_t Opset() const { return OpsetOf(""); }
  // Version that is imported for `domain` ("" and "ai.onnx" are the same); 0 for none.
  int64_t OpsetOf(std::string_view domain) const;
  // Adds or changes an opset import.
  void SetOpset(std::string_view domain, int64_t version);

  // The elements of a tensor of this model (an initializer or an attribute's tensor, in raw, typed
  // or stored form). MODEL_INVALID when data and dims disagree, MODEL_UNSUPPORTED for strings.
  absl::StatusOr<TensorView> Data(const onnx::TensorProto& tensor) const;

  // Bytes of the tensor's data without reading it; 0 for strings.
  int64_t DataBytes(const onnx::TensorProto& tensor) const;

  // Replaces type, dims and data of `tensor`, which must be part of this model (name and doc string
  // stay). Large data is shared with the view, not copied.
  void SetData(const TensorView& data, onnx::TensorProto* tensor);

  // Adds an initializer to the main graph. The name must not be taken (NameScope in edits.h). The
  // pointer stays valid until initializers are removed.
  onnx::TensorProto* AddInitializer(std::string_view name, const TensorView& data);

  // Finds an initializer of the main graph; null when there is none. Linear: use GraphIndex for
  // many look-ups.
  const onnx::TensorProto* FindInitializer(std::string_view name) const;

  // Drops bytes that no initializer refers to any more.
  void CompactStore();

  // A message with all data inside, as other tools want it. MODEL_TOO_LARGE at 2 GiB or more.
  absl::StatusOr<onnx::ModelProto> ToInlineProto() const;

  // A message without the bytes of the store: every stored initializer is a graph input of its type
  // and shape instead. What the onnx checker, shape inference and version converter get to see.
  onnx::ModelProto ToProtoWithStoredAsInputs() const;

  // SHA-256 over the graph and all data in hexadecimal: equal for equal models however they lie on
  // disk or in memory.
  std::string Digest() const;

  // How the model was found on disk.
  DataLayout layout() const { return layout_; }
  void set_layout(DataLayout layout) { layout_ = layout; }
  // Name of the external-data file relative to the model's folder; empty for kInline.
  const std::string& external_file() const { return external_file_; }
  void set_external_file(std::string name) { external_file_ = std::move(name); }

  // What was noticed or changed while loading, one sentence each, for log and report.
  const std::vector<std::string>& notes() const { return notes_; }
  void AddNote(std::string note) { notes_.push_back(std::move(note)); }

 private:
  onnx::ModelProto proto_;
  TensorStore store_;
  DataLayout layout_ = DataLayout::kInline;
  std::string external_file_;
  std::vector<std::string> notes_;
};

struct LoadOptions {
  // Runs the onnx checker (full check) and strict shape inference.
  bool check = true;
  // Brings the model into the form that the rest of the engine expects (normalize.h): functions
  // inlined, Constant nodes as initializers, node names present and unique, constants no longer
  // listed as inputs.
  bool normalize = true;
  // Largest message that is parsed, and most bytes of all tensors together.
  int64_t max_proto_bytes = int64_t{2} << 30;
  int64_t max_total_bytes = int64_t{256} << 30;
};

// Loads `.onnx` (binary) or `.onnxtxt` (text). External data is mapped, not read; its files must
// lie inside the model's folder. Errors: FILE_NOT_FOUND, FILE_UNREADABLE, MODEL_INVALID (with node
// and tensor names), MODEL_UNSUPPORTED (newer IR or opset than known, sparse initializers),
// MODEL_TOO_LARGE, EXTERNAL_DATA_INVALID. Blocks.
absl::StatusOr<Model> LoadModel(const std::filesystem::path& path, const LoadOptions& options = {});

// The same from memory, for a model without external data. `name` stands for the file in messages.
absl::StatusOr<Model> LoadModelFromBytes(std::string_view bytes, std::string_view name,
                                         const LoadOptions& options = {});

// Runs the onnx checker with full check. MODEL_INVALID with its message.
absl::Status CheckModel(const Model& model);

struct SaveOptions {
  DataLayout layout = DataLayout::kInline;
  // Name of the data file for kExternalFile; empty: the model's file name + ".data".
  std::string external_file;
};

// Writes the model (and its data file) so that a reader never sees half a file: written beside the
// target, synced, renamed. A model of 2 GiB or more gets external data whatever the layout says.
// FILE_UNWRITABLE, DISK_FULL.
absl::Status SaveModel(const Model& model, const std::filesystem::path& path,
                       const SaveOptions& options = {});

// The layout in which the model was found.
SaveOptions SameLayout(const Model& model);

}  // namespace gq::graph
