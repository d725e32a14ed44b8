#include "server/worker/command_line.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/job/command_line.h"
#include "common/job/flags.h"
#include "common/runtime/ort_library.h"
#include "server/worker/foreground_reporter.h"
#include "server/worker/serve.h"
#include "server/worker/step.h"
#include "server/worker/verbs.h"

namespace gq::worker {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

using VerbFunction = absl::StatusOr<int> (*)(const job::JobRequest&, const VerbOptions&);

struct VerbDef {
  const char* name;
  job::Verb verb;
  const char* description;
  const char* examples;
  VerbFunction run;  // null: not in this version
  bool writes_model;
};

constexpr VerbDef kVerbs[] = {
    {"analyze", job::kVerbAnalyze, "Report state, structure and task of a model; changes nothing.",
     "gq-worker analyze --model m.onnx\n  gq-worker analyze m.onnx --report analysis.json", Analyze,
     false},
    {"quantize", job::kVerbQuantize,
     "Quantize a float model; with evaluation data also measure the result.",
     "gq-worker quantize --model m.onnx --calibration-data calib/ --output q.onnx\n"
     "  gq-worker quantize --model m.onnx --calibration-data c.npz --evaluation-data e.npz\n"
     "      --target-accuracy 'psnr>=30' --output q.onnx --report r.json",
     Quantize, true},
    {"evaluate", job::kVerbEvaluate, "Compare a model with its FP32 reference on a data set.",
     "gq-worker evaluate --model q.onnx --reference m.onnx --evaluation-data eval/", Evaluate,
     false},
    {"dequantize", job::kVerbDequantize, "Turn a quantized model into a float one.",
     "gq-worker dequantize --model q.onnx --output f.onnx\n"
     "  gq-worker dequantize --model q.onnx --evaluation-data eval/ --report r.json",
     Dequantize, true},
    {"requantize", job::kVerbRequantize, "Strip a quantization and quantize again.",
     "gq-worker requantize --model q.onnx --calibration-data calib/ --output q2.onnx\n"
     "  gq-worker requantize --model q.onnx --reference fp32.onnx --scheme bf16",
     Requantize, true},
    {"dry-run", job::kVerbDryRun, "Measure BF16 and VINT8 and say what to do; changes nothing.",
     "gq-worker dry-run --model m.onnx --calibration-data calib/ --evaluation-data eval/", DryRun,
     false},
    {"explore", job::kVerbExplore,
     "Quantize, measure, and search for the layers that need higher precision.",
     "gq-worker explore --model m.onnx --calibration-data calib/ --evaluation-data eval/\n"
     "      --explore-strategy sensitivity --target-accuracy 'snr>=20' --output q.onnx",
     Explore, true},
};

// One verb's command and all that its flags are parsed into.
struct VerbCommand {
  const VerbDef* def;
  CLI::App* command;
  std::unique_ptr<job::JobFlags> flags;
  VerbOptions options;
  std::string runtime;

  absl::StatusOr<int> Run() const {
    if (def->run == nullptr) {
      return MakeError(Reason::kNotAvailable, StrCat("not available yet: ", def->name),
                       "'gq-worker --help' lists what there is");
    }
    GQ_ASSIGN_OR_RETURN(const job::JobRequest request, flags->Take());
    GQ_RETURN_IF_ERROR(runtime::OrtLibrary::Select(runtime));
    GQ_RETURN_IF_ERROR(runtime::OrtLibrary::Get().status());
    return def->run(request, options);
  }
};

std::unique_ptr<VerbCommand> AddVerb(CLI::App& app, const VerbDef& def) {
  auto verb = std::make_unique<VerbCommand>();
  verb->def = &def;
  verb->command = app.add_subcommand(def.name, def.run == nullptr
                                                   ? StrCat(def.description, " (not available yet)")
                                                   : std::string(def.description));
  CLI::App& command = *verb->command;
  if (def.examples[0] != '\0') command.footer(StrCat("\nExamples:\n  ", def.examples));
  verb->flags = std::make_unique<job::JobFlags>(command, def.verb, job::Program::kWorker);
  if (def.writes_model) {
    command
        .add_option("--output", verb->options.output,
                    "Where the resulting model goes. [MODEL_quantized.onnx in this folder]")
        ->type_name("OUT.onnx")
        ->group("Output");
  }
  command.add_option("--report", verb->options.report, "Where the report goes, as JSON. [none]")
      ->type_name("R.json")
      ->group("Output");
  if (def.verb == job::kVerbQuantize) {
    command
        .add_flag("--evaluate", verb->options.evaluate,
                  "Measure the result on the calibration data when there is no evaluation data.")
        ->group("Output");
  }
  command
      .add_option("--onnxruntime", verb->runtime,
                  "ONNX Runtime library to use. [GQ_ONNXRUNTIME, or the bundled one]")
      ->type_name("PATH")
      ->group("Output");
  return verb;
}

void AddServeFlags(CLI::App& command, ServeOptions& options) {
  command.add_option("--server", options.server, "Server: unix:PATH or HOST:PORT.")
      ->type_name("ADDRESS")
      ->required();
  command
      .add_option("--name", options.name, "Name of this worker, unique on the server. [HOST-PID]")
      ->type_name("NAME");
  command
      .add_option("--state-dir", options.state_dir,
                  "Folder for leases, logs and cached inputs. [workers/NAME beside the socket, or "
                  "below the state folder]")
      ->type_name("PATH");
  command
      .add_option("--token-file", options.token_file,
                  "File with the bearer token, for a server that is reached over TCP. [none]")
      ->type_name("PATH");
  command.add_option("--ca-file", options.ca_file, "Certificate authorities (PEM) for TLS. [none]")
      ->type_name("PATH");
  command.add_option("--slots", options.slots, "Steps done at once. [1]")
      ->type_name("N")
      ->check(CLI::Range(1, 64));
  command
      .add_option("--memory", options.memory_gib,
                  "GiB of address space of a step. [three quarters of the memory, and 8]")
      ->type_name("GIB")
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--cpu-seconds", options.cpu_seconds, "CPU time of a step, 0 for no limit. [0]")
      ->type_name("SECONDS")
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--file-size", options.file_gib, "GiB of the largest file a step may write. [64]")
      ->type_name("GIB")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--onnxruntime", options.onnxruntime,
                  "ONNX Runtime library to use. [GQ_ONNXRUNTIME, or the bundled one]")
      ->type_name("PATH");
  command.add_flag("--allow-network", options.network,
                   "Let steps use the network. [off, where the kernel allows it]");
}

}  // namespace

int RunCommandLine(std::vector<std::string> arguments) {
  const bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  CLI::App app("Does the CPU steps of gq: in the foreground, or for a server.", "gq-worker");
  app.set_version_flag("--version", StrCat("gq-worker ", GQ_VERSION));
  app.formatter(job::MakeHelpFormatter());
  app.require_subcommand(1);

  std::vector<std::unique_ptr<VerbCommand>> verbs;
  for (const VerbDef& def : kVerbs) verbs.push_back(AddVerb(app, def));
  ServeOptions serve_options;
  CLI::App* serve = app.add_subcommand("serve", "Take steps from a server until it ends.");
  serve->footer("\nExamples:\n  gq-worker serve --server unix:/var/lib/gq/gq.sock --name worker-1");
  AddServeFlags(*serve, serve_options);
  std::string work_dir;
  CLI::App* step = app.add_subcommand("step", "Do the one step that lies in a work folder.");
  step->add_option("WORKDIR", work_dir, "Folder with lease.pb and the inputs.")->required();
  std::string runtime;
  step->add_option("--onnxruntime", runtime, "ONNX Runtime library to use.")->type_name("PATH");

  const auto parsed = job::ParseCommandLine(app, std::move(arguments));
  if (!parsed.ok()) return PrintError(parsed.status(), json);
  if (parsed->outcome == job::ParseOutcome::kDone) {
    std::fputs(parsed->text.c_str(), stdout);
    return 0;
  }
  if (step->parsed()) {
    if (absl::Status status = runtime::OrtLibrary::Select(runtime); !status.ok()) {
      return PrintError(status, json);
    }
    return rpc::RunStepProgram(work_dir, RunLease);
  }
  if (serve->parsed()) {
    const absl::Status status = Serve(serve_options);
    return status.ok() ? 0 : PrintError(status, json);
  }
  ForegroundReporter::InstallSignalHandlers();
  for (const auto& verb : verbs) {
    if (!verb->command->parsed()) continue;
    const absl::StatusOr<int> code = verb->Run();
    return code.ok() ? *code : PrintError(code.status(), json);
  }
  return 0;
}

}  // namespace gq::worker
