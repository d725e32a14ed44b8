#include <charconv>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/runtime/npy.h"

namespace gq::runtime {
namespace {

using base::MakeError;
using base::Reason;

constexpr size_t kMaxRank = 32;

// Reads the one Python dictionary that a header is: string keys, values that are strings, True,
// False or tuples of whole numbers.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  absl::Status Parse() {
    if (!Take('{')) return Error("a dictionary");
    while (!Take('}')) {
      std::string_view key;
      if (!TakeString(&key) || !Take(':')) return Error("a key in quotes and a colon");
      GQ_RETURN_IF_ERROR(ParseValue(key));
      if (!Take(',')) {
        if (!Take('}')) return Error("a comma or the end of the dictionary");
        break;
      }
    }
    Skip();
    if (position_ != text_.size()) return Error("the end of the header");
    if (descr_.empty() || !has_order_ || !has_shape_) {
      return absl::InvalidArgumentError("'descr', 'fortran_order' or 'shape' is missing");
    }
    return absl::OkStatus();
  }

  std::string_view descr() const { return descr_; }
  bool fortran_order() const { return fortran_order_; }
  const std::vector<int64_t>& shape() const { return shape_; }

 private:
  absl::Status ParseValue(std::string_view key) {
    if (key == "descr") {
      Skip();
      if (position_ < text_.size() && text_[position_] == '[') {
        return absl::InvalidArgumentError("records are not supported, only plain numbers");
      }
      return TakeString(&descr_) && !descr_.empty() ? absl::OkStatus() : Error("a type");
    }
    if (key == "fortran_order") {
      has_order_ = true;
      fortran_order_ = TakeWord("True");
      return fortran_order_ || TakeWord("False") ? absl::OkStatus() : Error("True or False");
    }
    if (key == "shape") {
      has_shape_ = true;
      return ParseShape();
    }
    return absl::InvalidArgumentError(base::StrCat("unknown key '", key, "'"));
  }

  absl::Status ParseShape() {
    shape_.clear();
    if (!Take('(')) return Error("a shape in parentheses");
    while (!Take(')')) {
      Skip();
      const size_t begin = position_;
      while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') {
        ++position_;
      }
      int64_t dim = 0;
      if (std::from_chars(text_.data() + begin, text_.data() + position_, dim).ec != std::errc()) {
        return Error("a dimension");
      }
      TakeWord("L");  // Python 2
      if (shape_.size() == kMaxRank) return absl::InvalidArgumentError("over 32 dimensions");
      shape_.push_back(dim);
      if (!Take(',')) {
        if (!Take(')')) return Error("a comma or the end of the shape");
        break;
      }
    }
    return absl::OkStatus();
  }

  void Skip() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n' ||
                                        text_[position_] == '\t' || text_[position_] == '\r')) {
      ++position_;
    }
  }
  bool Take(char wanted) {
    Skip();
    if (position_ >= text_.size() || text_[position_] != wanted) return false;
    ++position_;
    return true;
  }
  bool TakeWord(std::string_view word) {
    Skip();
    if (!text_.substr(position_).starts_with(word)) return false;
    position_ += word.size();
    return true;
  }
  bool TakeString(std::string_view* value) {
    Skip();
    if (position_ >= text_.size() || (text_[position_] != '\'' && text_[position_] != '"')) {
      return false;
    }
    const size_t end = text_.find(text_[position_], position_ + 1);
    if (end == std::string_view::npos) return false;
    *value = text_.substr(position_ + 1, end - position_ - 1);
    position_ = end + 1;
    return true;
  }
  absl::Status Error(std::string_view wanted) const {
    return absl::InvalidArgumentError(
        base::StrCat("expected ", wanted, " at byte ", position_, " of the header"));
  }

  std::string_view text_;
  size_t position_ = 0;
  std::string_view descr_;
  bool fortran_order_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
  std::vector<int64_t> shape_;
};

// The type of '<f4' without its byte order; 0 for what is no plain number.
int32_t DTypeOf(std::string_view kind) {
  constexpr std::pair<std::string_view, int32_t> kTypes[] = {
      {"f4", onnx::TensorProto::FLOAT},   {"f8", onnx::TensorProto::DOUBLE},
      {"f2", onnx::TensorProto::FLOAT16}, {"i1", onnx::TensorProto::INT8},
      {"u1", onnx::TensorProto::UINT8},   {"i2", onnx::TensorProto::INT16},
      {"u2", onnx::TensorProto::UINT16},  {"i4", onnx::TensorProto::INT32},
      {"u4", onnx::TensorProto::UINT32},  {"i8", onnx::TensorProto::INT64},
      {"u8", onnx::TensorProto::UINT64},  {"b1", onnx::TensorProto::BOOL}};
  for (const auto& [name, dtype] : kTypes) {
    if (name == kind) return dtype;
  }
  return 0;
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(std::span<const std::byte> start, std::string_view name) {
  const auto fail = [&](std::string_view why) {
    return MakeError(Reason::kDataInvalid, base::StrCat(name, ": ", why),
                     "Save the array with numpy.save or numpy.savez as plain numbers.");
  };
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  if (!text.starts_with("\x93NUMPY") || text.size() < 12) return fail("not a .npy file");
  const auto byte = [&](size_t index) { return static_cast<uint64_t>(start[index]); };
  const uint64_t version = byte(6);
  if (version < 1 || version > 3) return fail(base::StrCat("unknown .npy version ", version));
  const size_t lead = version == 1 ? 10 : 12;
  uint64_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > static_cast<uint64_t>(kMaxNpyHeaderBytes)) {
    return fail(base::StrCat("a header of ", length, " bytes"));
  }
  if (text.size() < lead + length) return fail("truncated inside the header");

  HeaderParser parser(text.substr(lead, length));
  if (const absl::Status status = parser.Parse(); !status.ok())
    return fail(base::FromAbsl(status.message()));
  NpyHeader header;
  std::string_view kind = parser.descr();
  const char order = kind[0];
  if (order == '<' || order == '>' || order == '|' || order == '=') kind.remove_prefix(1);
  header.dtype = kind == "?" ? static_cast<int32_t>(onnx::TensorProto::BOOL) : DTypeOf(kind);
  if (header.dtype == 0) {
    return fail(base::StrCat("elements of type '", parser.descr(), "' are not plain numbers"));
  }
  header.big_endian = order == '>';
  header.fortran_order = parser.fortran_order();
  header.shape = parser.shape();
  const auto elements = graph::ElementCount(header.shape);
  if (!elements.ok()) return fail("the shape is too large");
  const auto bytes = graph::ByteSize(header.dtype, *elements);
  if (!bytes.ok()) return fail("the shape is too large");
  header.elements = *elements;
  header.element_bytes = graph::BitsPerElement(header.dtype) / 8;
  header.data_offset = static_cast<int64_t>(lead + length);
  return header;
}

}  // namespace gq::runtime
