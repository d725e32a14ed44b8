#include "board_agent/board_step.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_format.h"
#include "board_agent/board_measurement.h"
#include "board_agent/finalists.h"
#include "board_agent/performance_verdict.h"
#include "board_agent/step_options.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/job/exec_condition.h"

namespace gq::agent {
namespace {

namespace fs = std::filesystem;
using base::Reason;
using base::StrCat;
using job::MeasuredBy;
using Json = nlohmann::ordered_json;

absl::Status Copy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::overwrite_existing, error);
  if (!error) return absl::OkStatus();
  return base::MakeError(Reason::kFileUnwritable, StrCat(to.string(), ": ", error.message()));
}

class BoardStep {
 public:
  BoardStep(const rpc::StepContext& context, const BoardSpec& board, const Backend& backend)
      : context_(context), measurement_(context, board, backend), spec_(context.lease.spec()) {}

  absl::StatusOr<gq::v1::StepResult> Run() {
    gq::v1::StepResult result;
    result.set_state(gq::v1::ATTEMPT_STATE_SUCCEEDED);
    compile_part_ = EarlierPart(context_.lease, {"backend"});
    GQ_RETURN_IF_ERROR(job::CheckExecCondition(spec_.exec_if()));
    const std::string why_not = job::WhyNotExecuted(
        spec_.exec_if(), compile_part_.is_object() ? compile_part_.dump() : std::string());
    if (!why_not.empty()) {
      result.set_skip_reason(why_not);
      return result;
    }
    const std::vector<Finalist> finalists = FinalistsOf(context_);
    std::set<MeasuredBy> judged = {MeasuredBy::kBoardRun};
    Json report;
    if (finalists.empty()) {
      GQ_ASSIGN_OR_RETURN(report, RunOne());
    } else {
      GQ_RETURN_IF_ERROR(measurement_.Open(finalists.front().model));
      GQ_ASSIGN_OR_RETURN(Choice choice, ChooseOnBoard(measurement_, finalists));
      report = std::move(choice.report);
      GQ_RETURN_IF_ERROR(CompareWithFloat(choice.measured, report));
      GQ_RETURN_IF_ERROR(TakeOver(choice, report));
      result.set_verdict(choice.goal_met ? gq::v1::VERDICT_GOAL_MET : gq::v1::VERDICT_GOAL_NOT_MET);
      // All goals hold for the model that won.
      judged = {MeasuredBy::kQuantize, MeasuredBy::kCompile, MeasuredBy::kBoardRun};
    }
    report["warnings"] = measurement_.warnings();
    result.set_report_json(report.dump(-1, ' ', false, Json::error_handler_t::replace));
    JudgeTargets(context_, judged, result);
    return result;
  }

 private:
  absl::StatusOr<Json> RunOne() {
    BoardModel model{.path = {},
                     .what = "the model",
                     .compiled = CompiledFolder(context_, kCompileFolder),
                     .compile_part = compile_part_};
    if (const auto quantized = context_.files.artifact("model_quantized.onnx")) {
      model.path = *quantized;
    } else {
      GQ_ASSIGN_OR_RETURN(model.path, PinnedModel(spec_, context_.files.model(),
                                                  context_.files.work_dir() / "tmp" / "pinned"));
    }
    GQ_RETURN_IF_ERROR(measurement_.Open(model.path));
    GQ_ASSIGN_OR_RETURN(const Measured measured, measurement_.Measure(model));
    Json report = measurement_.Describe(measured);
    GQ_RETURN_IF_ERROR(measurement_.CompareWithCpu(model, measured, report));
    GQ_RETURN_IF_ERROR(CompareWithFloat(measured, report));
    return report;
  }

  absl::Status CompareWithFloat(const Measured& m, Json& report) {
    const std::optional<fs::path> path = context_.files.artifact("model_float.onnx");
    if (!path) return absl::OkStatus();
    const fs::path compiled = CompiledFolder(context_, kFloatCompile);
    if (measurement_.probe().runs_compiled && compiled.empty()) {
      report["speedup_missing"] = "the float model was not compiled for the board";
      return absl::OkStatus();
    }
    Json part = compile_part_.is_object() ? compile_part_.value("float_model", Json()) : Json();
    GQ_ASSIGN_OR_RETURN(const Measured base,
                        measurement_.Measure({.path = *path,
                                              .what = "the float model",
                                              .compiled = compiled,
                                              .compile_part = std::move(part)}));
    const double speedup = m.latency.p50 > 0 ? base.latency.p50 / m.latency.p50 : 0;
    report["float_model"] = {
        {"latency_ms", LatencyJson(base)},
        {"runs", base.runs()},
        {"precision", measurement_.probe().vaiml ? "bf16 (fp16 where asked)" : "fp32"}};
    if (!base.run.fell_back.empty()) report["float_model"]["fell_back"] = base.run.fell_back;
    report["speedup"] = speedup;
    context_.reporter.Info("Run", absl::StrFormat("Speed-up over the float model %.2f", speedup) +
                                      measurement_.Simulated());
    if (speedup < 1) {
      measurement_.Warn("the quantized model is slower than the float model on this board");
    }
    return absl::OkStatus();
  }

  // The winner's files become the job's, and its parts those of the report.
  absl::Status TakeOver(const Choice& choice, Json& report) {
    const Finalist& winner = choice.winner;
    if (winner.best) return absl::OkStatus();
    GQ_ASSIGN_OR_RETURN(const fs::path model, context_.files.output("model_quantized.onnx"));
    const fs::path out = model.parent_path();
    std::error_code error;
    // External data lies beside the model.
    for (const auto& entry : fs::directory_iterator(winner.model.parent_path(), error)) {
      const fs::path name = entry.path().filename();
      if (name != "report.json") GQ_RETURN_IF_ERROR(Copy(entry.path(), out / name));
    }
    if (error) {
      return base::MakeError(Reason::kFileUnreadable,
                             StrCat(winner.model.string(), ": ", error.message()));
    }
    const fs::path compiled = context_.files.work_dir() / "in/artifacts" / winner.Folder();
    for (const auto& entry : fs::directory_iterator(compiled, error)) {
      const bool folder = entry.is_directory();
      const fs::path name = entry.path().filename();
      GQ_RETURN_IF_ERROR(Copy(entry.path(), folder ? out / kCompileFolder / name : out / name));
    }
    if (!winner.report.empty()) {
      GQ_ASSIGN_OR_RETURN(const std::string text, base::ReadFile(winner.report));
      const Json parts = Json::parse(text, nullptr, false);
      if (parts.is_object()) report["result"] = parts;
    }
    if (report.contains("accuracy")) {
      report["result"]["evaluate"] = report["accuracy"];
      report["result"]["evaluate"]["computed_by"] = measurement_.board().name;
      report["result"]["evaluate"]["data"]["source"] = report["conditions"]["data"];
    }
    if (choice.model.compile_part.is_object()) {
      report["result"]["compile"] = choice.model.compile_part;
    }
    return absl::OkStatus();
  }

  const rpc::StepContext& context_;
  BoardMeasurement measurement_;
  const gq::v1::JobSpec& spec_;
  Json compile_part_;
};

}  // namespace

absl::StatusOr<gq::v1::StepResult> RunBoardStep(const rpc::StepContext& context,
                                                const BoardSpec& board, const Backend& backend) {
  return BoardStep(context, board, backend).Run();
}

}  // namespace gq::agent
