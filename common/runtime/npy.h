// numpy's .npy files (format versions 1 to 3), read as hostile input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/runtime/tensor.h"

namespace gq::runtime {

// What the header of a .npy says. Big-endian elements are converted while reading.
struct NpyHeader {
  int32_t dtype = 0;  // onnx::TensorProto::DataType
  bool fortran_order = false;
  bool big_endian = false;
  std::vector<int64_t> shape;
  int64_t elements = 0;
  int64_t element_bytes = 0;
  int64_t data_offset = 0;  // of the first element, from the beginning of the array's file
};

// Longest header that is accepted (as numpy's own limit for untrusted files).
inline constexpr int64_t kMaxNpyHeaderBytes = 10000;

// Parses the beginning of a file; `start` holds at least the header or the whole file. DATA_INVALID
// for anything else than a plain array of numbers: objects, strings, records, bad or huge shapes.
absl::StatusOr<NpyHeader> ParseNpyHeader(std::span<const std::byte> start, std::string_view name);

// An array that can be read in pieces along its first axis, so that it never has to lie in memory
// whole. Not thread-safe.
class ArrayReader {
 public:
  virtual ~ArrayReader() = default;
  const NpyHeader& header() const { return header_; }
  const std::string& name() const { return name_; }  // file, or file:key, for messages

  // Rows [first, first + count) of the first axis as a tensor of shape [count] + shape[1:]; the
  // whole array for a scalar (first 0, count 1). C order, native byte order. Cheapest when rows are
  // asked for in ascending order.
  virtual absl::StatusOr<Tensor> ReadRows(int64_t first, int64_t count) = 0;
  // The whole array in its own shape.
  absl::StatusOr<Tensor> ReadAll();

 protected:
  ArrayReader(NpyHeader header, std::string name)
      : header_(std::move(header)), name_(std::move(name)) {}
  NpyHeader header_;
  std::string name_;
};

// A .npy file, mapped. FILE_NOT_FOUND, FILE_UNREADABLE, DATA_INVALID.
absl::StatusOr<std::unique_ptr<ArrayReader>> OpenNpy(const std::filesystem::path& path);
absl::StatusOr<Tensor> ReadNpy(const std::filesystem::path& path);

// Version 1.0 (2.0 when the header needs it), C order, little-endian. BFLOAT16 has no numpy type
// and is refused with DATA_INVALID.
absl::StatusOr<std::string> NpyBytes(const Tensor& tensor);
absl::Status WriteNpy(const std::filesystem::path& path, const Tensor& tensor);

}  // namespace gq::runtime
