#include "common/runtime/npy.h"

#include <bit>
#include <fstream>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/mapped_file.h"
#include "common/runtime/npy_layout.h"

namespace gq::runtime {
namespace {

using base::MakeError;
using base::Reason;

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";

class NpyFile : public ArrayReader {
 public:
  NpyFile(NpyHeader header, std::string name, std::shared_ptr<const graph::MappedFile> mapping)
      : ArrayReader(std::move(header), std::move(name)), mapping_(std::move(mapping)) {}

  absl::StatusOr<Tensor> ReadRows(int64_t first, int64_t count) override {
    const auto elements = mapping_->bytes().subspan(static_cast<size_t>(header_.data_offset));
    const RowLayout rows(header_);
    if (!header_.fortran_order && !header_.big_endian) {
      const auto bytes = elements.subspan(static_cast<size_t>(first * rows.row_bytes),
                                          static_cast<size_t>(count * rows.row_bytes));
      // ONNX Runtime wants aligned elements, which a header of odd length does not give.
      if (reinterpret_cast<uintptr_t>(bytes.data()) % static_cast<size_t>(header_.element_bytes) ==
          0) {
        return Tensor::Borrow(header_.dtype, rows.ShapeOf(count), bytes, mapping_);
      }
    }
    return CopyRows(header_, elements, first, count);
  }

 private:
  std::shared_ptr<const graph::MappedFile> mapping_;
};

// '<f4' and the like; empty for types without numbers in them.
absl::StatusOr<std::string_view> DescrOf(int32_t dtype) {
  switch (dtype) {
    case onnx::TensorProto::FLOAT:
      return "<f4";
    case onnx::TensorProto::DOUBLE:
      return "<f8";
    case onnx::TensorProto::FLOAT16:
      return "<f2";
    case onnx::TensorProto::INT8:
      return "|i1";
    case onnx::TensorProto::UINT8:
      return "|u1";
    case onnx::TensorProto::INT16:
      return "<i2";
    case onnx::TensorProto::UINT16:
      return "<u2";
    case onnx::TensorProto::INT32:
      return "<i4";
    case onnx::TensorProto::UINT32:
      return "<u4";
    case onnx::TensorProto::INT64:
      return "<i8";
    case onnx::TensorProto::UINT64:
      return "<u8";
    case onnx::TensorProto::BOOL:
      return "|b1";
    default:
      return MakeError(Reason::kDataInvalid,
                       base::StrCat(graph::DTypeName(dtype), " has no numpy type"));
  }
}

}  // namespace

absl::StatusOr<Tensor> ArrayReader::ReadAll() {
  const int64_t rows = header_.shape.empty() ? 1 : header_.shape[0];
  GQ_ASSIGN_OR_RETURN(const Tensor tensor, ReadRows(0, rows));
  return Tensor::Borrow(tensor.dtype(), header_.shape, tensor.bytes(), tensor.owner());
}

absl::StatusOr<std::unique_ptr<ArrayReader>> OpenNpy(const std::filesystem::path& path) {
  GQ_ASSIGN_OR_RETURN(std::shared_ptr<const graph::MappedFile> mapping,
                      graph::MappedFile::Open(path));
  GQ_ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(mapping->bytes(), path.string()));
  const auto present = static_cast<int64_t>(mapping->bytes().size()) - header.data_offset;
  if (present < header.elements * header.element_bytes) {
    return MakeError(
        Reason::kDataInvalid,
        base::StrCat(path.string(), ": truncated: the header promises ",
                     Describe(header.dtype, header.shape), ", which is ",
                     header.elements * header.element_bytes, " bytes, but ", present, " follow"),
        "Write the file again.");
  }
  return std::make_unique<NpyFile>(std::move(header), path.string(), std::move(mapping));
}

absl::StatusOr<Tensor> ReadNpy(const std::filesystem::path& path) {
  GQ_ASSIGN_OR_RETURN(const auto reader, OpenNpy(path));
  return reader->ReadAll();
}

absl::StatusOr<std::string> NpyBytes(const Tensor& tensor) {
  GQ_ASSIGN_OR_RETURN(const std::string_view descr, DescrOf(tensor.dtype()));
  std::string shape;
  for (const int64_t dim : tensor.shape()) base::StrAppend(&shape, dim, ", ");
  if (tensor.shape().size() > 1) shape.resize(shape.size() - 2);
  if (tensor.shape().size() == 1) shape.resize(shape.size() - 1);
  std::string header =
      base::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (", shape, "), }");
  const bool long_form = header.size() > 65000;
  const size_t lead = kMagic.size() + 2 + (long_form ? 4 : 2);
  header.append((64 - (lead + header.size() + 1) % 64) % 64, ' ');
  header.push_back('\n');
  std::string out(kMagic);
  out.push_back(long_form ? '\x02' : '\x01');
  out.push_back('\x00');
  for (size_t i = 0; i < (long_form ? 4u : 2u); ++i) {
    out.push_back(static_cast<char>(header.size() >> (8 * i) & 0xff));
  }
  out += header;
  out.append(reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes().size());
  return out;
}

absl::Status WriteNpy(const std::filesystem::path& path, const Tensor& tensor) {
  GQ_ASSIGN_OR_RETURN(const std::string bytes, NpyBytes(tensor));
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file)
    return MakeError(Reason::kFileUnwritable, base::StrCat(path.string(), ": cannot write"));
  return absl::OkStatus();
}

}  // namespace gq::runtime
