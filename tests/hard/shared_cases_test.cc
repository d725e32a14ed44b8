// Every run of ../shared/cases goes through gq-worker and is judged twice: here, and by the cases'
// own judge where a Python with numpy, onnx and onnxruntime is found (GQ_TEST_PYTHON, or python3).
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "nlohmann/json.hpp"
#include "tests/hard/case_judge.h"
#include "tests/hard/program_run.h"
#include "tests/temporary_folder.h"

namespace gq::hard {
namespace {

namespace fs = std::filesystem;
using base::StrCat;
using nlohmann::json;

constexpr const char* kCases = "../shared/cases";

struct RunName {
  size_t number = 0;  // in cases.json; kNone when there is no such file
  int run = 0;
  std::string id;
};
constexpr size_t kNone = SIZE_MAX;

json ReadCases() {
  std::ifstream file(fs::path(kCases) / "cases.json");
  return json::parse(file, nullptr, false);
}

std::vector<RunName> AllRuns() {
  std::vector<RunName> runs;
  const json cases = ReadCases();
  if (cases.is_array()) {
    for (size_t i = 0; i < cases.size(); ++i) {
      for (size_t run = 0; run < cases[i].at("runs").size(); ++run) {
        runs.push_back({i, static_cast<int>(run), cases[i].at("id")});
      }
    }
  }
  if (runs.empty()) runs.push_back({kNone, 0, "none"});
  return runs;
}

std::string Variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

// A Python that can judge; empty when there is none.
const std::string& JudgingPython() {
  static const std::string python = [] {
    for (const std::string& name :
         {Variable("GQ_TEST_PYTHON", "python3"), std::string("python3")}) {
      if (RunProgram({name, "-c", "import numpy, onnx, onnxruntime"}).code == 0) return name;
    }
    return std::string();
  }();
  return python;
}

class SharedCases : public testing::TestWithParam<RunName> {
 protected:
  void SetUp() override {
    if (GetParam().number == kNone) GTEST_SKIP() << kCases << " is not there";
    program_ = fs::absolute(fs::path(Variable("GQ_BIN_DIR", "build/dev/bin")) / "gq-worker");
    if (!fs::exists(program_)) GTEST_SKIP() << program_ << " is not built";
  }

  // What a user would type for this run.
  std::vector<std::string> Command(const json& test_case, const json& run) const {
    const fs::path folder = fs::absolute(kCases) / test_case.at("id").get<std::string>();
    const std::string intent = run.at("intent");
    std::vector<std::string> command = {
        program_.string(), intent,           "--model", (folder / test_case.at("model")).string(),
        "--output",        Output().string()};
    const auto add = [&](const char* flag, const std::string& value) {
      command.insert(command.end(), {flag, value});
    };
    if (run.at("scheme").is_string()) add("--scheme", run.at("scheme"));
    if (run.at("calibration").is_string()) {
      add("--calibration-data", (folder / run.at("calibration")).string());
    }
    constexpr std::string_view kMethod = "calibration=";
    for (const std::string argument : run.at("args")) {
      EXPECT_TRUE(argument.starts_with(kMethod)) << argument;
      std::string method = argument.substr(kMethod.size());
      for (char& c : method) c = static_cast<char>(std::tolower(c));
      add("--calibration-method", method);
    }
    return command;
  }

  fs::path Output() const { return folder_ / "out.onnx"; }

  fs::path program_;
  const tests::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_P(SharedCases, PassTheirJudge) {
  const json test_case = ReadCases().at(GetParam().number);
  const json run = test_case.at("runs").at(GetParam().run);
  const ProgramRun program = RunProgram(Command(test_case, run), folder_);
  if (program.text.find("NOT_AVAILABLE") != std::string::npos) {
    GTEST_SKIP() << "this version does not do it: " << program.text;
  }
  const CaseRun judged = {kCases, test_case, run.at("expect"), Output()};
  for (const auto& failure : JudgeCase(judged, program)) ADD_FAILURE() << failure;
  EXPECT_FALSE(HasFailure()) << program.text;

  if (JudgingPython().empty()) {
    RecordProperty("check.py", "not run: no Python with numpy, onnx and onnxruntime");
    return;
  }
  std::ofstream(folder_ / "text") << program.text;
  const ProgramRun judge =
      RunProgram({JudgingPython(), (fs::absolute(kCases) / "check.py").string(), test_case.at("id"),
                  StrCat(GetParam().run), "--rc", StrCat(program.code), "--model",
                  Output().string(), "--text", (folder_ / "text").string(), "--seconds",
                  StrCat(program.seconds), "--rss-mib", StrCat(program.peak_mib)});
  EXPECT_EQ(judge.code, 0) << judge.text;
  EXPECT_EQ(judge.text.find("skip"), std::string::npos) << judge.text;
}

INSTANTIATE_TEST_SUITE_P(All, SharedCases, testing::ValuesIn(AllRuns()), [](const auto& info) {
  std::string name = StrCat(info.param.id, "_", info.param.run);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
});

}  // namespace
}  // namespace gq::hard
