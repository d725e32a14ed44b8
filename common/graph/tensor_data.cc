#include "common/graph/tensor_data.h"

#include <cstring>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::graph {
namespace {

using base::Reason;
using base::StrCat;
using onnx::TensorProto;

// Converts a typed field into dense elements of `T`.
template <typename T, typename Field>
std::vector<std::byte> Pack(const Field& field) {
  std::vector<std::byte> bytes(field.size() * sizeof(T));
  auto* out = reinterpret_cast<T*>(bytes.data());
  for (const auto value : field) *out++ = static_cast<T>(value);
  return bytes;
}

// Where a type's elements stand when they are not raw.
enum class FieldKind { kFloat, kInt32, kInt64, kDouble, kUint64, kNone };

FieldKind FieldOf(int32_t dtype) {
  switch (dtype) {
    case TensorProto::FLOAT:
    case TensorProto::COMPLEX64:
      return FieldKind::kFloat;
    case TensorProto::DOUBLE:
    case TensorProto::COMPLEX128:
      return FieldKind::kDouble;
    case TensorProto::INT64:
      return FieldKind::kInt64;
    case TensorProto::UINT32:
    case TensorProto::UINT64:
      return FieldKind::kUint64;
    case TensorProto::STRING:
    case TensorProto::UNDEFINED:
      return FieldKind::kNone;
    default:
      return FieldKind::kInt32;
  }
}

// Number of entries that the typed field must have.
int64_t FieldEntries(int32_t dtype, int64_t elements, int64_t bytes) {
  if (dtype == TensorProto::COMPLEX64 || dtype == TensorProto::COMPLEX128) return elements * 2;
  return BitsPerElement(dtype) == 4 ? bytes : elements;
}

int64_t FieldSize(const TensorProto& tensor) {
  switch (FieldOf(tensor.data_type())) {
    case FieldKind::kFloat:
      return tensor.float_data_size();
    case FieldKind::kDouble:
      return tensor.double_data_size();
    case FieldKind::kInt64:
      return tensor.int64_data_size();
    case FieldKind::kUint64:
      return tensor.uint64_data_size();
    case FieldKind::kInt32:
      return tensor.int32_data_size();
    case FieldKind::kNone:
      return tensor.string_data_size();
  }
  return 0;
}

std::vector<std::byte> PackField(const TensorProto& tensor) {
  switch (FieldOf(tensor.data_type())) {
    case FieldKind::kFloat:
      return Pack<float>(tensor.float_data());
    case FieldKind::kDouble:
      return Pack<double>(tensor.double_data());
    case FieldKind::kInt64:
      return Pack<int64_t>(tensor.int64_data());
    case FieldKind::kUint64:
      return tensor.data_type() == TensorProto::UINT32 ? Pack<uint32_t>(tensor.uint64_data())
                                                       : Pack<uint64_t>(tensor.uint64_data());
    default:
      break;
  }
  switch (BitsPerElement(tensor.data_type())) {
    case 32:
      return Pack<int32_t>(tensor.int32_data());
    case 16:
      return Pack<uint16_t>(tensor.int32_data());
    default:
      return Pack<uint8_t>(tensor.int32_data());
  }
}

}  // namespace

std::vector<int64_t> Dims(const TensorProto& tensor) {
  return {tensor.dims().begin(), tensor.dims().end()};
}

std::string Describe(const TensorProto& tensor) {
  return tensor.name().empty() ? "an unnamed tensor" : StrCat("tensor '", tensor.name(), "'");
}

std::string Describe(const onnx::NodeProto& node) {
  if (!node.name().empty()) return StrCat(node.op_type(), " node '", node.name(), "'");
  return node.output_size() == 0
             ? StrCat("a ", node.op_type(), " node without a name")
             : StrCat("the ", node.op_type(), " node that makes '", node.output(0), "'");
}

absl::StatusOr<int64_t> TensorBytes(const TensorProto& tensor) {
  const auto count = ElementCount(Dims(tensor));
  if (!count.ok()) return base::AddContext(count.status(), Describe(tensor));
  const auto bytes = ByteSize(tensor.data_type(), *count);
  if (!bytes.ok()) return base::AddContext(bytes.status(), Describe(tensor));
  return *bytes;
}

absl::Status ValidateTensor(const TensorProto& tensor) {
  if (tensor.has_segment()) {
    return base::MakeError(Reason::kModelUnsupported,
                           StrCat(Describe(tensor), " is stored in segments"));
  }
  const auto count = ElementCount(Dims(tensor));
  if (!count.ok()) return base::AddContext(count.status(), Describe(tensor));
  if (tensor.data_type() == TensorProto::STRING) {
    if (tensor.string_data_size() == *count) return absl::OkStatus();
    return base::MakeError(Reason::kModelInvalid,
                           StrCat(Describe(tensor), " has ", tensor.string_data_size(),
                                  " strings, its dimensions ask for ", *count));
  }
  GQ_ASSIGN_OR_RETURN(const int64_t bytes, TensorBytes(tensor));
  if (tensor.data_location() == TensorProto::EXTERNAL) return absl::OkStatus();
  const std::string wanted = StrCat("its type ", DTypeName(tensor.data_type()), " and dimensions [",
                                    base::StrJoin(tensor.dims(), ", "), "] ask for ");
  if (tensor.has_raw_data()) {
    const auto size = static_cast<int64_t>(tensor.raw_data().size());
    if (size == bytes) return absl::OkStatus();
    return base::MakeError(Reason::kModelInvalid, StrCat(Describe(tensor), " holds ", size,
                                                         " bytes of data, ", wanted, bytes));
  }
  const int64_t entries = FieldEntries(tensor.data_type(), *count, bytes);
  if (FieldSize(tensor) == entries) return absl::OkStatus();
  return base::MakeError(
      Reason::kModelInvalid,
      StrCat(Describe(tensor), " holds ", FieldSize(tensor), " values, ", wanted, entries));
}

absl::StatusOr<TensorView> ReadInlineData(const TensorProto& tensor) {
  if (tensor.data_type() == TensorProto::STRING) {
    return base::MakeError(Reason::kModelUnsupported,
                           StrCat(Describe(tensor), " holds strings, numbers were expected"));
  }
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    return base::MakeError(Reason::kModelInvalid,
                           StrCat(Describe(tensor), " keeps its data outside of the model"));
  }
  GQ_RETURN_IF_ERROR(ValidateTensor(tensor));
  std::vector<std::byte> bytes;
  if (tensor.has_raw_data()) {
    const auto* begin = reinterpret_cast<const std::byte*>(tensor.raw_data().data());
    bytes.assign(begin, begin + tensor.raw_data().size());
  } else {
    bytes = PackField(tensor);
  }
  return TensorView::Own(tensor.data_type(), Dims(tensor), std::move(bytes));
}

}  // namespace gq::graph
