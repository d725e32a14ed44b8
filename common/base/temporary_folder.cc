#include "common/base/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::base {

namespace fs = std::filesystem;

absl::StatusOr<TemporaryFolder> TemporaryFolder::Make(std::string_view prefix,
                                                      const fs::path& parent) {
  std::error_code error;
  const fs::path place = parent.empty() ? fs::temp_directory_path(error) : parent;
  if (error) {
    return MakeError(Reason::kFileUnwritable,
                     StrCat("there is no folder for temporary files: ", error.message()),
                     "set TMPDIR to a folder that may be written to");
  }
  std::string pattern = (place / StrCat(prefix, "XXXXXX")).string();
  if (::mkdtemp(pattern.data()) != nullptr) return TemporaryFolder(pattern);
  return MakeError(Reason::kFileUnwritable,
                   StrCat("cannot make a folder in ", place.string(), ": ", std::strerror(errno)),
                   parent.empty() ? "set TMPDIR to a folder that may be written to"
                                  : "choose a folder that you may write to");
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace gq::base
