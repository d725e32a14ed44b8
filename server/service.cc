#include "server/service.h"

#include <sys/stat.h>
#include <sys/un.h>

#include <chrono>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/channel.h"
#include "common/rpc/channel_args.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "server/api/admin_service.h"
#include "server/api/agent_service.h"
#include "server/api/blob_service.h"
#include "server/api/board_service.h"
#include "server/api/job_service.h"
#include "server/ledger/data_folder.h"
#include "server/ledger/sqlite_ledger.h"
#include "spdlog/spdlog.h"

namespace gq::server {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

// A step's report travels in one message.
constexpr int kMaxMessage = 32 << 20;
constexpr absl::Duration kSweepInterval = absl::Seconds(1);
constexpr auto kShutdownTime = std::chrono::milliseconds(500);

absl::Status CheckListen(const ServiceOptions& options) {
  if (options.listen.empty()) return absl::OkStatus();
  const size_t colon = options.listen.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == options.listen.size()) {
    return MakeError(Reason::kInvalidFlag, StrCat("--listen ", options.listen, " is not HOST:PORT"),
                     "e.g. --listen 127.0.0.1:7443");
  }
  const std::string_view host = std::string_view(options.listen).substr(0, colon);
  if (!rpc::IsLoopback(host) && !options.insecure_listen) {
    return MakeError(Reason::kInvalidFlag,
                     StrCat("--listen ", options.listen,
                            " can be reached from other hosts, and tokens would go there in clear"),
                     "listen on 127.0.0.1, or accept that with --insecure-listen");
  }
  return absl::OkStatus();
}

absl::Status CheckSocket(const std::filesystem::path& socket) {
  if (socket.string().size() < sizeof(sockaddr_un::sun_path)) return absl::OkStatus();
  return MakeError(Reason::kInvalidFlag,
                   StrCat("the socket path '", socket.string(), "' has more than ",
                          sizeof(sockaddr_un::sun_path) - 1, " bytes"),
                   "give a shorter one with --socket");
}

// One gRPC server with services of its own.
class Endpoint {
 public:
  explicit Endpoint(const Backend& backend)
      : jobs_(backend), agents_(backend), blobs_(backend), boards_(backend), admin_(backend) {}

  absl::Status Start(const std::string& address,
                     std::shared_ptr<grpc::ServerCredentials> credentials) {
    grpc::ServerBuilder builder;
    rpc::AddServerArguments(builder);
    builder.SetMaxReceiveMessageSize(kMaxMessage);
    builder.AddListeningPort(address, std::move(credentials), &port_);
    builder.RegisterService(&jobs_);
    builder.RegisterService(&agents_);
    builder.RegisterService(&blobs_);
    builder.RegisterService(&boards_);
    builder.RegisterService(&admin_);
    server_ = builder.BuildAndStart();
    if (!server_ || port_ == 0) {
      server_.reset();
      return MakeError(Reason::kInvalidFlag, StrCat("cannot listen on ", address),
                       "is another server running there? choose another address");
    }
    SetServing(true);
    return absl::OkStatus();
  }

  void SetServing(bool serving) {
    if (server_ && server_->GetHealthCheckService() != nullptr) {
      server_->GetHealthCheckService()->SetServingStatus(serving);
    }
  }

  void Stop() {
    if (server_) server_->Shutdown(std::chrono::system_clock::now() + kShutdownTime);
  }
  int port() const { return port_; }

 private:
  JobService jobs_;
  AgentService agents_;
  BlobService blobs_;
  BoardService boards_;
  AdminService admin_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

struct Service::Parts {
  Parts(const ServiceOptions& options_, DataFolder folder_, std::unique_ptr<SqliteLedger> ledger_,
        const base::Clock& clock)
      : options(options_),
        folder(std::move(folder_)),
        ledger(std::move(ledger_)),
        executor(options.threads),
        blob_executor(options.blob_threads),
        logs(folder.Logs(), options.log_cap, clock),
        blobs(folder.Blobs(), *ledger, options.limits.min_free_bytes),
        authenticator(clock),
        scheduler(*ledger, logs, hub, clock, options.times),
        backend{*ledger,  scheduler,     blobs, logs,           hub,        authenticator,
                executor, blob_executor, clock, options.limits, GQ_VERSION, clock.Now()} {}

  void ScheduleSweep() {
    executor.PostAfter(kSweepInterval, [this] {
      scheduler.Sweep();
      ScheduleSweep();
    });
  }

  const ServiceOptions options;
  DataFolder folder;
  std::unique_ptr<SqliteLedger> ledger;
  Executor executor;
  Executor blob_executor;
  ChangeHub hub;
  LogStore logs;
  BlobStore blobs;
  Authenticator authenticator;
  Scheduler scheduler;
  const Backend backend;
  std::filesystem::path socket;
  std::string listen_address;
  std::unique_ptr<Endpoint> local;
  std::unique_ptr<Endpoint> remote;
  std::unique_ptr<LocalChildren> children;
  bool stopped = false;
};

Service::Service(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Service::~Service() { Stop(); }

absl::StatusOr<std::unique_ptr<Service>> Service::Start(
    const ServiceOptions& options, const std::vector<std::string>& local_agents,
    const base::Clock& clock) {
  GQ_RETURN_IF_ERROR(CheckListen(options));
  GQ_ASSIGN_OR_RETURN(DataFolder folder, DataFolder::Open(options.data));
  const std::filesystem::path socket = options.socket.empty()
                                           ? folder.path() / "gq.sock"
                                           : std::filesystem::absolute(options.socket);
  GQ_RETURN_IF_ERROR(CheckSocket(socket));
  GQ_ASSIGN_OR_RETURN(auto ledger, SqliteLedger::Open(folder.Ledger(), clock));
  std::unique_ptr<Service> service(
      new Service(std::make_unique<Parts>(options, std::move(folder), std::move(ledger), clock)));
  Parts& parts = *service->parts_;
  parts.socket = socket;
  GQ_RETURN_IF_ERROR(EnsureAdminToken(parts.folder.path(), *parts.ledger));
  GQ_ASSIGN_OR_RETURN(auto tokens, parts.ledger->ListTokens());
  parts.authenticator.SetTokens(std::move(tokens));
  GQ_RETURN_IF_ERROR(parts.scheduler.Recover(local_agents));
  parts.ScheduleSweep();

  grpc::EnableDefaultHealthCheckService(true);
  if (!options.listen.empty()) {
    parts.remote = std::make_unique<Endpoint>(parts.backend);
    if (options.reflection) grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    GQ_RETURN_IF_ERROR(parts.remote->Start(options.listen, grpc::InsecureServerCredentials()));
    parts.listen_address =
        StrCat(options.listen.substr(0, options.listen.rfind(':')), ":", parts.remote->port());
  }
  // From here on every server that is built answers questions about its services.
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  parts.local = std::make_unique<Endpoint>(parts.backend);
  const mode_t mask = umask(0117);
  const absl::Status local = parts.local->Start(StrCat("unix:", socket.string()),
                                                grpc::experimental::LocalServerCredentials(UDS));
  umask(mask);
  GQ_RETURN_IF_ERROR(local);
  return service;
}

std::string Service::local_address() const { return StrCat("unix:", parts_->socket.string()); }
std::string Service::listen_address() const { return parts_->listen_address; }
const std::filesystem::path& Service::data() const { return parts_->folder.path(); }

void Service::StartChildren(std::vector<ChildCommand> commands) {
  parts_->children = std::make_unique<LocalChildren>(
      std::move(commands),
      [parts = parts_.get()](const std::string& name, const std::string& how, bool wanted) {
        const absl::Status status = parts->scheduler.AgentExited(name, how, !wanted);
        if (!status.ok()) spdlog::error("end of {} not recorded: {}", name, status.ToString());
      });
}

void Service::Drain(absl::Duration timeout) {
  parts_->scheduler.StartDraining();
  for (Endpoint* endpoint : {parts_->local.get(), parts_->remote.get()}) {
    if (endpoint != nullptr) endpoint->SetServing(false);
  }
  if (!parts_->children) return;
  parts_->children->Drain();
  if (!parts_->children->WaitUntilGone(timeout)) {
    spdlog::warn(
        "children are still at work after the drain time-out; their steps will be repeated");
  }
}

void Service::Stop() {
  if (parts_->stopped) return;
  parts_->stopped = true;
  // Agents that wait are answered now.
  parts_->scheduler.StartDraining();
  if (parts_->children) parts_->children->Stop();
  if (parts_->local) parts_->local->Stop();
  if (parts_->remote) parts_->remote->Stop();
  parts_->executor.Stop();
  parts_->blob_executor.Stop();
}

absl::Status Service::CheckHealth() { return parts_->ledger->CheckWritable(); }

}  // namespace gq::server
