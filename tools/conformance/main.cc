// gq-conformance: runs golden vectors of a quantizer and says where this one differs.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/runtime/ort_library.h"
#include "tools/conformance/runner.h"

namespace gq::conformance {
namespace {

using nlohmann::json;

std::string_view OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kAgrees:
      return "agree";
    case Outcome::kDiffers:
      return "differ";
    case Outcome::kUnsupported:
      return "unsupported";
  }
  return "";
}

json AsJson(const RunResult& result) {
  json line = {{"case", result.case_name},
               {"configuration", result.configuration},
               {"outcome", OutcomeName(result.outcome)}};
  if (!result.note.empty()) line["note"] = result.note;
  if (result.outcome == Outcome::kUnsupported) return line;
  for (int i = 0; i < kAspects; ++i) {
    const auto aspect = static_cast<Aspect>(i);
    const auto different = result.verdict.differences.find(aspect);
    const auto skipped = result.verdict.not_compared.find(aspect);
    json& entry = line["aspects"][std::string(AspectName(aspect))];
    entry["agrees"] = different == result.verdict.differences.end();
    if (different != result.verdict.differences.end()) entry["difference"] = different->second;
    if (skipped != result.verdict.not_compared.end()) {
      entry = {{"not_compared", skipped->second}};
    }
  }
  return line;
}

void Print(const RunResult& result) {
  std::string line =
      base::StrCat(OutcomeName(result.outcome), "  ", result.case_name, " ", result.configuration);
  if (!result.note.empty()) base::StrAppend(&line, "  (", result.note, ")");
  for (const auto& [aspect, text] : result.verdict.differences) {
    base::StrAppend(&line, "\n    ", AspectName(aspect), ": ", text);
  }
  std::printf("%s\n", line.c_str());
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Quantizes the models of a folder of golden vectors and compares the results.\n\n"
      "Example:\n  gq-conformance vectors/quark --config vint8 xint8 --case swish");
  std::string folder;
  std::string emit;
  std::string library;
  RunOptions options;
  bool as_json = false;
  bool allow_unsupported = false;
  app.add_option("DIR", folder, "folder with index.json")->required();
  app.add_flag("--json", as_json, "one JSON object a line");
  app.add_option("--config", options.configurations, "only these configurations");
  app.add_option("--case", options.cases, "only these cases");
  app.add_flag("--from-model", options.from_model,
               "start from model.onnx with this product's own preparation");
  app.add_flag("--expected-ranges", options.expected_ranges,
               "take the ranges of the vectors instead of calibrating");
  app.add_flag("--allow-unsupported", allow_unsupported,
               "exit 0 although configurations are unsupported");
  app.add_option("--emit", emit, "write the quantized models below this folder");
  app.add_option("--onnxruntime", library, "ONNX Runtime library to use");
  CLI11_PARSE(app, argc, argv);
  options.emit = emit;

  int counts[3] = {};
  absl::Status status = runtime::OrtLibrary::Select(library);
  if (status.ok()) {
    status = RunVectors(folder, options, [&](const RunResult& result) {
      ++counts[static_cast<int>(result.outcome)];
      if (as_json) {
        std::printf("%s\n", AsJson(result).dump().c_str());
      } else {
        Print(result);
      }
      std::fflush(stdout);
    });
  }
  if (!status.ok()) {
    std::fprintf(stderr, "error: %s (%s)\n", std::string(status.message()).c_str(),
                 std::string(base::ReasonName(base::GetReason(status))).c_str());
    std::fprintf(stderr, "hint: %s\n", base::GetHint(status).c_str());
    return 2;
  }
  if (as_json) {
    std::printf("%s\n",
                json{{"agree", counts[0]}, {"differ", counts[1]}, {"unsupported", counts[2]}}
                    .dump()
                    .c_str());
  } else {
    std::printf("%d agree, %d differ, %d unsupported\n", counts[0], counts[1], counts[2]);
  }
  return counts[1] > 0 || (counts[2] > 0 && !allow_unsupported) ? 1 : 0;
}

}  // namespace
}  // namespace gq::conformance

int main(int argc, char** argv) { return gq::conformance::Main(argc, argv); }
