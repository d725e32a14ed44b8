// `gq run` and the other commands that submit a job: analyze, dequantize, evaluate, compile.
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "client/cli/command.h"
#include "client/cli/job_follower.h"
#include "client/cli/job_text.h"
#include "client/cli/local_server.h"
#include "client/cli/results_folder.h"
#include "client/cli/upload.h"
#include "common/accuracy/target_expression.h"
#include "common/base/file.h"
#include "common/base/log_format.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/compile/partition_report.h"
#include "common/job/flags.h"
#include "common/report/figures.h"
#include "common/report/json_view.h"
#include "common/report/summary.h"
#include "common/rpc/random_id.h"

namespace gq::cli {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;
using Json = nlohmann::ordered_json;

rpc::BlobOptions UploadOptions(Session& session) {
  rpc::BlobOptions options;
  options.stop = session.interrupt.token();
  options.progress = [&console = session.console](std::string_view name, int64_t done,
                                                  int64_t total) {
    if (done == total) return console.SetProgress("");
    console.SetProgress(StrCat("transfer ", name, ": ", report::FormatBytes(double(done)), " of ",
                               report::FormatBytes(double(total))));
  };
  return options;
}

bool IsAvailable(std::string_view flag_or_value) {
  const auto unavailable = job::UnavailableFlags();
  return std::find(unavailable.begin(), unavailable.end(), flag_or_value) == unavailable.end();
}

// A word of a command line as a shell reads it.
std::string ShellWord(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// The command to try when a goal was missed: the one that was given, with what this version can do
// about it.
std::string NextCommand(const gq::v1::Job& job, const std::vector<std::string>& arguments) {
  std::string again = "gq";
  for (const std::string& argument : arguments) base::StrAppend(&again, " ", ShellWord(argument));
  const gq::v1::JobSpec& spec = job.spec();
  const bool searched = spec.explore() || spec.search_in_quantize();
  if (IsAvailable("explore") && !searched && spec.engine() != "quark") return again + " --explore";
  // A private server is gone with its jobs.
  const bool local = std::find(arguments.begin(), arguments.end(), "--local") != arguments.end();
  const bool int8 = spec.scheme().empty() || spec.scheme() == "vint8";
  if (IsAvailable("from") && IsAvailable("mode=requantize") && !local && int8) {
    return StrCat("gq run --from ", job.id(), " --mode requantize --scheme vint8+bf16");
  }
  if (job.spec().calibration_data_size() == 0) {
    return again + " --calibration-data FILES   (ranges of real data instead of random ones)";
  }
  return StrCat("gq report ", job.id(),
                " --layers   (shows what could stay in float: --exclude NODES)");
}

// Everything between a parsed command line and its exit code.
class Submission {
 public:
  Submission(Session& session, job::JobRequest request)
      : session_(session), request_(std::move(request)), console_(session.console) {}

  absl::StatusOr<int> Run() {
    if (!request_.local.compiled.empty()) return ShowCompiled();
    GQ_RETURN_IF_ERROR(CheckFiles(request_.local));
    GQ_RETURN_IF_ERROR(CheckGoals());
    if (request_.local.local) {
      if (request_.local.detach) {
        return MakeError(Reason::kInvalidFlag, "--local and --detach exclude each other",
                         "the private server ends with this command");
      }
      GQ_ASSIGN_OR_RETURN(local_, LocalServer::Start(session_.interrupt.token()));
    }
    GQ_ASSIGN_OR_RETURN(client_,
                        session_.Connect(local_ ? local_->address() : request_.local.server));
    rpc::BlobClient blobs(client_->shared_channel(), UploadOptions(session_));
    GQ_RETURN_IF_ERROR(UploadFiles(blobs, request_));
    console_.SetProgress("");

    gq::v1::CreateJobRequest create;
    create.set_request_id(rpc::RandomUuid());
    *create.mutable_job() = request_.spec;
    GQ_ASSIGN_OR_RETURN(const gq::v1::Job job,
                        client_->CreateJob(create, session_.interrupt.token()));
    Announce(job);
    if (request_.local.detach) return 0;

    GQ_ASSIGN_OR_RETURN(
        const FollowResult result,
        FollowJob(*client_, job, console_, {.keep_log = true}, session_.interrupt.token()));
    if (result.detached) return local_ ? CancelLocal(job) : Detach(result);
    return Finish(blobs, result);
  }

 private:
  // What a finished compile left; no server is needed.
  absl::StatusOr<int> ShowCompiled() {
    GQ_ASSIGN_OR_RETURN(const compile::PartitionReport report,
                        compile::AnalyzeCompiled(request_.local.compiled));
    if (console_.options().json) {
      console_.PrintJson(compile::PartitionJson(report));
      return 0;
    }
    std::string text;
    for (const std::string& line : compile::DescribePartitions(report)) {
      base::StrAppend(&text, base::StripControl(line), "\n");
    }
    for (const std::string& warning : report.warnings) {
      base::StrAppend(&text, "Warning: ", base::StripControl(warning), "\n");
    }
    console_.Print(text);
    return 0;
  }

  // Class, options and file of the VE2 compiler.
  void PrintOptions(const std::string& report) {
    const Json compiler = report::At(report::ParseReport(report), {"analyze", "compiler"});
    if (!compiler.is_object()) {
      console_.Print("\nThe device has no compiler with options.\n");
      return;
    }
    std::string text = StrCat("\nClass ", compiler.value("class", ""), "\n");
    for (const Json& reason : compiler.value("reasons", Json::array())) {
      if (reason.is_string()) base::StrAppend(&text, "  ", reason.get<std::string>(), "\n");
    }
    base::StrAppend(&text, "\nvitisai_config.json\n", compiler.value("vitisai_config", ""));
    console_.Print(text);
  }

  absl::Status CheckGoals() const {
    for (const std::string& goal : request_.spec.target_accuracy()) {
      GQ_RETURN_IF_ERROR(accuracy::ParseTarget(goal).status());
    }
    return absl::OkStatus();
  }

  void Announce(const gq::v1::Job& job) {
    if (console_.options().json) {
      console_.PrintJson({{"event", "submitted"}, {"job", job.id()}});
    } else if (request_.local.detach) {
      console_.Print(StrCat(job.id(), "\n"));
    } else {
      console_.Print(StrCat("Job ", job.id(), "\n\n"));
    }
  }

  int Detach(const FollowResult& result) {
    const std::string& id = result.job.id();
    const std::string position = rpc::FormatLogPosition(result.position);
    if (console_.options().json) {
      console_.PrintJson({{"event", "detached"}, {"job", id}, {"since", position}});
    } else {
      console_.Note(StrCat("detached; job ", id, " goes on\n  follow:  gq logs ", id,
                           " -f --since ", position, "\n  results: gq artifacts ", id,
                           " --get DIR\n  cancel:  gq jobs cancel ", id));
    }
    return 1;
  }

  absl::StatusOr<int> CancelLocal(const gq::v1::Job& job) {
    gq::v1::CancelJobRequest cancel;
    cancel.set_id(job.id());
    cancel.set_reason("interrupted");
    client_->Call(&gq::v1::JobService::Stub::CancelJob, cancel).IgnoreError();
    return MakeError(Reason::kCancelled,
                     StrCat("job ", job.id(), " was cancelled: its private server ends with gq"));
  }

  absl::StatusOr<int> Finish(rpc::BlobClient& blobs, const FollowResult& result) {
    const gq::v1::Job& job = result.job;
    const fs::path folder = fs::path(request_.local.work_dir) / job.id();
    GQ_ASSIGN_OR_RETURN(const std::string report, client_->GetReport(job.id()));
    const auto files = FetchArtifacts(*client_, blobs, job.id(), folder, /*all=*/false);
    console_.SetProgress("");
    if (!files.ok()) {
      return base::AddContext(files.status(), StrCat("job ", job.id(),
                                                     " has ended, but its "
                                                     "results could not be fetched"));
    }
    GQ_RETURN_IF_ERROR(WriteReports(*client_, job.id(), report, result.log, folder));
    const int code = ExitCodeOf(job);
    if (console_.options().json) {
      PrintResult(job, report, *files, folder, code);
    } else if (request_.local.show_options) {
      PrintOptions(report);
    } else {
      PrintSummary(job, report, *files, folder);
    }
    if (job.state() == gq::v1::JOB_STATE_FAILED) {
      console_.PrintError(rpc::FromFailure(job.failure()));
    }
    return code;
  }

  void PrintResult(const gq::v1::Job& job, const std::string& report,
                   const std::vector<std::string>& files, const fs::path& folder, int code) {
    const Json parsed = report::ParseReport(report);
    Json event = {{"event", "result"},
                  {"job", job.id()},
                  {"state", StateText(job.state())},
                  {"exit_code", code},
                  {"verdict", report::At(parsed, {"evaluate", "verdict"})},
                  {"performance_targets", Json::array()},
                  {"outputs", Json::array()},
                  {"warnings", report::ArrayAt(parsed, {"warnings"})},
                  {"folder", folder.string()},
                  {"files", files}};
    for (const Json* goal : report::PerformanceGoals(parsed)) {
      event["performance_targets"].push_back(*goal);
    }
    for (Json output : report::ArrayAt(parsed, {"evaluate", "outputs"})) {
      if (output.is_object()) output.erase("scatter");
      event["outputs"].push_back(std::move(output));
    }
    console_.PrintJson(event);
  }

  void PrintSummary(const gq::v1::Job& job, const std::string& report,
                    const std::vector<std::string>& files, const fs::path& folder) {
    std::string text = "\n" + report::SummaryText(report);
    base::StrAppend(&text, "\nFiles in ", folder.string(), "\n  report.html  report.json  log.txt");
    std::map<std::string, size_t> in_folder;
    for (const std::string& file : files) {
      const size_t slash = file.find('/');
      if (slash != std::string::npos) {
        ++in_folder[file.substr(0, slash)];
      } else {
        base::StrAppend(&text, "  ", base::StripControl(file));
      }
    }
    for (const auto& [name, count] : in_folder) {
      base::StrAppend(&text, "  ", base::StripControl(name), "/ (", count,
                      count == 1 ? " file)" : " files)");
    }
    text += "\n";
    if (job.verdict() == gq::v1::VERDICT_GOAL_NOT_MET) {
      base::StrAppend(&text, "\nTry next: ", NextCommand(job, session_.arguments), "\n");
    }
    console_.Print(text);
  }

  Session& session_;
  job::JobRequest request_;
  Console& console_;
  std::unique_ptr<LocalServer> local_;
  std::shared_ptr<ServiceClient> client_;
};

void AddVerb(CLI::App& root, CommandSet& commands, job::Verb verb, const std::string& name,
             const std::string& description, const std::string& examples) {
  auto flags = std::make_shared<std::unique_ptr<job::JobFlags>>();
  CLI::App* command =
      commands.Add(root, name, description, examples, [&commands, flags]() -> absl::StatusOr<int> {
        GQ_ASSIGN_OR_RETURN(job::JobRequest request, (*flags)->Take());
        const job::LocalOptions& local = request.local;
        Session& session = commands.session();
        session.console.Configure({.json = local.json,
                                   .quiet = local.quiet,
                                   .verbose = local.verbose,
                                   .no_color = local.no_color,
                                   .utc = local.utc});
        return Submission(session, std::move(request)).Run();
      });
  *flags = std::make_unique<job::JobFlags>(*command, verb, job::Program::kClient);
}

}  // namespace

void AddSubmitCommands(CLI::App& root, CommandSet& commands) {
  AddVerb(root, commands, job::kVerbRun, "run",
          "Quantize a model, judge it against FP32 and compile it; follow the job.",
          "gq run --model m.onnx --calibration-data calib/\n"
          "gq run --model m.onnx --calibration-data c.npz --target-accuracy \"psnr>30\"\n"
          "gq run --model m.onnx --calibration-data c.npz --stage quantize --local\n"
          "gq run --model m.onnx --calibration-data c.npz --json > events.jsonl");
  AddVerb(root, commands, job::kVerbAnalyze, "analyze",
          "Report the state and structure of a model.", "gq analyze m.onnx");
  AddVerb(root, commands, job::kVerbDequantize, "dequantize",
          "Turn a quantized model into a float one.",
          "gq dequantize q.onnx\ngq dequantize q.onnx --evaluation-data eval/");
  AddVerb(root, commands, job::kVerbEvaluate, "evaluate",
          "Compare a model with its FP32 reference on a data set.",
          "gq evaluate quantized.onnx --reference m.onnx --evaluation-data eval.npz");
  AddVerb(root, commands, job::kVerbCompile, "compile", "Compile a quantized model for a device.",
          "gq compile quantized.onnx --device ve2");
  AddVerb(root, commands, job::kVerbBoardRun, "board-run", "Run a model on a board.",
          "gq board-run model.onnx --device xnnpack-cpu\n"
          "gq board-run model.onnx --device ve2 --board ve2-sim");
}

}  // namespace gq::cli
