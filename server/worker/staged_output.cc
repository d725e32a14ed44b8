#include "server/worker/staged_output.h"

#include <system_error>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::worker {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;

// Where a file behind links lies; the links stay.
fs::path BehindLinks(const fs::path& output) {
  std::error_code error;
  if (!fs::is_symlink(output, error)) return output;
  const fs::path target = fs::canonical(output, error);
  return error ? output : target;
}

}  // namespace

absl::StatusOr<StagedOutput> StagedOutput::Create(const fs::path& wanted) {
  std::error_code error;
  const fs::path output = BehindLinks(wanted);
  // The output takes the place of what is there: a device would be lost.
  if (fs::exists(output, error) && !fs::is_regular_file(output, error) &&
      !fs::is_directory(output, error)) {
    return MakeError(Reason::kFileUnwritable, StrCat(wanted.string(), ": this is no regular file"),
                     "give the name of a file");
  }
  if (output.filename().empty() || fs::is_directory(output, error)) {
    return MakeError(Reason::kFileUnwritable, StrCat(output.string(), ": this is a folder"),
                     "give the name of a file");
  }
  const fs::path parent = output.has_parent_path() ? output.parent_path() : fs::path(".");
  if (!fs::is_directory(parent, error)) {
    return MakeError(Reason::kFileUnwritable,
                     StrCat(output.string(), ": the folder ", parent.string(), " does not exist"),
                     "make the folder first, or choose another place");
  }
  absl::StatusOr<base::TemporaryFolder> folder =
      base::TemporaryFolder::Make(StrCat(".", output.filename().string(), "."), parent);
  if (!folder.ok()) {
    return MakeError(Reason::kFileUnwritable,
                     StrCat(output.string(), ": ", folder.status().message()),
                     base::GetHint(folder.status()));
  }
  return StagedOutput(output, *std::move(folder));
}

absl::Status StagedOutput::Commit() {
  std::error_code error;
  for (fs::directory_iterator it(folder_.path(), error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().filename() == output_.filename()) continue;
    fs::rename(it->path(), output_.parent_path() / it->path().filename(), error);
    if (error) break;
  }
  if (!error) fs::rename(path(), output_, error);
  if (error) {
    return MakeError(Reason::kFileUnwritable, StrCat(output_.string(), ": ", error.message()));
  }
  return absl::OkStatus();
}

}  // namespace gq::worker
