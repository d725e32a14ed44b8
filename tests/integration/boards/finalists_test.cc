// A search whose finalists a board decides among, through a real server.
#include <cmath>

#include "gmock/gmock.h"
#include "tests/integration/boards/lab.h"

namespace gq {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class FinalistsTest : public LabTest {
 protected:
  void SetUp() override {
    WriteNet();
    WriteSamples(12);
  }

  // Convolutions whose channels differ in size, so that recovery gains: the quantization without it
  // and the recovered one both reach 15 dB, and the search ends at once.
  void WriteNet() {
    std::string constants, body, input = "x";
    for (int i = 0; i < kLayers; ++i) {
      const std::string n = std::to_string(i);
      constants += (i == 0 ? "" : ", ") + std::string("float[8,8,1,1] w") + n + " = {";
      for (int out = 0; out < kChannels; ++out) {
        const double scale = std::pow(10, -1.2 + 1.4 * Uniform());
        for (int in = 0; in < kChannels; ++in) {
          char text[32];
          std::snprintf(text, sizeof text, "%s%.5f", out + in == 0 ? "" : ", ", Bell() * scale);
          constants += text;
        }
      }
      constants += "}";
      const std::string output = i + 1 == kLayers ? "y" : "r" + n;
      body += "[conv" + n + "] c" + n + " = Conv(" + input + ", w" + n + ") [relu" + n + "] " +
              output + " = Relu(c" + n + ") ";
      input = output;
    }
    std::ofstream(folder_ / "chain.onnxtxt")
        << "<ir_version: 8, opset_import: [\"\" : 17]>\n"
        << "g (float[1,8,6,6] x) => (float[1,8,6,6] y) <" << constants << "> { " << body << "}";
  }

  void WriteSamples(int count) {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                         std::to_string(count) + ", 8, 6, 6), }";
    while ((header.size() + 11) % 64 != 0) header += ' ';
    header += '\n';
    std::ofstream file(folder_ / "x.npy", std::ios::binary);
    file << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size() & 0xff)
         << static_cast<char>(header.size() >> 8) << header;
    for (int i = 0; i < count * 8 * 36; ++i) {
      const auto value = static_cast<float>(2 * Bell());
      file.write(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }

  // The same numbers on every machine.
  double Uniform() {
    state_ = (state_ * 1103515245 + 12345) % (uint64_t{1} << 31);
    return static_cast<double>(state_) / static_cast<double>(uint64_t{1} << 31);
  }
  double Bell() {
    double sum = -2;
    for (int i = 0; i < 4; ++i) sum += Uniform();
    return sum;
  }

  int Run(const std::string& more) {
    return Gq(
        "run --model chain.onnxtxt --calibration-data x.npy --explore --explore-strategy greedy "
        "--explore-limit max_share=1 --stage exec --no-color " +
        more);
  }

  // Rows of the ledger that the board wrote.
  std::vector<json> BoardRows() {
    EXPECT_EQ(Gq("ledger @last --json"), 0) << err_;
    std::vector<json> rows;
    std::istringstream lines(out_);
    for (std::string line; std::getline(lines, line);) {
      const json row = json::parse(line, nullptr, false);
      if (row.is_object() && row.value("kind", "") == "board") rows.push_back(row);
    }
    return rows;
  }

  // A harness that hands models to `gq-agent harness` and spoils what the search's best computes:
  // its outputs come out a quarter too large.
  void StartLab() {
    std::ofstream(folder_ / "lab.py") << R"(#!/usr/bin/env python3
import json, os, struct, subprocess, sys
request = json.load(open(sys.argv[1]))
action = request["action"]
response = {"schema": 1, "ok": True}
def scale(path):
    data = open(path, "rb").read()
    at = 10 + struct.unpack("<H", data[8:10])[0]
    floats = struct.unpack("<%df" % ((len(data) - at) // 4), data[at:])
    data = data[:at] + struct.pack("<%df" % len(floats), *[1.25 * f for f in floats])
    open(path, "wb").write(data)
if action == "probe":
    response.update(can=["compile", "run"], schemes=["vint8", "vint8+bf16"])
elif action == "health":
    response["detail"] = "well"
elif action == "compile":
    name = os.path.join(request["output_dir"], "origin.txt")
    open(name, "w").write("iterations" if "/iterations/" in request["model"] else "best")
elif action == "run":
    inner = dict(request, response=request["work_dir"] + "/inner.json", runs=2, warmup=1)
    path = request["work_dir"] + "/inner.request.json"
    json.dump(inner, open(path, "w"))
    subprocess.run([os.environ["GQ_AGENT"], "harness", path], check=False,
                   stdout=subprocess.DEVNULL)
    response = json.load(open(inner["response"]))
    ours = request["model"].endswith("model_quantized.onnx")
    if ours and "/iterations/" not in request["model"]:
        for entry in response["outputs"] + sum(response["more_outputs"], []):
            scale(entry["file"])
    response["samples_ms"] = [4.0] if ours else [8.0]
json.dump(response, open(request["response"], "w"))
)";
    fs::permissions(folder_ / "lab.py", fs::perms::owner_all);
    StartAgent(
        "lab", "ve2-xc2ve3858",
        {"--backend", "command", "--board-option", "command=" + (folder_ / "lab.py").string(),
         "--board-option", "env.GQ_AGENT=" + Program("gq-agent")});
  }

  static constexpr int kLayers = 6;
  static constexpr int kChannels = 8;
  uint64_t state_ = 12345;
};

TEST_F(FinalistsTest, TheFastestThatMeetsTheGoalWins) {
  StartServer(1);
  StartSim("bench");
  ASSERT_EQ(Run("--device ve2 --target-accuracy 'snr>=15'"), 0) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("candidates of the search that meet the goal"));
  const json report = Report();
  const json& finalists = report["board_run"]["finalists"];
  ASSERT_GE(finalists.size(), 2u) << report["explore"].dump(1);
  std::vector<json> rows = BoardRows();
  ASSERT_EQ(rows.size(), finalists.size()) << out_;
  double least = INFINITY;
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_THAT(rows[i]["candidate"].get<std::string>(), HasSubstr("on bench (simulated)"));
    const json& metrics = rows[i]["metrics"];
    EXPECT_EQ(metrics["simulated"], 1);
    EXPECT_EQ(metrics["goal_met"], 1);
    EXPECT_GE(metrics["snr_db"], 15.0);
    EXPECT_EQ(metrics["samples"], 12);
    EXPECT_EQ(metrics["latency_p50_ms"], finalists[i]["latency_ms"]["p50"]);
    least = std::min(least, metrics["latency_p50_ms"].get<double>());
    // Numbers go on after those of the search.
    EXPECT_GT(rows[i]["number"], report["explore"]["trace"].size());
  }
  EXPECT_EQ(report["board_run"]["latency_ms"]["p50"], least);
  // Both take the same time in the roofline model, and the recovered one is better.
  EXPECT_EQ(report["board_run"]["winner"], finalists[1]["number"]);
  EXPECT_EQ(report["board_run"]["accuracy"]["verdict"]["result"], "goal_met");
  EXPECT_EQ(report["compile"]["finalists"].size() + 1, finalists.size());
}

TEST_F(FinalistsTest, OneThatMissesTheGoalOnTheBoardDropsOut) {
  if (std::system("python3 -c pass 2> /dev/null") != 0) GTEST_SKIP() << "there is no python3";
  StartServer(1);
  StartLab();
  ASSERT_EQ(Run("--device ve2 --target-accuracy 'snr>=15'"), 0) << out_ << err_;
  const json report = Report();
  const json& finalists = report["board_run"]["finalists"];
  ASSERT_GE(finalists.size(), 2u) << report["explore"].dump(1);
  EXPECT_EQ(finalists[0]["best_of_search"], true) << finalists.dump(1);
  EXPECT_EQ(finalists[0]["decision"], "rolled-back") << finalists.dump(1);
  EXPECT_EQ(finalists[0]["goal_met"], false);
  // 20 log10(1 / 0.25) = 12 dB, about.
  EXPECT_LT(finalists[0]["figures"]["snr_db"], 15.0);
  EXPECT_EQ(finalists[1]["decision"], "kept");
  EXPECT_EQ(report["board_run"]["winner"], finalists[1]["number"]);
  EXPECT_EQ(report["job"]["verdict"], "GOAL_MET");
  // The job's files and parts are those of the winner.
  EXPECT_EQ(report["evaluate"]["computed_by"], "lab");
  EXPECT_TRUE(report["board_run"]["before"].contains("evaluate"));
  ASSERT_EQ(Gq("artifacts @last --get got"), 0) << err_;
  char folder[32];
  std::snprintf(folder, sizeof folder, "got/iterations/%02d", finalists[1]["number"].get<int>());
  for (const char* name : {"model_quantized.onnx", "quark_config.json"}) {
    EXPECT_EQ(ReadAll(folder_ / "got" / name), ReadAll(folder_ / folder / name)) << name;
  }
  EXPECT_EQ(ReadAll(folder_ / "got/compile/chain/origin.txt"), "iterations");
}

TEST_F(FinalistsTest, ACpuBoardMeasuresThem) {
  StartServer(1);
  StartAgent("cpu", "xnnpack-cpu", {"--backend", "onnxruntime"});
  ASSERT_EQ(Run("--device xnnpack-cpu --target-accuracy 'snr>=15'"), 0) << out_ << err_;
  const json report = Report();
  const json& run = report["board_run"];
  ASSERT_GE(run["finalists"].size(), 1u);
  EXPECT_EQ(run["simulated"], false);
  EXPECT_EQ(run["accuracy"]["data"]["samples"], 12);
  double least = INFINITY;
  for (const json& finalist : run["finalists"]) {
    if (finalist["goal_met"] == true) {
      least = std::min(least, finalist["latency_ms"]["p50"].get<double>());
    }
  }
  EXPECT_EQ(run["latency_ms"]["p50"], least);
  EXPECT_EQ(BoardRows().size(), run["finalists"].size());
}

TEST_F(FinalistsTest, AGoalOutOfReachLeavesNothingToChoose) {
  StartServer(1);
  StartSim("bench");
  EXPECT_EQ(Run("--device ve2 --target-accuracy 'snr>=150'"), 10) << out_ << err_;
  const json report = Report();
  EXPECT_FALSE(report["board_run"].contains("finalists"));
  EXPECT_GT(report["board_run"]["latency_ms"]["p50"], 0.0);
}

}  // namespace
}  // namespace gq
