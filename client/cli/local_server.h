// A private server for one command (`--local`): gq-server with a worker and simulated boards in a
// temporary folder.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/temporary_folder.h"

namespace gq::cli {

class LocalServer {
 public:
  // Starts gq-server, which lies beside this program or on PATH, and waits until it answers.
  // TOOL_MISSING when there is none, SERVER_UNREACHABLE with the end of its log when it does not
  // come up.
  static absl::StatusOr<std::unique_ptr<LocalServer>> Start(std::stop_token stop);

  // Stops the server and removes its folder.
  ~LocalServer();

  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  // For --server.
  std::string address() const;

 private:
  LocalServer(base::TemporaryFolder folder, pid_t process)
      : folder_(std::move(folder)), process_(process) {}
  absl::Status WaitUntilReady(std::stop_token stop);
  bool HasExited();

  base::TemporaryFolder folder_;
  pid_t process_ = -1;
};

// A program of this product: beside this one, else on PATH; empty when there is none.
std::filesystem::path FindProgram(const std::string& name);

}  // namespace gq::cli
