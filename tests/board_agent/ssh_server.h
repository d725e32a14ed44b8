// A real sshd on loopback, with its own keys.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/text.h"

namespace gq::agent {

class SshServer {
 public:
  ~SshServer() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }

  int port() const { return port_; }

  // Keys, known_hosts and settings go into `folder`. Empty on success; else why there is none.
  std::string Start(const std::filesystem::path& folder) {
    for (const char* program : {"/usr/sbin/sshd", "/usr/bin/ssh", "/usr/bin/scp"}) {
      if (::access(program, X_OK) != 0) return base::StrCat(program, " is not installed");
    }
    std::filesystem::create_directories(folder);
    // Root's sshd wants its folder for privilege separation.
    if (::geteuid() == 0) ::mkdir("/run/sshd", 0755);
    port_ = FreePort();
    const std::string f = folder.string();
    const std::string keys = base::StrCat(
        "cd ", f,
        " && ssh-keygen -q -t ed25519 -N '' -f host && ssh-keygen -q -t ed25519 -N '' -f "
        "key && cp key.pub authorized && chmod 600 authorized && (printf '[127.0.0.1]:",
        port_, " '; cat host.pub) > known_hosts");
    if (std::system(keys.c_str()) != 0) return "ssh-keygen failed";
    std::ofstream(folder / "sshd_config")
        << "ListenAddress 127.0.0.1\nPort " << port_ << "\nHostKey " << f << "/host\nPidFile " << f
        << "/pid\nAuthorizedKeysFile " << f
        << "/authorized\nUsePAM no\nStrictModes no\nPermitRootLogin yes\n"
           "PasswordAuthentication no\nSubsystem sftp internal-sftp\nLogLevel ERROR\n";
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const std::string log = f + "/sshd.log";
      const std::string config = f + "/sshd_config";
      ::execl("/usr/sbin/sshd", "/usr/sbin/sshd", "-D", "-f", config.c_str(), "-E", log.c_str(),
              nullptr);
      ::_exit(127);
    }
    for (int i = 0; i < 100; ++i) {
      if (Listens()) return "";
      if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
        pid_ = -1;
        return "sshd does not start here";
      }
      ::usleep(50'000);
    }
    return "sshd does not listen";
  }

 private:
  static sockaddr_in Address(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    return address;
  }
  static int FreePort() {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = Address(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    ::close(fd);
    return ntohs(address.sin_port);
  }
  bool Listens() const {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = Address(port_);
    const bool connected =
        ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::close(fd);
    return connected;
  }

  pid_t pid_ = -1;
  int port_ = 0;
};

}  // namespace gq::agent
