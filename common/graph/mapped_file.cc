#include "common/graph/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::graph {
namespace {

using base::Reason;
using base::StrCat;

}  // namespace

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(
    const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) {
      return base::MakeError(Reason::kFileNotFound, StrCat("there is no file ", path.string()),
                             "Check the path.");
    }
    return base::MakeError(Reason::kFileUnreadable,
                           StrCat("cannot open ", path.string(), ": ", std::strerror(error)));
  }
  struct stat info;
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(file);
    return base::MakeError(Reason::kFileUnreadable,
                           StrCat(path.string(), " is not a regular file"));
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* memory = nullptr;
  if (size > 0) {
    memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (memory == MAP_FAILED) {
      const int error = errno;
      close(file);
      return base::MakeError(Reason::kFileUnreadable,
                             StrCat("cannot map ", path.string(), ": ", std::strerror(error)));
    }
  }
  close(file);
  return std::shared_ptr<const MappedFile>(
      new MappedFile({static_cast<const std::byte*>(memory), size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace gq::graph
