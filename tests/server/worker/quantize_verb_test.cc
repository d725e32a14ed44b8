// gq-worker quantize, evaluate and analyze on small models, as a user runs them.
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/server/worker/worker_process.h"

namespace gq::worker {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::MatchesRegex;

class QuantizeVerbTest : public WorkerTest {
 protected:
  void SetUp() override {
    WorkerTest::SetUp();
    if (IsSkipped()) return;
    WriteConvModel("m.onnx");
    WriteSamples("calib.npy", 4);
  }

  Outcome Quantize(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"quantize",  "--model",  "m.onnx", "--calibration-data",
                                          "calib.npy", "--output", "q.onnx"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }

  static std::vector<std::string> Lines(const std::string& text) {
    std::vector<std::string> lines;
    std::stringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }
};

TEST_F(QuantizeVerbTest, WritesModelAndReport) {
  const Outcome outcome = Quantize({"--evaluate", "--report", "r.json"});
  ASSERT_TRUE(outcome.code == 0 || outcome.code == 10) << outcome.out << outcome.err;
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(Text("q.onnx")));
  int quantizers = 0;
  for (const auto& node : model.graph().node()) quantizers += node.op_type() == "QuantizeLinear";
  EXPECT_GT(quantizers, 0);

  const json report = json::parse(Text("r.json"));
  EXPECT_EQ(report["schema"], 1);
  EXPECT_EQ(report["graph_optimize"]["analysis"]["state"], "float");
  EXPECT_EQ(report["graph_optimize"]["analysis"]["operators"]["Conv"], 1);
  EXPECT_EQ(report["graph_quantize"]["scheme"], "vint8");
  EXPECT_FALSE(report["graph_quantize"]["strategy"].empty());
  EXPECT_EQ(report["evaluate"]["data"]["samples"], 4);
  EXPECT_EQ(report["evaluate"]["data"]["source"], "calibration");
  EXPECT_EQ(report["evaluate"]["outputs"][0]["name"], "y");
  EXPECT_GT(report["evaluate"]["outputs"][0]["psnr_db"].get<double>(), 30);
  EXPECT_TRUE(report["evaluate"]["verdict"]["default_goal"]);
  EXPECT_EQ(Files(), (std::set<std::string>{"calib.npy", "m.onnx", "q.onnx", "r.json"}));
}

// The documented form: for each step exactly six lines, but for the clock.
TEST_F(QuantizeVerbTest, QuietLogHasTheDocumentedForm) {
  WriteConvModel("m.onnx", 128);  // large enough to become smaller, which would be a warning
  const Outcome outcome = Quantize({"--quiet", "--evaluate", "--target-accuracy", "psnr>10"});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const std::vector<std::string> lines = Lines(outcome.out);
  const std::vector<std::string> titles = {"Graph Optimize", "Graph Quantize", "Evaluate"};
  const std::string clock = "[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}\\.[0-9]{2}";
  ASSERT_GE(lines.size(), 20u) << outcome.out;
  for (size_t i = 0; i < titles.size(); ++i) {
    const size_t at = i * 7;
    EXPECT_EQ(lines[at], std::string(60, '='));
    EXPECT_EQ(lines[at + 1], "[" + std::to_string(i + 1) + "/3] " + titles[i]);
    EXPECT_EQ(lines[at + 2], std::string(60, '='));
    EXPECT_TRUE(std::regex_match(
        lines[at + 3], std::regex(clock + " \\[INFO \\] \\[Workflow\\] " + titles[i] + " started")))
        << lines[at + 3];
    EXPECT_EQ(lines[at + 4], "");
    EXPECT_TRUE(
        std::regex_match(lines[at + 5], std::regex(clock + " \\[DONE \\] \\[Workflow\\] " +
                                                   titles[i] + " completed \\([0-9a-z ]+\\)")))
        << lines[at + 5];
    EXPECT_EQ(lines[at + 6], "");
  }
}

TEST_F(QuantizeVerbTest, AMissedGoalIsExitCode10AndKeepsTheModel) {
  const Outcome outcome = Quantize({"--target-accuracy", "psnr>=200"});
  EXPECT_EQ(outcome.code, 10) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("goal not met"));
  EXPECT_TRUE(std::filesystem::exists(Path("q.onnx")));
}

TEST_F(QuantizeVerbTest, WithoutEvaluationThereAreTwoSteps) {
  const Outcome outcome = Quantize({});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("[2/2] Graph Quantize"));
}

// A net whose weights under one scale leave something to recover, and what the saved configuration
// makes of it.
class SavedConfigTest : public QuantizeVerbTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    QuantizeVerbTest::SetUp();
    if (IsSkipped()) return;
    std::string first, second;
    for (int i = 0; i < 8 * 2 * 9; ++i) {
      first += (i == 0 ? "" : ", ") +
               std::to_string(((i * 37 + 11) % 101 - 50) * (i / 18 % 4 == 0 ? 0.02 : 0.0011));
    }
    for (int i = 0; i < 8 * 3; ++i) {
      second += (i == 0 ? "" : ", ") + std::to_string(((i * 29 + 5) % 53 - 26) * 0.013);
    }
    WriteModel("net.onnx",
               "net (float[1,2,4,4] x) => (float[1,3,4,4] y) <float[8,2,3,3] w = {" + first +
                   "}, float[8] b = {0.1, -0.2, 0.03, 0.4, 0, 0.01, -0.5, 0.2}, float[3,8,1,1] v "
                   "= {" +
                   second +
                   "}, float[3] c = {0.5, -0.25, 0.01}> {\n"
                   "a = Conv <pads = [1,1,1,1]> (x, w, b)\nr = Relu(a)\ny = Conv(r, v, c)\n}");
    WriteSamples("many.npy", 24);
  }

  std::string Bytes(const std::vector<std::string>& flags, const std::string& output) {
    std::vector<std::string> arguments = {"quantize", "--model",  "net.onnx", "--calibration-data",
                                          "many.npy", "--output", output,     "--report",
                                          "r.json"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
    report_ = json::parse(Text("r.json"), nullptr, false)["graph_quantize"];
    return Text(output);
  }

  json report_;
};

TEST_P(SavedConfigTest, RepeatsTheModelByteForByte) {
  for (const char* recover : {"none", "auto"}) {
    const std::string first = Bytes({"--scheme", GetParam(), "--recover", recover}, "q.onnx");
    const bool recovered = report_.contains("recovery");
    EXPECT_EQ(recovered, std::string(recover) == "auto") << GetParam();
    // One scale a tensor leaves this net something to recover.
    if (recovered && std::string(GetParam()) == "vint8") {
      int kept = 0;
      for (const json& pass : report_["recovery"]["passes"]) kept += pass["kept"] == true ? 1 : 0;
      EXPECT_GT(kept, 0) << report_["recovery"];
    }
    const std::string saved = report_["config"].dump();
    Write("saved.json", saved);
    const std::string second = Bytes({"--config", "saved.json"}, "again.onnx");
    EXPECT_TRUE(first == second) << GetParam() << " " << recover;
    EXPECT_EQ(report_["config"].dump(), saved);
    EXPECT_EQ(report_.contains("recovery"), recovered);
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, SavedConfigTest, testing::Values("vint8", "W8-A8", "W8-A16"),
                         [](const auto& info) {
                           std::string name;
                           for (const char c : std::string(info.param)) {
                             if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
                           }
                           return name;
                         });

// Sizes that the model leaves open are part of the configuration; without data nothing else says
// them. The flag wins.
TEST_F(QuantizeVerbTest, TheSavedConfigurationFixesOpenDimensions) {
  WriteModel("open.onnx",
             "g (float[N,2,H,W] x) => (float[N,2,H,W] y) <float[2,2,1,1] w = {0.5, -0.25, 0.125, "
             "0.75}> { y = Conv(x, w) }");
  const std::vector<std::string> quantize = {"quantize", "--model",  "open.onnx", "--scheme",
                                             "bf16",     "--report", "r.json",    "--output"};
  const auto with = [&](std::string output, std::vector<std::string> flags) {
    std::vector<std::string> arguments = quantize;
    arguments.push_back(std::move(output));
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return arguments;
  };
  Outcome outcome = Run(with("q.onnx", {"--input-shape", "x=1x2x6x5"}));
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const json config = json::parse(Text("r.json"))["graph_quantize"]["config"];
  EXPECT_EQ(config["input_shapes"], json::parse(R"({"x": [1, 2, 6, 5]})"));
  Write("saved.json", config.dump());
  const std::vector<std::string> again = {"quantize",   "--model",  "open.onnx", "--config",
                                          "saved.json", "--report", "r.json"};
  std::vector<std::string> arguments = again;
  arguments.insert(arguments.end(), {"--output", "again.onnx"});
  outcome = Run(arguments);
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(Text("again.onnx") == Text("q.onnx"));
  EXPECT_EQ(json::parse(Text("r.json"))["graph_quantize"]["config"], config);

  arguments = again;
  arguments.insert(arguments.end(), {"--output", "other.onnx", "--input-shape", "x=1x2x3x3"});
  outcome = Run(arguments);
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(json::parse(Text("r.json"))["graph_quantize"]["config"]["input_shapes"]["x"],
            json::parse("[1, 2, 3, 3]"));
}

TEST_F(QuantizeVerbTest, SaysTheStrategyBeforeItIsApplied) {
  const Outcome outcome = Quantize({});
  const size_t strategy = outcome.out.find("[Strategy] scheme vint8 (default)");
  ASSERT_NE(strategy, std::string::npos) << outcome.out;
  EXPECT_LT(strategy, outcome.out.find("q.onnx:"));
}

TEST_F(QuantizeVerbTest, RandomDataIsSaidAndNotJudged) {
  const Outcome outcome = Run(
      {"quantize", "--model", "m.onnx", "--output", "q.onnx", "--evaluate", "--report", "r.json"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("random samples"));
  const json report = json::parse(Text("r.json"));
  EXPECT_EQ(report["evaluate"]["verdict"]["result"], "not_judged");
  EXPECT_EQ(report["evaluate"]["data"]["source"], "random");
}

TEST_F(QuantizeVerbTest, TheSameInputsGiveTheSameBytes) {
  ASSERT_EQ(Quantize({"--threads", "1"}).code, 0);
  const std::string first = Text("q.onnx");
  ASSERT_EQ(Quantize({"--threads", "2"}).code, 0);
  EXPECT_EQ(first, Text("q.onnx"));
}

TEST_F(QuantizeVerbTest, EvaluateRepeatsTheFigures) {
  ASSERT_TRUE(Quantize({"--evaluate", "--report", "r.json"}).code != 2);
  const Outcome outcome = Run({"evaluate", "--model", "q.onnx", "--reference", "m.onnx",
                               "--evaluation-data", "calib.npy", "--report", "e.json"});
  ASSERT_TRUE(outcome.code == 0 || outcome.code == 10) << outcome.out << outcome.err;
  const json first = json::parse(Text("r.json"))["evaluate"]["outputs"][0];
  const json second = json::parse(Text("e.json"))["evaluate"]["outputs"][0];
  EXPECT_NEAR(first["psnr_db"].get<double>(), second["psnr_db"].get<double>(), 0.01);
  EXPECT_NEAR(first["snr_db"].get<double>(), second["snr_db"].get<double>(), 0.01);
}

TEST_F(QuantizeVerbTest, AnalyzeTellsStateAndTask) {
  const Outcome outcome = Run({"analyze", "m.onnx", "--report", "a.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const json part = json::parse(Text("a.json"))["analyze"];
  EXPECT_EQ(part["state"], "float");
  EXPECT_EQ(part["nodes"], 2);
  EXPECT_EQ(part["task"], "regression");
  EXPECT_EQ(part["compute_layers"], 1);
  // 3 * 4 * 4 outputs of 2 * 3 * 3 products each.
  EXPECT_EQ(part["macs"], 864);
}

TEST_F(QuantizeVerbTest, JsonIsOneObjectALine) {
  const Outcome outcome = Quantize({"--json", "--evaluate", "--target-accuracy", "psnr>10"});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  json last;
  for (const std::string& line : Lines(outcome.out)) {
    last = json::parse(line, nullptr, false);
    ASSERT_TRUE(last.is_object()) << line;
    EXPECT_TRUE(last.contains("event")) << line;
  }
  EXPECT_EQ(last["event"], "result");
  EXPECT_EQ(last["exit_code"], 0);
  EXPECT_EQ(last["verdict"]["result"], "goal_met");
}

TEST_F(QuantizeVerbTest, NonfiniteSamplesCanBeSkipped) {
  WriteSamples("nan.npy", 4, std::numeric_limits<float>::quiet_NaN());
  const Outcome outcome = Run({"quantize", "--model", "m.onnx", "--calibration-data", "nan.npy",
                               "--allow-nonfinite", "--output", "q.onnx"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("[WARN ]"));
}

// 16-bit arithmetic rounds by some tenths of a percent; that is no fault of the optimizer.
TEST_F(QuantizeVerbTest, HalfPrecisionModelsAreTaken) {
  std::string weights;
  for (int i = 0; i < 256; ++i) {
    weights += (i == 0 ? "" : ", ") + std::to_string((i * 29 % 101 - 50) * 0.0371);
  }
  WriteModel("half.onnx",
             "g (float[1,16] x) => (float[1,16] y) <float[16,16] w = {" + weights +
                 "}> { h = Cast<to=10>(x) k = Cast<to=10>(w) m = MatMul(h, k) y = Cast<to=1>(m) }");
  WriteSamples("half.npy", 4, 0, {16});
  const Outcome outcome = Run(
      {"quantize", "--model", "half.onnx", "--calibration-data", "half.npy", "--output", "q.onnx"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
}

TEST_F(QuantizeVerbTest, HelpFitsATerminal) {
  for (const char* verb : {"quantize", "evaluate", "analyze", "serve", "step"}) {
    const Outcome outcome = Run({verb, "--help"});
    EXPECT_EQ(outcome.code, 0);
    for (const std::string& line : Lines(outcome.out)) EXPECT_LE(line.size(), 100u) << line;
  }
}

}  // namespace
}  // namespace gq::worker
