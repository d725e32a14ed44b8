#include "common/graph/model.h"

#include <openssl/evp.h>

#include <limits>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/graph_index.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::Reason;
using base::StrCat;

bool SameDomain(std::string_view a, std::string_view b) {
  const auto canonical = [](std::string_view domain) {
    return domain == "ai.onnx" ? std::string_view() : domain;
  };
  return canonical(a) == canonical(b);
}

// A string that left the message, as a buffer; no copy.
Buffer BufferOf(std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  return {owner, std::as_bytes(std::span(owner->data(), owner->size()))};
}

void AppendRaw(const TensorView& view, onnx::TensorProto* tensor) {
  tensor->set_raw_data(reinterpret_cast<const char*>(view.bytes().data()), view.bytes().size());
}

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_, EVP_sha256(), nullptr); }
  ~Sha256() { EVP_MD_CTX_free(context_); }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  // With its length, so that two pieces are not the same as their concatenation.
  void Add(std::span<const std::byte> bytes) {
    const uint64_t size = bytes.size();
    EVP_DigestUpdate(context_, &size, sizeof(size));
    EVP_DigestUpdate(context_, bytes.data(), bytes.size());
  }
  void Add(std::string_view text) { Add(std::as_bytes(std::span(text.data(), text.size()))); }

  std::string Hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_, digest, &size);
    std::string hex;
    for (unsigned int i = 0; i < size; ++i) {
      hex += "0123456789abcdef"[digest[i] >> 4];
      hex += "0123456789abcdef"[digest[i] & 15];
    }
    return hex;
  }

 private:
  EVP_MD_CTX* context_;
};

}  // namespace

absl::StatusOr<Model> Model::FromProto(onnx::ModelProto proto) {
  Model model;
  model.proto_ = std::move(proto);
  for (auto& tensor : *model.proto_.mutable_graph()->mutable_initializer()) {
    if (!StoreKey(tensor).empty()) {
      return base::MakeError(Reason::kModelInvalid,
                             StrCat(Describe(tensor), " refers to data of another model"));
    }
    GQ_RETURN_IF_ERROR(ValidateTensor(tensor));
    if (tensor.data_type() == onnx::TensorProto::STRING) continue;
    GQ_ASSIGN_OR_RETURN(const int64_t bytes, TensorBytes(tensor));
    if (bytes >= kStoreThreshold && tensor.has_raw_data()) {
      SetStoreKey(model.store_.Add(BufferOf(std::move(*tensor.mutable_raw_data()))), &tensor);
    } else {
      GQ_ASSIGN_OR_RETURN(const TensorView view, ReadInlineData(tensor));
      model.SetData(view, &tensor);
    }
  }
  return model;
}

int64_t Model::OpsetOf(std::string_view domain) const {
  for (const auto& import : proto_.opset_import()) {
    if (SameDomain(import.domain(), domain)) return import.version();
  }
  return 0;
}

void Model::SetOpset(std::string_view domain, int64_t version) {
  for (auto& import : *proto_.mutable_opset_import()) {
    if (SameDomain(import.domain(), domain)) {
      import.set_version(version);
      return;
    }
  }
  auto* import = proto_.add_opset_import();
  import->set_domain(std::string(domain));
  import->set_version(version);
}

absl::StatusOr<TensorView> Model::Data(const onnx::TensorProto& tensor) const {
  const std::string key = StoreKey(tensor);
  if (key.empty()) return ReadInlineData(tensor);
  const Buffer* buffer = store_.Find(key);
  if (buffer == nullptr) {
    return base::MakeError(Reason::kInternal,
                           StrCat("the data of ", Describe(tensor), " is not part of the model"));
  }
  GQ_ASSIGN_OR_RETURN(const int64_t bytes, TensorBytes(tensor));
  if (bytes != static_cast<int64_t>(buffer->bytes.size())) {
    return base::MakeError(Reason::kInternal, StrCat(Describe(tensor), " has ", bytes,
                                                     " bytes, its data ", buffer->bytes.size()));
  }
  return TensorView(tensor.data_type(), Dims(tensor), buffer->bytes, buffer->owner);
}

int64_t Model::DataBytes(const onnx::TensorProto& tensor) const {
  const auto bytes = TensorBytes(tensor);
  return bytes.ok() ? *bytes : 0;
}

void Model::SetData(const TensorView& data, onnx::TensorProto* tensor) {
  tensor->set_data_type(data.dtype());
  tensor->clear_dims();
  for (const int64_t dim : data.dims()) tensor->add_dims(dim);
  if (static_cast<int64_t>(data.bytes().size()) >= kStoreThreshold) {
    SetStoreKey(store_.Add({data.owner(), data.bytes()}), tensor);
  } else {
    ClearData(tensor);
    AppendRaw(data, tensor);
  }
}

onnx::TensorProto* Model::AddInitializer(std::string_view name, const TensorView& data) {
  auto* tensor = proto_.mutable_graph()->add_initializer();
  tensor->set_name(std::string(name));
  SetData(data, tensor);
  return tensor;
}

const onnx::TensorProto* Model::FindInitializer(std::string_view name) const {
  for (const auto& initializer : proto_.graph().initializer()) {
    if (initializer.name() == name) return &initializer;
  }
  return nullptr;
}

void Model::CompactStore() {
  std::set<std::string> used;
  for (const auto& initializer : proto_.graph().initializer()) used.insert(StoreKey(initializer));
  std::vector<std::string> gone;
  for (const auto& [key, buffer] : store_.buffers()) {
    if (!used.contains(key)) gone.push_back(key);
  }
  for (const auto& key : gone) store_.Erase(key);
}

absl::StatusOr<onnx::ModelProto> Model::ToInlineProto() const {
  onnx::ModelProto result = proto_;
  auto total = static_cast<int64_t>(proto_.ByteSizeLong());
  for (auto& tensor : *result.mutable_graph()->mutable_initializer()) {
    if (StoreKey(tensor).empty()) continue;
    GQ_ASSIGN_OR_RETURN(const TensorView view, Data(tensor));
    total += static_cast<int64_t>(view.bytes().size());
    if (total >= std::numeric_limits<int32_t>::max()) {
      return base::MakeError(Reason::kModelTooLarge,
                             "the model is larger than the 2 GiB that one ONNX file can hold");
    }
    ClearData(&tensor);
    AppendRaw(view, &tensor);
  }
  return result;
}

onnx::ModelProto Model::ToProtoWithStoredAsInputs() const {
  onnx::ModelProto result = proto_;
  auto* graph = result.mutable_graph();
  std::set<std::string> inputs;
  for (const auto& input : graph->input()) inputs.insert(input.name());
  google::protobuf::RepeatedPtrField<onnx::TensorProto> kept;
  for (auto& tensor : *graph->mutable_initializer()) {
    if (StoreKey(tensor).empty()) {
      kept.Add(std::move(tensor));
      continue;
    }
    if (!inputs.insert(tensor.name()).second) continue;
    auto* input = graph->add_input();
    input->set_name(tensor.name());
    auto* type = input->mutable_type()->mutable_tensor_type();
    type->set_elem_type(tensor.data_type());
    type->mutable_shape();
    for (const int64_t dim : tensor.dims()) type->mutable_shape()->add_dim()->set_dim_value(dim);
  }
  graph->mutable_initializer()->Swap(&kept);
  return result;
}

std::string Model::Digest() const {
  Sha256 sha;
  onnx::ModelProto bare = proto_;
  for (auto& tensor : *bare.mutable_graph()->mutable_initializer()) {
    const auto view = Data(tensor);
    if (!view.ok()) continue;  // strings stay in the message
    ClearData(&tensor);
    sha.Add(tensor.name());
    sha.Add(view->bytes());
  }
  // No map fields in the message, so equal messages have equal bytes.
  sha.Add(bare.SerializeAsString());
  return sha.Hex();
}

}  // namespace gq::graph
