#include "server/api/admin_service.h"

#include "common/base/status.h"

namespace gq::server {
namespace {

constexpr absl::Duration kBlobAge = absl::Hours(1);
constexpr absl::Duration kOnlineWithin = absl::Seconds(90);

}  // namespace

grpc::ServerUnaryReactor* AdminService::GetStatus(grpc::CallbackServerContext* context,
                                                  const gq::v1::GetStatusRequest*,
                                                  gq::v1::ServerStatus* response) {
  return RunCall(
      backend_, context, "AdminService.GetStatus", [=, this](const Caller& caller) -> absl::Status {
        GQ_RETURN_IF_ERROR(RequireRole(caller.principal, Role::kAdmin));
        response->set_version(backend_.version);
        SetTime(backend_.start_time, response->mutable_start_time());
        GQ_ASSIGN_OR_RETURN(const int64_t epoch, backend_.ledger.Epoch());
        response->set_epoch(epoch);
        GQ_ASSIGN_OR_RETURN(const auto jobs, backend_.ledger.CountJobs());
        for (const auto& [state, count] : jobs) (*response->mutable_jobs())[state] = count;
        GQ_ASSIGN_OR_RETURN(const auto agents, backend_.ledger.ListAgents());
        int online = 0;
        for (const Agent& agent : agents) {
          online += agent.connected && agent.last_seen + kOnlineWithin >= backend_.clock.Now();
        }
        response->set_agents_online(online);
        GQ_ASSIGN_OR_RETURN(const int64_t bytes, backend_.ledger.BlobBytes());
        response->set_blob_bytes(bytes);
        response->set_disk_free_bytes(backend_.blobs.FreeBytes());
        response->set_draining(backend_.scheduler.draining());
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* AdminService::Backup(grpc::CallbackServerContext* context,
                                               const gq::v1::BackupRequest* request,
                                               gq::v1::BackupResponse* response) {
  return RunCall(
      backend_, context, "AdminService.Backup", [=, this](const Caller& caller) -> absl::Status {
        GQ_RETURN_IF_ERROR(RequireRole(caller.principal, Role::kAdmin));
        if (request->path().empty() || request->path().front() != '/') {
          return base::MakeError(base::Reason::kInvalidFlag, "`path` must be an absolute path");
        }
        GQ_ASSIGN_OR_RETURN(const int64_t size,
                            backend_.ledger.Backup(caller.AsActor(), request->path()));
        response->set_size_bytes(size);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* AdminService::CollectGarbage(grpc::CallbackServerContext* context,
                                                       const gq::v1::CollectGarbageRequest* request,
                                                       gq::v1::CollectGarbageResponse* response) {
  return RunCall(backend_, context, "AdminService.CollectGarbage",
                 [=, this](const Caller& caller) -> absl::Status {
                   GQ_RETURN_IF_ERROR(RequireRole(caller.principal, Role::kAdmin));
                   GQ_ASSIGN_OR_RETURN(const BlobStore::Collected collected,
                                       backend_.blobs.CollectGarbage(kBlobAge, request->dry_run()));
                   response->set_blobs(collected.blobs);
                   response->set_bytes(collected.bytes);
                   return absl::OkStatus();
                 });
}

}  // namespace gq::server
