// `gq boards ...`.
#include <functional>
#include <string>

#include "absl/time/clock.h"
#include "client/cli/command.h"
#include "client/cli/job_text.h"
#include "client/cli/table.h"
#include "common/base/log_format.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/job/flags.h"

namespace gq::cli {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;
using gq::v1::Board;
using gq::v1::BoardService;

std::string StateText(const Board& board) {
  return WithoutPrefix(gq::v1::BoardState_Name(board.state()), "BOARD_STATE_");
}
std::string HealthText(const Board& board) {
  return WithoutPrefix(gq::v1::BoardHealth_Name(board.health()), "BOARD_HEALTH_");
}

std::string ReservationText(const Board& board, absl::TimeZone zone) {
  if (board.reserved_by().empty()) return "";
  return StrCat(board.reserved_by(), " until ",
                absl::FormatTime("%Y-%m-%d %H:%M", ToTime(board.reserved_until()), zone));
}

void ShowTable(Console& console, const std::vector<Board>& boards) {
  if (console.options().json) {
    for (const Board& board : boards) console.PrintJson(ToJson(board));
    return;
  }
  Table table(
      {"NAME", "DEVICE", "BACKEND", "STATE", "HEALTH", "JOB", "RESERVED", "SCHEMES", "TAGS"});
  for (const Board& board : boards) {
    table.Add({board.simulated() ? StrCat(board.name(), " (simulated)") : board.name(),
               board.device(), board.backend(), StateText(board), HealthText(board), board.job_id(),
               ReservationText(board, console.zone()), base::StrJoin(board.schemes(), ","),
               base::StrJoin(board.tags(), ",")});
  }
  console.Print(boards.empty() ? "no board is registered\n" : table.Render());
}

void ShowDetails(Console& console, const Board& board) {
  if (console.options().json) return console.PrintJson(ToJson(board));
  std::string text;
  const auto line = [&text](std::string_view name, const std::string& value) {
    if (!value.empty()) base::StrAppend(&text, name, base::StripControl(value), "\n");
  };
  line("Board      ", board.simulated() ? StrCat(board.name(), " (simulated)") : board.name());
  line("Device     ", board.device());
  line("Backend    ", board.backend());
  line("Agent      ", board.agent());
  line("State      ", StateText(board));
  line("Health     ", board.health_detail().empty()
                          ? HealthText(board)
                          : StrCat(HealthText(board), ": ", board.health_detail()));
  line("Reserved   ", ReservationText(board, console.zone()));
  line("Job        ", board.job_id());
  line("Schemes    ", base::StrJoin(board.schemes(), ", "));
  line("Tags       ", base::StrJoin(board.tags(), ", "));
  line("Can do     ", base::StrJoin(board.capabilities(), ", "));
  line("Facts      ", board.facts_json());
  for (const std::string& absent : board.absent()) line("Absent     ", absent);
  if (board.has_last_seen()) {
    line("Last seen  ",
         StrCat(base::FormatDuration(absl::Now() - ToTime(board.last_seen())), " ago"));
  }
  console.Print(text);
}

absl::StatusOr<gq::v1::BoardHealth> HealthFromText(const std::string& text) {
  if (text == "good") return gq::v1::BOARD_HEALTH_GOOD;
  if (text == "bad") return gq::v1::BOARD_HEALTH_BAD;
  if (text == "maintenance") return gq::v1::BOARD_HEALTH_MAINTENANCE;
  return MakeError(Reason::kInvalidFlag, StrCat("--set '", text, "' is unknown"),
                   "good, bad or maintenance");
}

struct BoardFlags {
  std::string board;
  std::string note;
  std::string time = "1h";
  std::string health;
  bool check = false;
};

using BoardBody = std::function<absl::StatusOr<int>(ServiceClient&, Console&, const BoardFlags&)>;

// A command about one board (or, with `argument` PATTERN, several).
CLI::App* AddBoardCommand(CLI::App& parent, CommandSet& commands, const std::string& name,
                          const std::string& description, const std::string& examples,
                          const std::string& argument, std::shared_ptr<BoardFlags> flags,
                          BoardBody body) {
  auto client_flags = std::make_shared<std::shared_ptr<ClientFlags>>();
  CLI::App* command =
      commands.Add(parent, name, description, examples,
                   [&commands, flags, client_flags, body]() -> absl::StatusOr<int> {
                     Session& session = commands.session();
                     GQ_ASSIGN_OR_RETURN(const auto client, Connect(session, **client_flags));
                     return body(*client, session.console, *flags);
                   });
  if (!argument.empty()) {
    command
        ->add_option(argument, flags->board,
                     argument == "PATTERN" ? "Names; * stands for any characters." : "Name.")
        ->required();
  }
  *client_flags = commands.AddClientFlags(*command);
  return command;
}

BoardBody DrainBody(bool drain) {
  return [drain](ServiceClient& client, Console& console,
                 const BoardFlags& flags) -> absl::StatusOr<int> {
    gq::v1::DrainBoardsRequest request;
    request.set_pattern(flags.board);
    request.set_drain(drain);
    GQ_ASSIGN_OR_RETURN(const gq::v1::DrainBoardsResponse response,
                        client.Call(&BoardService::Stub::DrainBoards, request));
    ShowTable(console, {response.boards().begin(), response.boards().end()});
    return 0;
  };
}

absl::StatusOr<int> ShowAnswer(Console& console, const absl::StatusOr<Board>& board) {
  if (!board.ok()) return board.status();
  ShowTable(console, {*board});
  return 0;
}

absl::StatusOr<int> Reserve(ServiceClient& client, Console& console, const BoardFlags& flags) {
  GQ_ASSIGN_OR_RETURN(const int64_t seconds, job::ParseSeconds("for", flags.time));
  gq::v1::ReserveBoardRequest request;
  request.set_name(flags.board);
  request.mutable_until()->set_seconds(absl::ToUnixSeconds(absl::Now()) + seconds);
  request.set_note(flags.note);
  return ShowAnswer(console, client.Call(&BoardService::Stub::ReserveBoard, request));
}

absl::StatusOr<int> Health(ServiceClient& client, Console& console, const BoardFlags& flags) {
  if (!flags.health.empty()) {
    gq::v1::SetBoardHealthRequest request;
    request.set_name(flags.board);
    GQ_ASSIGN_OR_RETURN(const gq::v1::BoardHealth health, HealthFromText(flags.health));
    request.set_health(health);
    request.set_note(flags.note);
    return ShowAnswer(console, client.Call(&BoardService::Stub::SetBoardHealth, request));
  }
  if (flags.check) {
    gq::v1::RunHealthCheckRequest request;
    request.set_name(flags.board);
    return ShowAnswer(console, client.Call(&BoardService::Stub::RunHealthCheck, request));
  }
  gq::v1::GetBoardRequest request;
  request.set_name(flags.board);
  GQ_ASSIGN_OR_RETURN(const Board board, client.Call(&BoardService::Stub::GetBoard, request));
  ShowDetails(console, board);
  return 0;
}

void AddChanges(CLI::App& boards, CommandSet& commands) {
  auto reserve = std::make_shared<BoardFlags>();
  CLI::App* command = AddBoardCommand(
      boards, commands, "reserve", "Keep a board for yourself for a time.",
      "gq boards reserve lab-3 --for 2h --note \"demo\"", "BOARD", reserve, Reserve);
  command->add_option("--for", reserve->time, "How long, like 30m or 2h. [1h]")->type_name("TIME");
  command->add_option("--note", reserve->note, "Why, for others to see.")->type_name("TEXT");

  AddBoardCommand(boards, commands, "release", "End a reservation.", "gq boards release lab-3",
                  "BOARD", std::make_shared<BoardFlags>(),
                  [](ServiceClient& client, Console& console, const BoardFlags& flags) {
                    gq::v1::ReleaseBoardRequest request;
                    request.set_name(flags.board);
                    return ShowAnswer(console,
                                      client.Call(&BoardService::Stub::ReleaseBoard, request));
                  });
  AddBoardCommand(boards, commands, "drain", "Hand no more work to boards.",
                  "gq boards drain 'lab-*'", "PATTERN", std::make_shared<BoardFlags>(),
                  DrainBody(true));
  AddBoardCommand(boards, commands, "undrain", "Hand work to drained boards again.",
                  "gq boards undrain 'lab-*'", "PATTERN", std::make_shared<BoardFlags>(),
                  DrainBody(false));

  auto quarantine = std::make_shared<BoardFlags>();
  AddBoardCommand(boards, commands, "quarantine", "Set a board aside for maintenance.",
                  "gq boards quarantine lab-3 --note \"fan is broken\"", "BOARD", quarantine,
                  [](ServiceClient& client, Console& console, const BoardFlags& flags) {
                    BoardFlags changed = flags;
                    changed.health = "maintenance";
                    return Health(client, console, changed);
                  })
      ->add_option("--note", quarantine->note, "Why, for others to see.")
      ->type_name("TEXT");

  auto health = std::make_shared<BoardFlags>();
  command = AddBoardCommand(boards, commands, "health", "Show, check or set the health of a board.",
                            "gq boards health lab-3\ngq boards health lab-3 --check\n"
                            "gq boards health lab-3 --set good --note \"fan replaced\"",
                            "BOARD", health, Health);
  command->add_flag("--check", health->check, "Ask for a health check.");
  command->add_option("--set", health->health, "Set it: good, bad or maintenance.")
      ->type_name("HEALTH");
  command->add_option("--note", health->note, "Why, for others to see.")->type_name("TEXT");

  AddBoardCommand(
      boards, commands, "remove", "Remove a board; its history stays.", "gq boards remove lab-3",
      "BOARD", std::make_shared<BoardFlags>(),
      [](ServiceClient& client, Console& console, const BoardFlags& flags) -> absl::StatusOr<int> {
        gq::v1::RemoveBoardRequest request;
        request.set_name(flags.board);
        GQ_RETURN_IF_ERROR(client.Call(&BoardService::Stub::RemoveBoard, request).status());
        console.Print(StrCat(flags.board, " removed\n"));
        if (console.options().json) console.PrintJson({{"removed", flags.board}});
        return 0;
      });
}

}  // namespace

void AddBoardCommands(CLI::App& root, CommandSet& commands) {
  CLI::App& boards =
      *commands.AddGroup(root, "boards", "List boards and control who may use them.");
  AddBoardCommand(
      boards, commands, "list", "List the registered boards.", "gq boards list", "",
      std::make_shared<BoardFlags>(),
      [](ServiceClient& client, Console& console, const BoardFlags&) -> absl::StatusOr<int> {
        GQ_ASSIGN_OR_RETURN(
            const gq::v1::ListBoardsResponse response,
            client.Call(&BoardService::Stub::ListBoards, gq::v1::ListBoardsRequest()));
        ShowTable(console, {response.boards().begin(), response.boards().end()});
        return 0;
      });
  AddBoardCommand(boards, commands, "show", "Show one board.", "gq boards show ve2-sim", "BOARD",
                  std::make_shared<BoardFlags>(), Health);
  AddChanges(boards, commands);
}

}  // namespace gq::cli
