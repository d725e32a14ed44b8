// `gq logs`.
#include <string>

#include "client/cli/command.h"
#include "client/cli/job_follower.h"
#include "client/cli/job_text.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/log_tail.h"

namespace gq::cli {
namespace {

using base::StrCat;

struct LogFlags {
  std::string job;
  std::string since;
  bool follow = false;
  bool raw = false;
};

// The stored bytes as they are.
absl::StatusOr<rpc::LogEnd> CopyRaw(ServiceClient& client, Session& session,
                                    const std::string& job_id, rpc::LogPosition from, bool follow) {
  rpc::LogTailOptions options;
  options.follow = follow;
  options.stop = session.interrupt.token();
  return rpc::TailLog(
      client.channel(), job_id, from,
      [&session](rpc::LogPosition, std::string_view bytes) { session.console.PrintAlways(bytes); },
      options);
}

absl::StatusOr<int> ShowLog(ServiceClient& client, Session& session, const LogFlags& flags) {
  GQ_ASSIGN_OR_RETURN(const gq::v1::Job job, client.GetJob(flags.job));
  rpc::LogPosition from;
  if (!flags.since.empty()) {
    GQ_ASSIGN_OR_RETURN(from, rpc::ParseLogPosition(flags.since));
  }
  rpc::LogPosition position = from;
  if (flags.raw) {
    const auto end = CopyRaw(client, session, job.id(), from, flags.follow);
    if (!end.ok() && !session.interrupt.raised()) return end.status();
    if (!end.ok()) return 1;
    position = end->position;
  } else {
    GQ_ASSIGN_OR_RETURN(const FollowResult result, FollowJob(client, job, session.console,
                                                             {.from = from, .follow = flags.follow},
                                                             session.interrupt.token()));
    position = result.position;
    if (result.detached) {
      session.console.Note(StrCat("stopped; job ", job.id(), " goes on\n  follow: gq logs ",
                                  job.id(), " -f --since ", rpc::FormatLogPosition(position)));
      return 1;
    }
  }
  if (!HasEnded(job.state()) && !flags.follow) {
    session.console.Note(StrCat("the job goes on; the rest: gq logs ", job.id(), " -f --since ",
                                rpc::FormatLogPosition(position)));
  }
  return 0;
}

}  // namespace

void AddLogCommand(CLI::App& root, CommandSet& commands) {
  auto flags = std::make_shared<LogFlags>();
  auto client_flags = std::make_shared<std::shared_ptr<ClientFlags>>();
  CLI::App* command = commands.Add(
      root, "logs", "Print the log of a job.",
      "gq logs @last\ngq logs @last -f\ngq logs 01K -f --since 2:4096\ngq logs 01K --raw > job.log",
      [&commands, flags, client_flags]() -> absl::StatusOr<int> {
        Session& session = commands.session();
        GQ_ASSIGN_OR_RETURN(const auto client, Connect(session, **client_flags));
        return ShowLog(*client, session, *flags);
      });
  command->add_option("JOB", flags->job, "Id, a unique prefix of one, or @last.")->required();
  command->add_flag("-f,--follow", flags->follow, "Go on until the job has ended.");
  command->add_option("--since", flags->since, "Begin at this place of the stored log.")
      ->type_name("ATTEMPT:OFFSET");
  command->add_flag("--raw", flags->raw, "The stored bytes as they are.");
  *client_flags = commands.AddClientFlags(*command);
  command->add_flag("-q,--quiet", (*client_flags)->show.quiet,
                    "Of a step's messages, show warnings and errors only.");
  command->add_flag("-v,--verbose", (*client_flags)->show.verbose, "Show DEBUG lines too.");
}

}  // namespace gq::cli
