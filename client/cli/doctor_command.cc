// `gq doctor`: is everything there that a job needs, and if not, what to do.
#include <filesystem>
#include <string>
#include <vector>

#include "client/cli/command.h"
#include "client/cli/local_server.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::cli {
namespace {

using base::StrCat;

enum class Finding { kGood, kNote, kBad };

class Doctor {
 public:
  explicit Doctor(Console& console) : console_(console) {}

  void Add(Finding finding, const std::string& name, const std::string& text,
           const std::string& hint = "") {
    constexpr std::string_view kWords[] = {"ok", "note", "bad"};
    const std::string_view word = kWords[static_cast<int>(finding)];
    if (finding == Finding::kBad) bad_ = true;
    if (console_.options().json) {
      nlohmann::ordered_json line = {{"check", name}, {"finding", word}, {"text", text}};
      if (!hint.empty()) line["hint"] = hint;
      return console_.PrintJson(line);
    }
    std::string line = StrCat(word, std::string(6 - word.size(), ' '), name, ": ", text, "\n");
    if (!hint.empty()) base::StrAppend(&line, "      hint: ", hint, "\n");
    console_.Print(line);
  }

  bool bad() const { return bad_; }

 private:
  Console& console_;
  bool bad_ = false;
};

void CheckPrograms(Doctor& doctor) {
  for (const char* name : {"gq-server", "gq-worker", "gq-agent"}) {
    const std::filesystem::path path = FindProgram(name);
    if (path.empty()) {
      doctor.Add(Finding::kNote, name, "not on this host",
                 "needed for --local and for a server of your own only");
    } else {
      doctor.Add(Finding::kGood, name, path.string());
    }
  }
}

void CheckBoards(Doctor& doctor, ServiceClient& client) {
  const auto boards =
      client.Call(&gq::v1::BoardService::Stub::ListBoards, gq::v1::ListBoardsRequest());
  if (!boards.ok()) {
    doctor.Add(Finding::kBad, "boards", std::string(boards.status().message()));
    return;
  }
  int usable = 0;
  for (const gq::v1::Board& board : boards->boards()) {
    usable += board.state() != gq::v1::BOARD_STATE_OFFLINE &&
              (board.health() == gq::v1::BOARD_HEALTH_GOOD ||
               board.health() == gq::v1::BOARD_HEALTH_UNKNOWN);
  }
  doctor.Add(usable > 0 ? Finding::kGood : Finding::kBad, "boards",
             StrCat(usable, " of ", boards->boards_size(), " can take work"),
             usable > 0 ? "" : "'gq boards list' shows what is wrong with each");
}

void CheckServer(Doctor& doctor, Session& session, const ClientFlags& flags) {
  const auto choice = ChooseServer(flags.server, session.environment);
  if (!choice.ok()) {
    doctor.Add(Finding::kBad, "context", std::string(choice.status().message()),
               base::GetHint(choice.status()));
    return;
  }
  doctor.Add(Finding::kGood, "address", StrCat(choice->channel.address, " (", choice->source, ")"));
  const auto client = session.Connect(flags.server);
  if (!client.ok()) {
    doctor.Add(Finding::kBad, "connection", std::string(client.status().message()),
               base::GetHint(client.status()));
    return;
  }
  gq::v1::ListJobsRequest request;
  request.set_page_size(1);
  const auto jobs = (*client)->Call(&gq::v1::JobService::Stub::ListJobs, request);
  if (!jobs.ok()) {
    doctor.Add(Finding::kBad, "server", std::string(jobs.status().message()),
               base::GetHint(jobs.status()));
    return;
  }
  const auto status =
      (*client)->Call(&gq::v1::AdminService::Stub::GetStatus, gq::v1::GetStatusRequest());
  if (status.ok()) {
    doctor.Add(Finding::kGood, "server", StrCat("gq ", status->version()));
    doctor.Add(status->agents_online() > 0 ? Finding::kGood : Finding::kBad, "workers and agents",
               StrCat(status->agents_online(), " connected"),
               status->agents_online() > 0 ? "" : "the server's log says why none came up");
  } else {
    doctor.Add(Finding::kGood, "server", "answers");
  }
  CheckBoards(doctor, **client);
}

}  // namespace

void AddDoctorCommand(CLI::App& root, CommandSet& commands) {
  auto flags = std::make_shared<std::shared_ptr<ClientFlags>>();
  CLI::App* command =
      commands.Add(root, "doctor", "Check the installation and the connection to the server.",
                   "gq doctor", [&commands, flags]() -> absl::StatusOr<int> {
                     Session& session = commands.session();
                     session.console.Configure((*flags)->show);
                     Doctor doctor(session.console);
                     doctor.Add(Finding::kGood, "client", StrCat("gq ", GQ_VERSION));
                     CheckPrograms(doctor);
                     CheckServer(doctor, session, **flags);
                     return doctor.bad() ? 1 : 0;
                   });
  *flags = commands.AddClientFlags(*command);
}

}  // namespace gq::cli
