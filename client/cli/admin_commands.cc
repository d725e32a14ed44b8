// `gq admin ...`.
#include <filesystem>
#include <map>
#include <string>

#include "absl/time/clock.h"
#include "client/cli/command.h"
#include "client/cli/job_text.h"
#include "common/base/log_format.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/report/json_view.h"

namespace gq::cli {
namespace {

using base::StrCat;
using gq::v1::AdminService;

constexpr absl::Duration kBackupTimeout = absl::Minutes(30);
constexpr absl::Duration kCollectTimeout = absl::Minutes(30);

absl::StatusOr<int> ShowStatus(ServiceClient& client, Console& console) {
  GQ_ASSIGN_OR_RETURN(const gq::v1::ServerStatus status,
                      client.Call(&AdminService::Stub::GetStatus, gq::v1::GetStatusRequest()));
  if (console.options().json) {
    console.PrintJson(ToJson(status));
    return 0;
  }
  std::string text =
      StrCat("Server   gq ", base::StripControl(status.version()), " at ",
             client.channel().address(), status.draining() ? ", draining" : "", "\nUp       ",
             base::FormatDuration(absl::Now() - ToTime(status.start_time())), ", start number ",
             status.epoch(), "\nAgents   ", status.agents_online(), " connected\nBlobs    ",
             report::FormatBytes(static_cast<double>(status.blob_bytes())), "\nDisk     ",
             report::FormatBytes(static_cast<double>(status.disk_free_bytes())), " free\nJobs    ");
  const std::map<std::string, int64_t> jobs(status.jobs().begin(), status.jobs().end());
  for (const auto& [state, count] : jobs) {
    base::StrAppend(&text, " ", count, " ", base::StripControl(state));
  }
  console.Print(text + (jobs.empty() ? " none\n" : "\n"));
  return 0;
}

template <typename Body>
CLI::App* AddAdminCommand(CLI::App& parent, CommandSet& commands, const std::string& name,
                          const std::string& description, const std::string& examples, Body body) {
  auto client_flags = std::make_shared<std::shared_ptr<ClientFlags>>();
  CLI::App* command =
      commands.Add(parent, name, description, examples,
                   [&commands, client_flags, body]() -> absl::StatusOr<int> {
                     Session& session = commands.session();
                     GQ_ASSIGN_OR_RETURN(const auto client, Connect(session, **client_flags));
                     return body(*client, session.console);
                   });
  *client_flags = commands.AddClientFlags(*command);
  return command;
}

}  // namespace

void AddAdminCommands(CLI::App& root, CommandSet& commands) {
  CLI::App& admin = *commands.AddGroup(root, "admin", "Look after the server.");
  AddAdminCommand(admin, commands, "status", "Show the state of the server.", "gq admin status",
                  ShowStatus);

  auto path = std::make_shared<std::string>();
  AddAdminCommand(
      admin, commands, "backup", "Write a consistent copy of the ledger.",
      "gq admin backup --to /backup/gq-monday.db",
      [path](ServiceClient& client, Console& console) -> absl::StatusOr<int> {
        gq::v1::BackupRequest request;
        request.set_path(std::filesystem::absolute(*path).string());
        GQ_ASSIGN_OR_RETURN(const gq::v1::BackupResponse response,
                            client.Call(&AdminService::Stub::Backup, request, kBackupTimeout));
        console.Print(StrCat(request.path(), ": ",
                             report::FormatBytes(static_cast<double>(response.size_bytes())),
                             "\n"));
        if (console.options().json) {
          console.PrintJson({{"path", request.path()}, {"size_bytes", response.size_bytes()}});
        }
        return 0;
      })
      ->add_option("--to", *path, "File to write, on the server's host; must not exist.")
      ->required()
      ->type_name("FILE");

  auto dry_run = std::make_shared<bool>(false);
  AddAdminCommand(
      admin, commands, "gc", "Delete blobs that nothing refers to.", "gq admin gc --dry-run",
      [dry_run](ServiceClient& client, Console& console) -> absl::StatusOr<int> {
        gq::v1::CollectGarbageRequest request;
        request.set_dry_run(*dry_run);
        GQ_ASSIGN_OR_RETURN(
            const gq::v1::CollectGarbageResponse response,
            client.Call(&AdminService::Stub::CollectGarbage, request, kCollectTimeout));
        console.Print(StrCat(*dry_run ? "would delete " : "deleted ", response.blobs(), " blobs, ",
                             report::FormatBytes(static_cast<double>(response.bytes())), "\n"));
        if (console.options().json) console.PrintJson(ToJson(response));
        return 0;
      })
      ->add_flag("--dry-run", *dry_run, "Only say what would be deleted.");
}

}  // namespace gq::cli
