// Where the large tensors of a model live: outside the protobuf message, shared and never written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"

namespace gq::graph {

// Tensors of at least this many bytes are kept in the store.
inline constexpr int64_t kStoreThreshold = 1024;

// The external-data location that marks a tensor of the store; the entry "key" then names its
// bytes. It exists in memory only: files never hold it.
inline constexpr std::string_view kStoreLocation = "gq:store";

// Bytes that somebody keeps alive: a heap block or a mapped file.
struct Buffer {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

// Key -> bytes. Copies share the bytes and then go separate ways. Keys are unique in the process,
// so a tensor that is moved to a model without its bytes is noticed. Not thread-safe for writing;
// different copies are independent.
class TensorStore {
 public:
  std::string Add(Buffer buffer);
  // Takes over an entry of another store.
  void Put(const std::string& key, Buffer buffer) { buffers_[key] = std::move(buffer); }
  const Buffer* Find(const std::string& key) const;
  void Erase(const std::string& key) { buffers_.erase(key); }
  const std::map<std::string, Buffer>& buffers() const { return buffers_; }

 private:
  std::map<std::string, Buffer> buffers_;
};

// The key of a tensor that lives in the store, empty for any other tensor.
std::string StoreKey(const onnx::TensorProto& tensor);

// Clears the data of `tensor` and makes it refer to `key`.
void SetStoreKey(const std::string& key, onnx::TensorProto* tensor);

// Removes the data of a tensor in whatever form; name, type and dims stay.
void ClearData(onnx::TensorProto* tensor);

}  // namespace gq::graph
