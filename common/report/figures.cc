#include "common/report/figures.h"

#include <map>
#include <optional>
#include <utility>

#include "common/base/text.h"
#include "common/report/warning_groups.h"

namespace gq::report {
namespace {

using base::StrCat;

std::string ResultWords(const std::string& result) {
  if (result == "goal_met") return "goal met";
  if (result == "goal_not_met") return "goal not met";
  if (result == "not_judged") return "not judged";
  return result;
}

// State, size and task type of the model, from whichever step analysed it.
void AddModel(const Json& report, std::vector<Fact>& facts) {
  for (const char* step : {"graph_optimize", "analyze"}) {
    const Json& part = At(report, {step});
    const Json& analysis = At(part, {"analysis"}).is_object() ? At(part, {"analysis"}) : part;
    if (!NumberAt(analysis, {"nodes"})) continue;
    std::string value = StrCat(TextAt(analysis, {"state"}), ", ",
                               FormatNumber(NumberAt(analysis, {"nodes"}), 0), " nodes");
    if (const auto layers = NumberAt(analysis, {"compute_layers"})) {
      base::StrAppend(&value, ", ", FormatNumber(layers, 0), " of them compute layers");
    }
    if (const auto macs = NumberAt(analysis, {"macs"})) {
      base::StrAppend(&value, ", ", FormatGeneral(*macs / 1e6), " million MACs");
    }
    facts.push_back({"Model", value});
    if (const std::string task = TextAt(analysis, {"task"}); !task.empty()) {
      const std::string reason = TextAt(analysis, {"task_reason"});
      facts.push_back({"Task type", reason.empty() ? task : StrCat(task, " (", reason, ")")});
    }
    return;
  }
}

void AddCounts(const Json& report, std::vector<Fact>& facts) {
  const Json& counts = At(report, {"graph_quantize", "counts"});
  if (!counts.is_object()) return;
  const auto sum = [&counts](std::string_view key) {
    double total = 0;
    const Json& group = At(counts, {key});
    if (group.is_object()) {
      for (const Json& count : group) total += count.is_number() ? count.get<double>() : 0;
    }
    return total;
  };
  const double quantized = sum("quantized");
  const double in_float = sum("float");
  if (quantized + in_float == 0) return;
  facts.push_back({"Nodes", StrCat(quantized, " quantized, ", in_float, " in float")});
}

void AddSizes(const Json& report, std::vector<Fact>& facts) {
  const Json& sizes = At(report, {"graph_quantize", "sizes"});
  const auto before = NumberAt(sizes, {"float_bytes"});
  const auto after = NumberAt(sizes, {"quantized_bytes"});
  if (!before || !after) return;
  std::string value = StrCat(FormatBytes(before), " -> ", FormatBytes(after));
  if (const auto ratio = NumberAt(sizes, {"ratio_file"})) {
    base::StrAppend(&value, " (", FormatNumber(ratio), " times smaller)");
  }
  facts.push_back({"Model size", value});
  if (const auto ratio = NumberAt(sizes, {"ratio_weights"})) {
    facts.push_back({"Weights", StrCat(FormatNumber(ratio), " times smaller")});
  }
}

void AddCalibration(const Json& report, std::vector<Fact>& facts) {
  const Json& quantize = At(report, {"graph_quantize"});
  if (const std::string scheme = TextAt(quantize, {"scheme"}); !scheme.empty()) {
    facts.push_back({"Scheme", scheme});
  }
  const Json& calibration = At(quantize, {"calibration"});
  if (!calibration.is_object()) return;
  std::string value = StrCat(TextAt(calibration, {"method"}), ", ",
                             FormatNumber(NumberAt(calibration, {"samples"}), 0), " samples");
  if (TrueAt(calibration, {"random"})) value += " of random data";
  facts.push_back({"Calibration", value});
}

// The recovery passes that were tried, and what came of them.
void AddRecovery(const Json& report, std::vector<Fact>& facts) {
  const Json& recovery = At(report, {"graph_quantize", "recovery"});
  std::string value;
  for (const Json& pass : ArrayAt(recovery, {"passes"})) {
    base::StrAppend(&value, value.empty() ? "" : ", ", TextAt(pass, {"name"}), " ",
                    FormatNumber(NumberAt(pass, {"gain_db"})), " dB ",
                    TrueAt(pass, {"kept"}) ? "(kept)" : "(not kept)");
  }
  if (value.empty()) return;
  const auto before = NumberAt(recovery, {"before_db"});
  const auto after = NumberAt(recovery, {"after_db"});
  if (before && after) {
    base::StrAppend(&value, "; ", FormatNumber(before), " -> ", FormatNumber(after), " dB on ",
                    FormatNumber(NumberAt(recovery, {"held_out_samples"}), 0), " samples held out");
  }
  facts.push_back({"Accuracy recovery", value});
}

// How close the stripped model is to the quantized one, and whether the new quantization is better.
void AddStripped(const Json& report, std::vector<Fact>& facts) {
  const Json& fidelity = At(report, {"dequantize", "fidelity"});
  std::optional<double> worst;
  for (const Json& output : ArrayAt(fidelity, {"outputs"})) {
    const auto snr = NumberAt(output, {"snr_db"});
    if (snr && (!worst || *snr < *worst)) worst = snr;
  }
  if (worst) {
    facts.push_back(
        {"Stripped model", StrCat("SNR ", FormatNumber(worst), " dB against the quantized one")});
  }
  const Json& requantize = At(report, {"evaluate", "requantize"});
  if (!requantize.is_object()) return;
  const std::string reference = TextAt(requantize, {"reference"});
  const std::string measured = StrCat(
      " (measured against the ", reference == "given" ? "FP32 model given" : "stripped model", ")");
  if (const std::string why = TextAt(requantize, {"not_compared"}); !why.empty()) {
    facts.push_back({"Requantized", StrCat("old model not measured: ", why)});
  } else {
    facts.push_back(
        {"Requantized", StrCat(TrueAt(requantize, {"improved"}) ? "improved: " : "not improved: ",
                               TextAt(requantize, {"reason"}), measured)});
  }
}

void AddCompile(const Json& report, std::vector<Fact>& facts) {
  const Json& compile = At(report, {"compile"});
  if (!compile.is_object()) return;
  const std::string mark = TrueAt(compile, {"simulated"}) ? " (simulated)" : "";
  if (const std::string name = TextAt(compile, {"class"}); !name.empty()) {
    facts.push_back({"Compiler class", name});
  }
  const auto npu = NumberAt(compile, {"partitions", "npu"});
  const auto cpu = NumberAt(compile, {"partitions", "cpu"});
  if (npu || cpu) {
    facts.push_back({"Partitions", StrCat(FormatNumber(npu, 0), " on the NPU, ",
                                          FormatNumber(cpu, 0), " on the CPU", mark)});
  }
  const auto operators = NumberAt(compile, {"offload", "operators_percent"});
  const auto gops = NumberAt(compile, {"offload", "gops_percent"});
  if (operators || gops) {
    facts.push_back({"Offload", StrCat(FormatGeneral(operators), " % of the operators, ",
                                       FormatGeneral(gops), " % of the GOPs", mark)});
  }
}

void AddLatency(const Json& report, std::vector<Fact>& facts) {
  const Json& run = At(report, {"board_run"});
  const auto p50 = NumberAt(run, {"latency_ms", "p50"});
  if (!p50) return;
  const std::string mark = TrueAt(run, {"simulated"}) ? " (simulated)" : "";
  std::string value = StrCat("p50 ", FormatNumber(p50, 3), " ms");
  for (const char* name : {"p90", "p99"}) {
    if (const auto figure = NumberAt(run, {"latency_ms", name})) {
      base::StrAppend(&value, ", ", name, " ", FormatNumber(figure, 3), " ms");
    }
  }
  facts.push_back({"Latency", value + mark});
  if (const std::string conditions = TextAt(run, {"conditions_text"}); !conditions.empty()) {
    facts.push_back({"Conditions", conditions});
  }
}

// The verdict is on all goals together.
void AddPerformanceGoals(const Json& report, VerdictWords& words) {
  for (const Json* goal : PerformanceGoals(report)) {
    const std::string expression = TextAt(*goal, {"expression"});
    const std::string reason = TextAt(*goal, {"reason"});
    const bool judged = !goal->contains("judged") || TrueAt(*goal, {"judged"});
    const bool met = TrueAt(*goal, {"met"});
    std::string value = !judged ? "not judged" : met ? "met" : "not met";
    if (judged && TrueAt(*goal, {"simulated"})) {
      value += met ? " (simulated, not on hardware)" : " (simulated)";
    }
    base::StrAppend(&value, ": ",
                    reason.empty() ? FormatGeneral(NumberAt(*goal, {"value"})) : reason);
    words.goals.push_back({expression, value});
    if (words.result.empty()) words.result = judged ? "goal met" : "not judged";
    if (!judged || met) continue;
    if (words.result != "goal not met") {
      words.result = "goal not met";
      words.default_goal = false;
      words.reason.clear();
    }
    base::StrAppend(&words.reason, words.reason.empty() ? "" : "; ", expression, " is missed");
  }
}

void AddAccuracyGoals(const Json& verdict, VerdictWords& words) {
  words.result = ResultWords(TextAt(verdict, {"result"}));
  words.default_goal = TrueAt(verdict, {"default_goal"});
  words.reason = TextAt(verdict, {"reason"});
  for (const Json& goal : ArrayAt(verdict, {"goals"})) {
    std::string value = StrCat(TrueAt(goal, {"met"}) ? "met" : "not met", ": ",
                               FormatGeneral(NumberAt(goal, {"value"})));
    if (const std::string output = TextAt(goal, {"output"}); !output.empty()) {
      base::StrAppend(&value, " on output '", output, "'");
    }
    words.goals.push_back({TextAt(goal, {"expression"}), value});
  }
  if (!words.default_goal) {
    const std::string result = ResultWords(TextAt(verdict, {"default", "result"}));
    const std::string reason = TextAt(verdict, {"default", "reason"});
    words.default_result = reason.empty() ? result : StrCat(result, ": ", reason);
  }
}

}  // namespace

VerdictWords VerdictOf(const Json& report) {
  VerdictWords words;
  const Json& verdict = At(report, {"evaluate", "verdict"});
  if (verdict.is_object()) AddAccuracyGoals(verdict, words);
  AddPerformanceGoals(report, words);
  return words;
}

std::string BitsText(const Json& layer) {
  const auto weights = NumberAt(layer, {"weight_bits"});
  const auto activations = NumberAt(layer, {"activation_bits"});
  if (!weights || !activations) return "-";
  const std::string text = FormatNumber(*weights, 0);
  return *weights == *activations ? text : StrCat(text, "/", FormatNumber(*activations, 0));
}

std::vector<const Json*> PerformanceGoals(const Json& report) {
  std::vector<const Json*> goals;
  for (const char* section : {"graph_quantize", "evaluate", "explore", "compile", "board_run"}) {
    for (const Json& goal : ArrayAt(report, {section, "performance_targets"})) {
      std::erase_if(goals, [&](const Json* earlier) {
        return TextAt(*earlier, {"expression"}) == TextAt(goal, {"expression"});
      });
      goals.push_back(&goal);
    }
  }
  return goals;
}

std::vector<std::vector<std::string>> OutputRows(const Json& report) {
  const Json& outputs = ArrayAt(report, {"evaluate", "outputs"});
  bool top1 = false;
  for (const Json& output : outputs) top1 = top1 || NumberAt(output, {"argmax_agreement"});
  std::vector<std::vector<std::string>> rows = {
      {"output", "PSNR dB", "SNR dB", "pass rate %", "cosine", "max abs error"}};
  if (top1) rows[0].push_back("top-1 agreement %");
  for (const Json& output : outputs) {
    rows.push_back({TextAt(output, {"name"}), FormatNumber(NumberAt(output, {"psnr_db"})),
                    FormatNumber(NumberAt(output, {"snr_db"})),
                    FormatNumber(NumberAt(output, {"pass_rate"})),
                    FormatNumber(NumberAt(output, {"cosine"}), 6),
                    FormatGeneral(NumberAt(output, {"max_abs"}))});
    if (top1) rows.back().push_back(FormatNumber(NumberAt(output, {"argmax_agreement"})));
  }
  if (rows.size() == 1) rows.clear();
  return rows;
}

std::vector<Fact> FactsOf(const Json& report) {
  std::vector<Fact> facts;
  AddModel(report, facts);
  AddCalibration(report, facts);
  AddRecovery(report, facts);
  AddCounts(report, facts);
  AddSizes(report, facts);
  if (const auto samples = NumberAt(report, {"evaluate", "data", "samples"})) {
    const std::string source = TextAt(report, {"evaluate", "data", "source"});
    facts.push_back({"Evaluated on", StrCat(FormatNumber(samples, 0), " samples",
                                            source.empty() ? "" : StrCat(" (", source, " data)"))});
  }
  AddStripped(report, facts);
  AddCompile(report, facts);
  AddLatency(report, facts);
  if (const auto seconds = NumberAt(report, {"job", "seconds"})) {
    facts.push_back({"Time", FormatSeconds(seconds)});
  }
  return facts;
}

std::vector<WarningText> WarningsOf(const Json& report) {
  std::vector<std::string> steps;
  std::map<std::string, std::vector<std::string>> texts;
  for (const Json& warning : ArrayAt(report, {"warnings"})) {
    const std::string step = TextAt(warning, {"step"});
    if (!texts.contains(step)) steps.push_back(step);
    texts[step].push_back(TextAt(warning, {"text"}));
  }
  std::vector<WarningText> warnings;
  for (const std::string& step : steps) {
    for (WarningGroup& group : GroupWarnings(texts[step])) {
      warnings.push_back({step, std::move(group.text), group.count});
    }
  }
  return warnings;
}

size_t CountOf(const std::vector<WarningText>& warnings) {
  size_t count = 0;
  for (const WarningText& warning : warnings) count += warning.count;
  return count;
}

}  // namespace gq::report
