// A server inside the test that plays one job by a script, so that the real program gq can be run
// against it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gq/v1/admin_service.grpc.pb.h"
#include "gq/v1/blob_service.grpc.pb.h"
#include "gq/v1/board_service.grpc.pb.h"
#include "gq/v1/job_service.grpc.pb.h"
#include "grpcpp/server.h"

namespace gq::cli {

class ScriptedServer {
 public:
  // Listens on a unix socket at `path`.
  explicit ScriptedServer(const std::string& path);
  ~ScriptedServer();

  std::string address() const { return "unix:" + path_; }

  // What the job is once its log has been read to the end.
  gq::v1::Job final_job;
  std::string log;
  std::string report = "{}";
  std::map<std::string, std::string> artifacts;  // path -> content
  // The log ends only when the job is cancelled.
  bool runs_until_cancelled = false;
  // Answers of CreateJob that are UNAVAILABLE before one succeeds.
  int create_failures = 0;
  // The connection of TailLog breaks after so many bytes, once; 0 for never.
  int64_t break_log_after = 0;

  // What arrived.
  std::vector<gq::v1::CreateJobRequest> created;
  std::vector<std::string> uploads;
  bool cancelled = false;

 private:
  class Jobs;
  class Blobs;
  class Boards;

  std::string path_;
  std::mutex mutex_;
  std::unique_ptr<Jobs> jobs_;
  std::unique_ptr<Blobs> blobs_;
  std::unique_ptr<Boards> boards_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace gq::cli
