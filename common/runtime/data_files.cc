#include "common/runtime/data_files.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::runtime {
namespace {

using base::MakeError;
using base::Reason;
namespace fs = std::filesystem;

bool IsArrayFile(const fs::path& path) {
  return path.extension() == ".npy" || path.extension() == ".npz";
}

}  // namespace

absl::StatusOr<std::vector<fs::path>> ListDataFiles(std::span<const fs::path> paths) {
  std::vector<fs::path> files;
  for (const fs::path& path : paths) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) {
      return MakeError(Reason::kFileNotFound,
                       base::StrCat(path.string(), ": no such file or folder"));
    }
    if (!fs::is_directory(status)) {
      if (!IsArrayFile(path)) {
        return MakeError(Reason::kDataInvalid,
                         base::StrCat(path.string(), ": expected a .npy or .npz file or a folder"),
                         "Save the data with numpy.save or numpy.savez.");
      }
      files.push_back(path);
      continue;
    }
    std::vector<fs::path> found;
    fs::directory_iterator entries(path, error);
    for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
      const fs::path& entry = entries->path();
      if (IsArrayFile(entry) && !entry.filename().string().starts_with('.')) found.push_back(entry);
    }
    if (error) {
      return MakeError(Reason::kFileUnreadable, base::StrCat(path.string(), ": ", error.message()));
    }
    if (found.empty()) {
      return MakeError(Reason::kDataEmpty,
                       base::StrCat(path.string(), ": the folder has no .npy or .npz file"));
    }
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

absl::StatusOr<size_t> InputOfFile(const fs::path& file, std::span<const std::string> inputs) {
  std::string stem = file.stem().string();
  // A file of a job carries its number in front: 3_ifm_0.npy.
  const size_t digits = stem.find_first_not_of("0123456789");
  const bool numbered = digits != std::string::npos && digits > 0 && stem[digits] == '_';
  for (const std::string& name : {stem, numbered ? stem.substr(digits + 1) : std::string()}) {
    if (name.empty()) continue;
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::string plain = inputs[i];
      std::replace_if(
          plain.begin(), plain.end(), [](char c) { return c == '/' || c == ':' || c == '\\'; },
          '_');
      if (name == inputs[i] || name == plain) return i;
    }
    size_t number = 0;
    constexpr std::string_view kPrefix = "ifm_";
    const char* end = name.data() + name.size();
    if (name.starts_with(kPrefix)) {
      const auto parsed = std::from_chars(name.data() + kPrefix.size(), end, number);
      if (parsed.ec == std::errc() && parsed.ptr == end && number < inputs.size()) return number;
    }
  }
  std::vector<std::string> names;
  for (const std::string& input : inputs) names.push_back(base::StrCat(input, ".npy"));
  return MakeError(
      Reason::kDataKeyMismatch,
      base::StrCat(file.string(), " belongs to no input; expected ", base::StrJoin(names, ", "),
                   " or ifm_0.npy to ifm_", inputs.size() - 1, ".npy"),
      "Name each file after its input, or use .npz files with input names as keys.");
}

}  // namespace gq::runtime
