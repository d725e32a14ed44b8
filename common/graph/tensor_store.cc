#include "common/graph/tensor_store.h"

#include <atomic>
#include <utility>

namespace gq::graph {
namespace {

constexpr char kKey[] = "key";

// Only has to differ from call to call.
std::atomic<uint64_t> next_key{1};

}  // namespace

std::string TensorStore::Add(Buffer buffer) {
  std::string key = std::to_string(next_key.fetch_add(1, std::memory_order_relaxed));
  buffers_[key] = std::move(buffer);
  return key;
}

const Buffer* TensorStore::Find(const std::string& key) const {
  const auto it = buffers_.find(key);
  return it == buffers_.end() ? nullptr : &it->second;
}

std::string StoreKey(const onnx::TensorProto& tensor) {
  if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return "";
  bool stored = false;
  std::string key;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") stored = entry.value() == kStoreLocation;
    if (entry.key() == kKey) key = entry.value();
  }
  return stored ? key : "";
}

void SetStoreKey(const std::string& key, onnx::TensorProto* tensor) {
  ClearData(tensor);
  tensor->set_data_location(onnx::TensorProto::EXTERNAL);
  auto* location = tensor->add_external_data();
  location->set_key("location");
  location->set_value(std::string(kStoreLocation));
  auto* entry = tensor->add_external_data();
  entry->set_key(kKey);
  entry->set_value(key);
}

void ClearData(onnx::TensorProto* tensor) {
  tensor->clear_float_data();
  tensor->clear_int32_data();
  tensor->clear_string_data();
  tensor->clear_int64_data();
  tensor->clear_raw_data();
  tensor->clear_double_data();
  tensor->clear_uint64_data();
  tensor->clear_external_data();
  tensor->clear_data_location();
}

}  // namespace gq::graph
