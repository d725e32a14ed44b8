#include "server/process/service_notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace gq::server {

void NotifyServiceManager(std::string_view message) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  const size_t length = std::strlen(path);
  if (length >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path, length);
  // A leading @ stands for an abstract socket.
  if (path[0] == '@') address.sun_path[0] = '\0';
  const int file = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (file < 0) return;
  (void)sendto(file, message.data(), message.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address),
               static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
  close(file);
}

std::optional<absl::Duration> WatchdogInterval() {
  const char* text = std::getenv("WATCHDOG_USEC");
  const long long micros = text == nullptr ? 0 : std::atoll(text);
  if (micros <= 0) return std::nullopt;
  return absl::Microseconds(micros) / 2;
}

}  // namespace gq::server
