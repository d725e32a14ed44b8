#include "common/graph/external_data.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::Reason;
using base::StrCat;

constexpr char kHint[] =
    "External data must lie in the model's folder, complete and unchanged since the export.";

absl::Status Invalid(const onnx::TensorProto& tensor, const std::string& what) {
  return base::MakeError(Reason::kExternalDataInvalid,
                         StrCat("external data of ", Describe(tensor), ": ", what), kHint);
}

struct Location {
  std::string file;
  int64_t offset = 0;
  std::optional<int64_t> length;
};

std::optional<int64_t> ParseCount(const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 0) return std::nullopt;
  return value;
}

absl::StatusOr<Location> ParseLocation(const onnx::TensorProto& tensor) {
  Location location;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location.file = entry.value();
    if (entry.key() != "offset" && entry.key() != "length") continue;
    const auto count = ParseCount(entry.value());
    if (!count.has_value()) {
      return Invalid(
          tensor, StrCat(entry.key(), " is '", entry.value(), "', a number of bytes was expected"));
    }
    if (entry.key() == "offset") {
      location.offset = *count;
    } else {
      location.length = *count;
    }
  }
  if (location.file.empty()) return Invalid(tensor, "no file is named");
  return location;
}

bool IsInside(const std::filesystem::path& folder, const std::filesystem::path& file) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first ==
         folder.end();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const MappedFile>> ExternalDataReader::OpenFile(
    const std::string& location, const onnx::TensorProto& tensor) {
  const auto known = files_.find(location);
  if (known != files_.end()) return known->second;

  const std::filesystem::path relative(location);
  if (location.find('\0') != std::string::npos || relative.is_absolute() ||
      std::find(relative.begin(), relative.end(), "..") != relative.end()) {
    return Invalid(tensor, StrCat("the file '", location, "' is not inside the model's folder"));
  }
  std::error_code error;
  const auto folder =
      std::filesystem::canonical(folder_.empty() ? std::filesystem::path(".") : folder_, error);
  if (error) return Invalid(tensor, StrCat("cannot resolve the model's folder: ", error.message()));
  const auto path = std::filesystem::canonical(folder / relative, error);
  if (error) return Invalid(tensor, StrCat("there is no file '", location, "' beside the model"));
  if (!IsInside(folder, path)) {
    return Invalid(
        tensor, StrCat("the file '", location, "' is a link that leads out of the model's folder"));
  }
  auto file = MappedFile::Open(path);
  if (!file.ok()) return Invalid(tensor, std::string(file.status().message()));
  if (first_location_.empty()) first_location_ = location;
  files_[location] = *file;
  return *file;
}

absl::StatusOr<Buffer> ExternalDataReader::Read(const onnx::TensorProto& tensor) {
  GQ_ASSIGN_OR_RETURN(const int64_t bytes, TensorBytes(tensor));
  GQ_ASSIGN_OR_RETURN(const Location location, ParseLocation(tensor));
  GQ_ASSIGN_OR_RETURN(const auto file, OpenFile(location.file, tensor));
  if (location.length.has_value() && *location.length != bytes) {
    return Invalid(tensor, StrCat("the model says ", *location.length,
                                  " bytes, type and dimensions ask for ", bytes));
  }
  const auto size = static_cast<int64_t>(file->bytes().size());
  if (location.offset > size || bytes > size - location.offset) {
    return Invalid(tensor, StrCat("'", location.file, "' has ", size, " bytes, the tensor needs ",
                                  bytes, " from offset ", location.offset));
  }
  const auto part = file->bytes().subspan(location.offset, bytes);
  const auto alignment = std::max<uintptr_t>(1, BitsPerElement(tensor.data_type()) / 8);
  if (reinterpret_cast<uintptr_t>(part.data()) % alignment == 0) return Buffer{file, part};
  auto copy = std::make_shared<const std::vector<std::byte>>(part.begin(), part.end());
  return Buffer{copy, *copy};
}

}  // namespace gq::graph
