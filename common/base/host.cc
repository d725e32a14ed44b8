#include "common/base/host.h"

#include <unistd.h>

#include <cstdlib>
#include <system_error>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::base {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

std::string HostName(std::string_view otherwise) {
  char host[256] = "";
  return ::gethostname(host, sizeof host - 1) == 0 ? std::string(host) : std::string(otherwise);
}

absl::StatusOr<std::filesystem::path> OwnProgram() {
  std::error_code error;
  std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) return program;
  return MakeError(Reason::kInternal, StrCat("/proc/self/exe: ", error.message()));
}

StatePlace StatePlace::OfProcess() {
  return {.root = ::geteuid() == 0,
          .xdg_state_home = Variable("XDG_STATE_HOME"),
          .home = Variable("HOME")};
}

std::filesystem::path StateFolder(const StatePlace& place) {
  if (place.root) return "/var/lib/gq";
  if (!place.xdg_state_home.empty()) return std::filesystem::path(place.xdg_state_home) / "gq";
  return std::filesystem::path(place.home.empty() ? "." : place.home) / ".local/state/gq";
}

}  // namespace gq::base
