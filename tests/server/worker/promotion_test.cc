// What a search promotes layers to, by device and scheme, and the bits that the report gives.
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/server/worker/step_process.h"

namespace gq::worker {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr int kWidth = 64;
constexpr int kLayers = 4;

// Dense layers of 64 inputs and outputs with a Relu behind each but the last.
class PromotionTest : public StepProcessTest {
 protected:
  void SetUp() override {
    WorkerTest::SetUp();
    if (IsSkipped()) return;
    std::string constants, body, input = "x";
    for (int layer = 0; layer < kLayers; ++layer) {
      const std::string n = std::to_string(layer);
      constants += (layer == 0 ? "float[64,64] w" : ", float[64,64] w") + n + " = {";
      for (int i = 0; i < kWidth * kWidth; ++i) {
        const int wave = (i * (37 + 2 * layer) + i * i % 101) % 255 - 127;
        constants += (i == 0 ? "" : ", ") + std::to_string(wave / 1270.0);
      }
      constants += "}";
      const std::string output = layer + 1 == kLayers ? "y" : "m" + n;
      body += output + " = MatMul(" + input + ", w" + n + ") ";
      if (layer + 1 < kLayers) body += "r" + n + " = Relu(m" + n + ") ";
      input = "r" + n;
    }
    WriteModel("m.onnx",
               "g (float[1,64] x) => (float[1,64] y) <" + constants + "> { " + body + "}");
    WriteSamples("x.npy", 12, 0, {kWidth});
  }

  // Searches greedily with a goal out of reach; returns the report of the best model's layers.
  json Explore(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {
        "explore",   "--model",         "m.onnx",        "--calibration-data",
        "x.npy",     "--recover",       "none",          "--target-accuracy",
        "snr>=200",  "--atol",          "1e-7",          "--rtol",
        "1e-7",      "--explore-limit", "max_share=0.5", "--output",
        "best.onnx", "--report",        "r.json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, 10) << outcome.out << outcome.err;
    const json report = json::parse(Text("r.json"), nullptr, false);
    EXPECT_FALSE(report.is_discarded());
    return report;
  }

  // Bits of weights and activations of each MatMul -> how many have them.
  static std::map<std::pair<int, int>, int> Bits(const json& report) {
    std::map<std::pair<int, int>, int> bits;
    for (const json& layer : report["graph_quantize"]["layers"]) {
      if (layer["op"] != "MatMul") continue;
      ++bits[{layer["weight_bits"].get<int>(), layer["activation_bits"].get<int>()}];
    }
    return bits;
  }

  static double Snr(const json& trace_row) { return trace_row["figures"]["snr_db"].get<double>(); }

  int Count(const std::string& op) const {
    onnx::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(Text("best.onnx")));
    int count = 0;
    for (const auto& node : model.graph().node()) count += node.op_type() == op;
    return count;
  }
};

TEST_F(PromotionTest, EthosUTakesActivationsOf16Bits) {
  const json report = Explore({"--device", "ethos-u-85", "--scheme", "W8-A8"});
  EXPECT_EQ(report["explore"]["precision"], "int16");
  EXPECT_EQ(Bits(report), (std::map<std::pair<int, int>, int>{{{8, 8}, 2}, {{8, 16}, 2}}));
  const json& trace = report["explore"]["trace"];
  EXPECT_GT(Snr(trace.back()), Snr(trace.front()));
  // Pairs of int16 stand in the file.
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(Text("best.onnx")));
  int wide = 0;
  for (const auto& tensor : model.graph().initializer()) {
    wide += tensor.data_type() == onnx::TensorProto::INT16;
  }
  EXPECT_GT(wide, 0);
  EXPECT_EQ(Count("MatMul"), kLayers);
}

TEST_F(PromotionTest, XnnpackTakesFloats) {
  const json report = Explore({"--device", "xnnpack-cpu", "--scheme", "W8-A8"});
  EXPECT_EQ(report["explore"]["precision"], "fp32");
  EXPECT_EQ(Bits(report), (std::map<std::pair<int, int>, int>{{{8, 8}, 2}, {{32, 32}, 2}}));
}

TEST_F(PromotionTest, Int4WeightsBecomeInt8) {
  const json report = Explore({"--device", "xnnpack-cpu", "--scheme", "W4-A8_dynamic"});
  EXPECT_EQ(report["explore"]["precision"], "int8");
  EXPECT_EQ(Bits(report), (std::map<std::pair<int, int>, int>{{{4, 8}, 2}, {{8, 8}, 2}}));
  EXPECT_EQ(Count("MatMulNBits"), 2);
  EXPECT_EQ(Count("MatMulInteger"), 2);
}

TEST_F(PromotionTest, Int4WeightsBecomeFloatOnRequest) {
  const json report = Explore({"--device", "xnnpack-cpu", "--scheme", "W4-A8_dynamic",
                               "--explore-limit", "precision=FP32"});
  EXPECT_EQ(Bits(report), (std::map<std::pair<int, int>, int>{{{4, 8}, 2}, {{32, 32}, 2}}));
  EXPECT_EQ(Count("MatMul"), 2);
}

TEST_F(PromotionTest, Ve2TakesBfloat16) {
  const json report = Explore({"--device", "ve2", "--scheme", "vint8"});
  EXPECT_EQ(report["explore"]["precision"], "bf16");
  EXPECT_EQ(Bits(report), (std::map<std::pair<int, int>, int>{{{8, 8}, 2}, {{16, 16}, 2}}));
}

// automatic_mixed_precision: GREEDY of run.yaml.
TEST_F(PromotionTest, TheSearchInsideGraphQuantizeIsTheSame) {
  spec_.mutable_model()->mutable_file()->set_name("m.onnx");
  spec_.add_calibration_data()->set_name("x.npy");
  spec_.set_device("ethos-u-85");
  spec_.set_scheme("W8-A8");
  spec_.set_recover("none");
  spec_.set_search_in_quantize(true);
  spec_.set_explore_strategy("greedy");
  spec_.add_target_accuracy("snr>=200");
  spec_.set_atol(1e-7);  // a pass rate that does not end the search at once
  spec_.set_rtol(1e-7);
  spec_.add_explore_limit("max_share=0.5");
  RunStep(gq::v1::STEP_KIND_GRAPH_OPTIMIZE, "w1");
  const gq::v1::StepResult result = RunStep(gq::v1::STEP_KIND_GRAPH_QUANTIZE, "w2");
  ASSERT_EQ(result.state(), gq::v1::ATTEMPT_STATE_SUCCEEDED) << result.DebugString();
  const json report = {{"graph_quantize", json::parse(result.report_json())}};
  EXPECT_EQ(report["graph_quantize"]["explore"]["precision"], "int16");
  EXPECT_EQ(Bits(report), (std::map<std::pair<int, int>, int>{{{8, 8}, 2}, {{8, 16}, 2}}));
}

TEST_F(PromotionTest, WhatCannotBePromotedIsRefused) {
  const auto refused = [&](const std::vector<std::string>& more,
                           const std::vector<std::string>& mentions) {
    std::vector<std::string> arguments = {"explore", "--model",  "m.onnx",   "--calibration-data",
                                          "x.npy",   "--output", "best.onnx"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    ExpectError(arguments, 2, "SCHEME_ILLEGAL", mentions);
  };
  refused({"--scheme", "W8-A8", "--explore-limit", "precision=INT8"}, {"int4 weights"});
  refused({"--scheme", "W8-A16", "--explore-limit", "precision=INT16"}, {"int8 activations"});
  refused({"--scheme", "W4-A8_dynamic", "--explore-strategy", "sensitivity"}, {"run time"});
  refused({"--scheme", "bf16"}, {"integers"});
}

}  // namespace
}  // namespace gq::worker
