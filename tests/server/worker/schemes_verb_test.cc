// gq-worker quantize with every scheme, as a user runs it: the file, what is measured, and what is
// said about it.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/server/worker/worker_process.h"

namespace gq::worker {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class SchemesVerbTest : public WorkerTest {
 protected:
  void SetUp() override {
    WorkerTest::SetUp();
    if (IsSkipped()) return;
    // Three layers: head, body and tail.
    WriteModel("m.onnx", "g (float[1,8] x) => (float[1,4] y) <float[8,8] v = {" + Numbers(64, 7) +
                             "}, float[8,8] w = {" + Numbers(64, 5) + "}, float[8,4] u = {" +
                             Numbers(32, 3) +
                             "}> { a = MatMul(x, v) b = Relu(a) c = MatMul(b, w) d = Relu(c) "
                             "y = MatMul(d, u) }");
    WriteSamples("calib.npy", 8, 0, {8});
  }

  static std::string Numbers(int count, int step) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += (i == 0 ? "" : ", ") + std::to_string(((i * step) % 23 - 11) * 0.04);
    }
    return text;
  }

  Outcome Quantize(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {
        "quantize", "--model", "m.onnx",     "--output",          "q.onnx",
        "--report", "r.json",  "--evaluate", "--target-accuracy", "snr>=5"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }

  json Report() const { return json::parse(Text("r.json")); }
};

TEST_F(SchemesVerbTest, EverySchemeGivesAModelThatIsMeasured) {
  for (const char* scheme :
       {"vint8", "xint8", "bf16", "fp16", "W8-A8", "W8-A16", "W8-A8_dynamic", "W4-A8_dynamic"}) {
    const Outcome outcome = Quantize({"--scheme", scheme, "--calibration-data", "calib.npy"});
    EXPECT_EQ(outcome.code, 0) << scheme << outcome.out << outcome.err;
    EXPECT_EQ(Report()["graph_quantize"]["scheme"], scheme);
    EXPECT_EQ(Report()["graph_quantize"]["sanity"]["ran"], true) << scheme;
  }
}

TEST_F(SchemesVerbTest, EveryPresetIsTaken) {
  for (const char* preset : {"full_vint8", "full_bf16", "full_fp16", "vint8_bf16_head_tail",
                             "xint8", "w8a8", "w8a16", "w8a8_dynamic", "w4a8_dynamic"}) {
    const Outcome outcome = Quantize({"--config", preset, "--calibration-data", "calib.npy"});
    EXPECT_EQ(outcome.code, 0) << preset << outcome.out << outcome.err;
  }
}

TEST_F(SchemesVerbTest, FloatFormIsEvaluatedInThePrecisionOfTheDevice) {
  const Outcome outcome =
      Quantize({"--config", "vint8_bf16_head_tail", "--calibration-data", "calib.npy"});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("head in BF16"));
  EXPECT_THAT(outcome.out, HasSubstr("a CPU alone would not show"));
  const json report = Report();
  EXPECT_EQ(report["graph_quantize"]["scheme"], "vint8+bf16");
  EXPECT_EQ(report["evaluate"]["reduced_precision"]["precision"], "BF16");
  // The file says it too, so that a later evaluation gives the same figures.
  const Outcome again = Run({"evaluate", "--model", "q.onnx", "--reference", "m.onnx",
                             "--evaluation-data", "calib.npy", "--report", "e.json"});
  EXPECT_TRUE(again.code == 0 || again.code == 10) << again.err;
  EXPECT_NEAR(json::parse(Text("e.json"))["evaluate"]["outputs"][0]["snr_db"].get<double>(),
              report["evaluate"]["outputs"][0]["snr_db"].get<double>(), 0.01);
}

TEST_F(SchemesVerbTest, CastFormShowsItsPrecisionItself) {
  const Outcome outcome =
      Quantize({"--scheme", "vint8+fp16", "--fp-op-types", "Relu", "--fp-nodes", "^.*0.*",
                "--mixed-form", "cast", "--allow-unmatched", "--calibration-data", "calib.npy"});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_FALSE(Report()["evaluate"].contains("reduced_precision"));
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(Text("q.onnx")));
  int casts = 0;
  for (const auto& node : model.graph().node()) casts += node.op_type() == "Cast";
  EXPECT_GT(casts, 0);
}

TEST_F(SchemesVerbTest, SchemesWithoutRangesAskForNoData) {
  for (const char* scheme : {"bf16", "W8-A8_dynamic"}) {
    const Outcome outcome = Run({"quantize", "--model", "m.onnx", "--output", "q.onnx", "--report",
                                 "r.json", "--scheme", scheme});
    ASSERT_EQ(outcome.code, 0) << scheme << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("no calibration: ")) << scheme;
    EXPECT_THAT(outcome.out, Not(HasSubstr("random samples"))) << scheme;
  }
}

TEST_F(SchemesVerbTest, WhatFallsBackFromInt4IsSaid) {
  WriteConvModel("m.onnx");
  WriteSamples("calib.npy", 4);
  const Outcome outcome =
      Quantize({"--scheme", "W4-A8_dynamic", "--calibration-data", "calib.npy"});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("1 layer has 8 bits: a convolution takes no int4"));
  bool said = false;
  const auto report = Report();
  const auto& layers = report.at("graph_quantize").at("layers");
  for (const auto& layer : layers) {
    if (layer["op"] != "Conv") continue;
    said = layer["reason"] == "8 bits: a convolution takes no int4" && layer["precision"] == "int8";
  }
  EXPECT_TRUE(said) << layers;
}

TEST_F(SchemesVerbTest, MistakesAreRefusedWithWhatIsLegal) {
  const std::vector<std::string> base = {
      "quantize", "--model", "m.onnx", "--output", "q.onnx", "--calibration-data", "calib.npy"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = base;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  ExpectError(with({"--scheme", "W8-A8", "--device", "ve2"}), 2, "SCHEME_ILLEGAL",
              {"'ve2' does not take the scheme 'W8-A8'", "vint8, bf16, fp16"});
  ExpectError(with({"--scheme", "vint8+bf16"}), 2, "INVALID_FLAG",
              {"which layers stay in bfloat16", "--fp-nodes"});
  ExpectError(with({"--scheme", "W8-A8_dynamic", "--calibration-method", "minmax"}), 2,
              "INVALID_FLAG", {"found at run time"});
  ExpectError(with({"--config", "vint8_bf16_head_tail", "--head", "2"}), 2, "CONFIG_INVALID",
              {"compute layers", "--head"});
  ExpectError(with({"--fp-op-types", "LSTM"}), 2, "PATTERN_UNMATCHED", {"LSTM", "MatMul"});
}

}  // namespace
}  // namespace gq::worker
