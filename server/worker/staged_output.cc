#include "server/worker/staged_output.h"

#include <cstdlib>
#include <cstring>
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

}  // namespace

absl::StatusOr<StagedOutput> StagedOutput::Create(const fs::path& output) {
  std::error_code error;
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
  std::string name = (parent / ("." + output.filename().string() + ".XXXXXX")).string();
  if (mkdtemp(name.data()) == nullptr) {
    return MakeError(Reason::kFileUnwritable, StrCat(output.string(), ": ", std::strerror(errno)),
                     "choose a folder that you may write to");
  }
  return StagedOutput(output, name);
}

StagedOutput::StagedOutput(StagedOutput&& other) noexcept
    : output_(std::move(other.output_)), folder_(std::exchange(other.folder_, fs::path())) {}

StagedOutput::~StagedOutput() {
  if (folder_.empty()) return;
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

absl::Status StagedOutput::Commit() {
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
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
