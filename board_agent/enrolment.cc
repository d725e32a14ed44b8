#include "board_agent/enrolment.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_mapping.h"
#include "gq/v1/admin_service.grpc.pb.h"

namespace gq::agent {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;

fs::path IdentityFile(const AgentConfig& config) {
  return fs::path(config.state_dir) / "agent.token";
}

absl::Status Enrol(const AgentConfig& config, const std::string& token) {
  rpc::ChannelOptions options;
  options.address = config.server;
  options.token = token;
  options.ca_file = config.ca_file;
  GQ_ASSIGN_OR_RETURN(const std::shared_ptr<rpc::Channel> channel, rpc::Channel::Create(options));
  const auto stub = gq::v1::AdminService::NewStub(channel->grpc());
  grpc::ClientContext context;
  channel->Prepare(context, rpc::kUnaryTimeout);
  gq::v1::ClaimEnrolmentResponse response;
  const grpc::Status status =
      stub->ClaimEnrolment(&context, gq::v1::ClaimEnrolmentRequest(), &response);
  if (!status.ok()) return rpc::FromGrpcStatus(status);
  if (response.agent() != config.name) {
    return MakeError(Reason::kInvalidFlag,
                     StrCat("the enrolment token was for agent '", response.agent(), "', not '",
                            config.name, "'"),
                     StrCat("Make a new one: gq agents enroll --name ", config.name, "."));
  }
  GQ_RETURN_IF_ERROR(base::MakeFolder(config.state_dir));
  const fs::path path = IdentityFile(config);
  // Nobody else may read it, not even for a moment.
  const mode_t before = ::umask(S_IRWXG | S_IRWXO);
  const absl::Status written = base::WriteFileAtomically(path, response.token() + "\n", true);
  ::umask(before);
  GQ_RETURN_IF_ERROR(written);
  if (::chmod(path.c_str(), S_IRUSR | S_IWUSR) == 0) return absl::OkStatus();
  return MakeError(Reason::kFileUnwritable, StrCat(path.string(), ": ", std::strerror(errno)));
}

}  // namespace gq::agent
