// `gq-worker serve`: takes steps from a server and runs each in a child with limits.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace gq::worker {

struct ServeOptions {
  std::string server;      // unix:PATH or HOST:PORT
  std::string name;        // unique on the server
  std::string state_dir;   // leases, spooled logs, cached inputs
  std::string token_file;  // bearer token for a server that is reached over TCP
  std::string ca_file;     // certificate that the server's is checked against; empty: plain TCP
  int slots = 1;
  double memory_gib = 0;  // address space of a step; 0: three quarters of the host's memory
  int64_t cpu_seconds = 0;
  double file_gib = 64;     // largest file a step may write
  std::string onnxruntime;  // library that steps use; empty: GQ_ONNXRUNTIME, or the bundled one
  bool network = false;     // let steps use the network
};

// Blocks until SIGTERM or SIGINT (the current steps are finished first; a second signal ends them)
// or until the server refuses this worker.
absl::Status Serve(const ServeOptions& options);

}  // namespace gq::worker
