// `gq jobs ...` and `gq ledger`.
#include <string>

#include "absl/time/clock.h"
#include "client/cli/command.h"
#include "client/cli/job_follower.h"
#include "client/cli/job_text.h"
#include "client/cli/table.h"
#include "common/base/log_format.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/status_mapping.h"

namespace gq::cli {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;
using gq::v1::JobService;

// Title of the step that a job is at; empty when it has ended.
std::string CurrentStep(const gq::v1::Job& job) {
  if (HasEnded(job.state())) return "";
  for (const gq::v1::Step& step : job.steps()) {
    if (step.state() == gq::v1::STEP_STATE_RUNNING || step.state() == gq::v1::STEP_STATE_QUEUED) {
      return StrCat("[", step.index() + 1, "/", job.steps_size(), "] ", step.title());
    }
  }
  return "";
}

std::string Age(const gq::v1::Job& job) {
  return job.has_create_time() ? base::FormatDuration(absl::Now() - ToTime(job.create_time())) : "";
}

std::string Time(const google::protobuf::Timestamp& time, absl::TimeZone zone) {
  return absl::FormatTime("%Y-%m-%d %H:%M.%S", ToTime(time), zone);
}

struct ListFlags {
  int limit = 50;
  std::vector<std::string> states;
  std::string principal;
  std::string name;
  std::vector<std::string> labels;
};

absl::StatusOr<gq::v1::JobState> StateFromText(const std::string& text) {
  std::string upper = text;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  gq::v1::JobState state;
  if (gq::v1::JobState_Parse("JOB_STATE_" + upper, &state)) return state;
  return MakeError(Reason::kInvalidFlag, StrCat("--state '", text, "' is unknown"),
                   "queued, running, cancelling, succeeded, failed or cancelled");
}

absl::StatusOr<int> ListJobs(ServiceClient& client, Console& console, const ListFlags& flags) {
  gq::v1::ListJobsRequest request;
  request.set_principal(flags.principal);
  request.set_name_contains(flags.name);
  for (const std::string& text : flags.states) {
    GQ_ASSIGN_OR_RETURN(const gq::v1::JobState state, StateFromText(text));
    request.add_states(state);
  }
  for (const std::string& label : flags.labels) {
    const size_t equals = label.find('=');
    if (equals == std::string::npos) {
      return MakeError(Reason::kInvalidFlag, StrCat("--label '", label, "': expected KEY=VALUE"));
    }
    (*request.mutable_labels())[label.substr(0, equals)] = label.substr(equals + 1);
  }
  Table table({"ID", "NAME", "KIND", "STATE", "STEP", "VERDICT", "AGE", "MODEL", "BY"});
  int left = flags.limit;
  do {
    request.set_page_size(std::min(left, 1000));
    GQ_ASSIGN_OR_RETURN(const gq::v1::ListJobsResponse page,
                        client.Call(&JobService::Stub::ListJobs, request));
    for (const gq::v1::Job& job : page.jobs()) {
      if (console.options().json) {
        console.PrintJson(ToJson(job));
      } else {
        table.Add({job.id(), job.spec().name(), KindText(job.spec().kind()), StateText(job.state()),
                   CurrentStep(job), VerdictText(job.verdict()), Age(job),
                   job.spec().model().file().name(), job.principal()});
      }
    }
    left -= page.jobs_size();
    request.set_page_token(page.next_page_token());
  } while (left > 0 && !request.page_token().empty());
  console.Print(table.Render());
  return 0;
}

void ShowSteps(const gq::v1::Job& job, Console& console) {
  Table table({"STEP", "STATE", "TRIES", "TIME", "WHERE", "NOTE"});
  for (const gq::v1::Step& step : job.steps()) {
    std::string time;
    std::string where;
    std::string note = step.skip_reason();
    if (step.attempts_size() > 0) {
      const gq::v1::Attempt& last = step.attempts(step.attempts_size() - 1);
      const absl::Time end = last.has_end_time() ? ToTime(last.end_time()) : absl::Now();
      time = base::FormatDuration(end - ToTime(last.start_time()));
      where = last.board().empty() ? last.agent() : StrCat(last.agent(), " ", last.board());
      if (last.has_failure())
        note = StrCat(last.failure().message(), " (", last.failure().reason(), ")");
    }
    if (step.state() == gq::v1::STEP_STATE_RUNNING && step.has_progress()) {
      note = ProgressText(step.progress());
    }
    table.Add({StrCat("[", step.index() + 1, "/", job.steps_size(), "] ", step.title()),
               StateText(step.state()), StrCat(step.attempts_size()), time, where, note});
  }
  console.Print(StrCat("\n", table.Render()));
}

absl::StatusOr<int> ShowJob(ServiceClient& client, Console& console, const std::string& id) {
  GQ_ASSIGN_OR_RETURN(const gq::v1::Job job, client.GetJob(id));
  if (console.options().json) {
    console.PrintJson(ToJson(job));
    return 0;
  }
  std::string text = StrCat("Job      ", job.id(), "\n");
  const auto line = [&text](std::string_view name, const std::string& value) {
    if (!value.empty()) base::StrAppend(&text, name, base::StripControl(value), "\n");
  };
  line("Name     ", job.spec().name());
  line("Kind     ", KindText(job.spec().kind()));
  line("State    ", StateText(job.state()));
  line("Verdict  ", VerdictText(job.verdict()));
  line("Waiting  ", job.waiting_reason());
  line("Model    ", job.spec().model().file().name());
  line("Device   ", job.spec().device());
  line("Scheme   ", job.spec().scheme());
  line("Note     ", job.spec().note());
  line("By       ", job.principal());
  if (job.has_create_time()) line("Created  ", Time(job.create_time(), console.zone()));
  if (job.has_start_time()) line("Started  ", Time(job.start_time(), console.zone()));
  if (job.has_end_time()) line("Ended    ", Time(job.end_time(), console.zone()));
  if (job.has_failure()) {
    line("Failure  ", StrCat(job.failure().message(), " (", job.failure().reason(), ")"));
    line("Hint     ", job.failure().hint());
  }
  console.Print(text);
  ShowSteps(job, console);
  return 0;
}

absl::StatusOr<int> WaitForJob(ServiceClient& client, Session& session, const std::string& id) {
  GQ_ASSIGN_OR_RETURN(const gq::v1::Job job, client.GetJob(id));
  GQ_ASSIGN_OR_RETURN(
      const FollowResult result,
      FollowJob(client, job, session.console, {.show_log = false}, session.interrupt.token()));
  if (result.detached) {
    return MakeError(Reason::kCancelled, StrCat("stopped waiting; job ", job.id(), " goes on"));
  }
  const int code = ExitCodeOf(result.job);
  if (session.console.options().json) {
    session.console.PrintJson({{"event", "result"},
                               {"job", result.job.id()},
                               {"state", StateText(result.job.state())},
                               {"verdict", VerdictText(result.job.verdict())},
                               {"exit_code", code}});
  } else {
    const std::string verdict = VerdictText(result.job.verdict());
    session.console.Print(StrCat(result.job.id(), " ", StateText(result.job.state()),
                                 verdict.empty() ? "" : ", ", verdict, "\n"));
  }
  if (result.job.state() == gq::v1::JOB_STATE_FAILED) {
    session.console.PrintError(rpc::FromFailure(result.job.failure()));
  }
  return code;
}

// Prints what became of a job that a call changed.
absl::StatusOr<int> ShowChanged(Console& console, const absl::StatusOr<gq::v1::Job>& job) {
  if (!job.ok()) return job.status();
  if (console.options().json) {
    console.PrintJson(ToJson(*job));
  } else {
    console.Print(StrCat(job->id(), " ", StateText(job->state()), "\n"));
  }
  return 0;
}

absl::StatusOr<int> ShowLedger(ServiceClient& client, Console& console, const std::string& id) {
  GQ_ASSIGN_OR_RETURN(const gq::v1::Job job, client.GetJob(id));
  GQ_ASSIGN_OR_RETURN(const auto iterations, client.ListIterations(job.id()));
  Table table({"N", "KIND", "CANDIDATE", "DECISION", "FIGURES", "TIME"});
  for (const gq::v1::Iteration& iteration : iterations) {
    if (console.options().json) {
      auto row = ToJson(iteration);
      row.erase("resume_state");
      console.PrintJson(row);
      continue;
    }
    std::map<std::string, double> figures(iteration.metrics().begin(), iteration.metrics().end());
    std::string text;
    for (const auto& [name, value] : figures) {
      base::StrAppend(&text, text.empty() ? "" : " ", name, "=", value);
    }
    table.Add({StrCat(iteration.number()), iteration.kind(), iteration.candidate(),
               iteration.decision(), text,
               base::FormatDuration(absl::Seconds(iteration.seconds()))});
  }
  if (iterations.empty()) {
    console.Print("no iterations: the job explored nothing and compiled once\n");
  } else {
    console.Print(table.Render());
  }
  return 0;
}

// A command with one job as argument.
template <typename Body>
CLI::App* AddJobCommand(CLI::App& parent, CommandSet& commands, const std::string& name,
                        const std::string& description, const std::string& examples, Body body) {
  auto flags = std::make_shared<std::shared_ptr<ClientFlags>>();
  auto id = std::make_shared<std::string>();
  CLI::App* command = commands.Add(
      parent, name, description, examples, [&commands, flags, id, body]() -> absl::StatusOr<int> {
        Session& session = commands.session();
        GQ_ASSIGN_OR_RETURN(const auto client, Connect(session, **flags));
        return body(*client, session, *id);
      });
  command->add_option("JOB", *id, "Id, a unique prefix of one, or @last.")->required();
  *flags = commands.AddClientFlags(*command);
  return command;
}

void AddCancel(CLI::App& jobs, CommandSet& commands) {
  auto reason = std::make_shared<std::string>();
  AddJobCommand(jobs, commands, "cancel", "Ask a job to stop.",
                "gq jobs cancel @last\ngq jobs cancel 01K --reason \"wrong model\"",
                [reason](ServiceClient& client, Session& session,
                         const std::string& id) -> absl::StatusOr<int> {
                  GQ_ASSIGN_OR_RETURN(const gq::v1::Job job, client.GetJob(id));
                  gq::v1::CancelJobRequest request;
                  request.set_id(job.id());
                  request.set_reason(*reason);
                  return ShowChanged(session.console,
                                     client.Call(&JobService::Stub::CancelJob, request));
                })
      ->add_option("--reason", *reason, "Why, for the ledger.")
      ->type_name("TEXT");
}

void AddList(CLI::App& jobs, CommandSet& commands) {
  auto flags = std::make_shared<std::shared_ptr<ClientFlags>>();
  auto filter = std::make_shared<ListFlags>();
  CLI::App* list = commands.Add(jobs, "list", "List jobs, newest first.",
                                "gq jobs list\ngq jobs list --state running --state queued\n"
                                "gq jobs list --label team=vision --json",
                                [&commands, flags, filter]() -> absl::StatusOr<int> {
                                  Session& session = commands.session();
                                  GQ_ASSIGN_OR_RETURN(const auto client, Connect(session, **flags));
                                  return ListJobs(*client, session.console, *filter);
                                });
  list->add_option("-n,--limit", filter->limit, "Most jobs to show. [50]")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000));
  list->add_option("--state", filter->states, "Only jobs in this state; may be repeated.")
      ->type_name("STATE")
      ->allow_extra_args(false);
  list->add_option("--by", filter->principal, "Only jobs of this person.")->type_name("WHO");
  list->add_option("--name", filter->name, "Only jobs whose name contains this.")
      ->type_name("TEXT");
  list->add_option("--label", filter->labels, "Only jobs with this label; may be repeated.")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  *flags = commands.AddClientFlags(*list);
}

}  // namespace

void AddJobCommands(CLI::App& root, CommandSet& commands) {
  CLI::App& jobs = *commands.AddGroup(root, "jobs", "List, show, wait for and control jobs.");
  AddList(jobs, commands);
  AddJobCommand(jobs, commands, "show", "Show one job with its steps.", "gq jobs show @last",
                [](ServiceClient& client, Session& session, const std::string& id) {
                  return ShowJob(client, session.console, id);
                });
  AddJobCommand(jobs, commands, "wait",
                "Wait until a job has ended; the exit code is that of 'gq run'.",
                "gq jobs wait 01K && deploy",
                [](ServiceClient& client, Session& session, const std::string& id) {
                  return WaitForJob(client, session, id);
                });
  AddCancel(jobs, commands);
  AddJobCommand(
      jobs, commands, "retry",
      "Queue a failed or cancelled job again from the step that did not finish.",
      "gq jobs retry @last",
      [](ServiceClient& client, Session& session, const std::string& id) -> absl::StatusOr<int> {
        GQ_ASSIGN_OR_RETURN(const gq::v1::Job job, client.GetJob(id));
        gq::v1::RetryJobRequest request;
        request.set_id(job.id());
        return ShowChanged(session.console, client.Call(&JobService::Stub::RetryJob, request));
      });
  AddJobCommand(
      jobs, commands, "delete", "Delete a job that has ended, with its log and results.",
      "gq jobs delete 01K",
      [](ServiceClient& client, Session& session, const std::string& id) -> absl::StatusOr<int> {
        GQ_ASSIGN_OR_RETURN(const gq::v1::Job job, client.GetJob(id));
        gq::v1::DeleteJobRequest request;
        request.set_id(job.id());
        GQ_RETURN_IF_ERROR(client.Call(&JobService::Stub::DeleteJob, request).status());
        session.console.Print(StrCat(job.id(), " deleted\n"));
        if (session.console.options().json) {
          session.console.PrintJson({{"deleted", job.id()}});
        }
        return 0;
      });
  AddJobCommand(root, commands, "ledger", "List the iterations of a job with their decisions.",
                "gq ledger @last",
                [](ServiceClient& client, Session& session, const std::string& id) {
                  return ShowLedger(client, session.console, id);
                });
}

}  // namespace gq::cli
