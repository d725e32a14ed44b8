// `gq report` and `gq artifacts`.
#include <string>

#include "client/cli/command.h"
#include "client/cli/job_text.h"
#include "client/cli/results_folder.h"
#include "client/cli/table.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/report/html.h"
#include "common/report/json_view.h"
#include "common/report/summary.h"

namespace gq::cli {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

struct ReportFlags {
  std::string job;
  std::string output;
  bool html = false;
  bool markdown = false;
  bool junit = false;
  bool layers = false;
};

absl::StatusOr<int> ShowReport(ServiceClient& client, Session& session, const ReportFlags& flags) {
  const bool json = session.console.options().json;
  if (flags.html + flags.markdown + flags.junit + flags.layers + json > 1) {
    return MakeError(Reason::kInvalidFlag,
                     "--html, --json, --markdown, --junit and --layers exclude each other",
                     "give one of them");
  }
  GQ_ASSIGN_OR_RETURN(const gq::v1::Job job, client.GetJob(flags.job));
  GQ_ASSIGN_OR_RETURN(const std::string report, client.GetReport(job.id()));
  std::string text;
  if (flags.html) {
    text = report::ReportHtml(report);
  } else if (flags.markdown) {
    text = report::SummaryMarkdown(report);
  } else if (flags.junit) {
    text = report::JUnitXml(report);
  } else if (flags.layers) {
    text = report::LayersText(report);
    if (text.empty()) {
      return MakeError(Reason::kJobNotFinished,
                       StrCat("the report of job ", job.id(), " has no layers yet"),
                       "they come with Graph Quantize; 'gq jobs show' tells where the job is");
    }
  } else {
    text = json ? report : report::SummaryText(report);
  }
  if (flags.output.empty()) {
    session.console.PrintAlways(text);
    return 0;
  }
  GQ_RETURN_IF_ERROR(base::WriteFileAtomically(flags.output, text));
  session.console.Note(StrCat("written to ", flags.output));
  return 0;
}

void AddReport(CLI::App& root, CommandSet& commands) {
  auto flags = std::make_shared<ReportFlags>();
  auto client_flags = std::make_shared<std::shared_ptr<ClientFlags>>();
  CLI::App* command = commands.Add(
      root, "report", "Print the report of a job.",
      "gq report @last\ngq report @last --html -o report.html\n"
      "gq report 01K --markdown\ngq report 01K --junit -o gq.xml\ngq report 01K --layers",
      [&commands, flags, client_flags]() -> absl::StatusOr<int> {
        Session& session = commands.session();
        GQ_ASSIGN_OR_RETURN(const auto client, Connect(session, **client_flags));
        return ShowReport(*client, session, *flags);
      });
  command->add_option("JOB", flags->job, "Id, a unique prefix of one, or @last.")->required();
  command->add_flag("--html", flags->html, "One self-contained page with charts.");
  command->add_flag("--markdown", flags->markdown, "For a pull-request comment.");
  command->add_flag("--junit", flags->junit, "For a CI server.");
  command->add_flag("--layers", flags->layers, "Precision of every node, and why.");
  command->add_option("-o,--output", flags->output, "Write to this file. [standard output]")
      ->type_name("FILE");
  *client_flags = commands.AddClientFlags(*command);
}

struct ArtifactFlags {
  std::string job;
  std::string folder;
};

absl::StatusOr<int> ShowArtifacts(ServiceClient& client, Session& session,
                                  const ArtifactFlags& flags) {
  Console& console = session.console;
  GQ_ASSIGN_OR_RETURN(const gq::v1::Job job, client.GetJob(flags.job));
  if (!flags.folder.empty()) {
    rpc::BlobOptions options;
    options.stop = session.interrupt.token();
    rpc::BlobClient blobs(client.shared_channel(), options);
    GQ_ASSIGN_OR_RETURN(const auto files,
                        FetchArtifacts(client, blobs, job.id(), flags.folder, /*all=*/true));
    GQ_ASSIGN_OR_RETURN(const std::string report, client.GetReport(job.id()));
    GQ_RETURN_IF_ERROR(WriteReports(client, job.id(), report, "", flags.folder));
    for (const std::string& file : files) {
      console.Print(StrCat((std::filesystem::path(flags.folder) / file).string(), "\n"));
    }
    if (console.options().json) {
      console.PrintJson({{"job", job.id()}, {"folder", flags.folder}, {"files", files}});
    }
    return 0;
  }
  GQ_ASSIGN_OR_RETURN(const auto artifacts, client.ListArtifacts(job.id()));
  Table table({"PATH", "SIZE", "SHA-256"});
  for (const gq::v1::Artifact& artifact : artifacts) {
    if (console.options().json) {
      console.PrintJson(ToJson(artifact));
    } else {
      table.Add({artifact.path(),
                 report::FormatBytes(static_cast<double>(artifact.digest().size_bytes())),
                 artifact.digest().sha256().substr(0, 16)});
    }
  }
  console.Print(table.Render());
  return 0;
}

void AddArtifacts(CLI::App& root, CommandSet& commands) {
  auto flags = std::make_shared<ArtifactFlags>();
  auto client_flags = std::make_shared<std::shared_ptr<ClientFlags>>();
  CLI::App* command =
      commands.Add(root, "artifacts", "List the files that a job left behind, or fetch them.",
                   "gq artifacts @last\ngq artifacts @last --get results/",
                   [&commands, flags, client_flags]() -> absl::StatusOr<int> {
                     Session& session = commands.session();
                     GQ_ASSIGN_OR_RETURN(const auto client, Connect(session, **client_flags));
                     return ShowArtifacts(*client, session, *flags);
                   });
  command->add_option("JOB", flags->job, "Id, a unique prefix of one, or @last.")->required();
  command->add_option("--get", flags->folder, "Fetch them, with the report, into this folder.")
      ->type_name("DIR");
  *client_flags = commands.AddClientFlags(*command);
}

}  // namespace

void AddReportCommands(CLI::App& root, CommandSet& commands) {
  AddReport(root, commands);
  AddArtifacts(root, commands);
}

}  // namespace gq::cli
