// gq-worker dequantize and requantize, run files and the quark engine, as a user runs them.
#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/server/worker/worker_process.h"

namespace gq::worker {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class StripVerbTest : public WorkerTest {
 protected:
  void SetUp() override {
    WorkerTest::SetUp();
    if (IsSkipped()) return;
    WriteConvModel("m.onnx");
    WriteSamples("calib.npy", 4);
  }

  // q.onnx, the quantized form of m.onnx.
  void WriteQuantized() const {
    const Outcome outcome = Run(
        {"quantize", "--model", "m.onnx", "--calibration-data", "calib.npy", "--output", "q.onnx"});
    ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  }

  int Count(const std::string& file, const std::string& op_type) const {
    onnx::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(Text(file)));
    int count = 0;
    for (const auto& node : model.graph().node()) count += node.op_type() == op_type ? 1 : 0;
    return count;
  }
};

TEST_F(StripVerbTest, DequantizeWritesAFloatModelAndMeasuresIt) {
  WriteQuantized();
  const Outcome outcome = Run({"dequantize", "--model", "q.onnx", "--evaluation-data", "calib.npy",
                               "--output", "f.onnx", "--report", "r.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(Count("f.onnx", "QuantizeLinear") + Count("f.onnx", "DequantizeLinear"), 0);
  EXPECT_EQ(Count("f.onnx", "Conv"), 1);
  const json report = json::parse(Text("r.json"))["dequantize"];
  EXPECT_EQ(report["before"]["state"], "qdq");
  EXPECT_EQ(report["fidelity"]["samples"], 4);
  EXPECT_GT(report["fidelity"]["outputs"][0]["psnr_db"].get<double>(), 30);
  EXPECT_THAT(outcome.out, HasSubstr("Stripped    output y: SNR "));
}

TEST_F(StripVerbTest, AFloatModelIsRefusedWithTheWayOn) {
  ExpectError({"dequantize", "--model", "m.onnx"}, 2, "NOT_QUANTIZED",
              {"holds no quantized operator", "--mode full"});
  ExpectError({"requantize", "--model", "m.onnx", "--output", "q.onnx"}, 2, "NOT_QUANTIZED", {});
}

TEST_F(StripVerbTest, RequantizeComparesOldAndNewWithTheReference) {
  WriteQuantized();
  const Outcome outcome =
      Run({"requantize", "--model", "q.onnx", "--calibration-data", "calib.npy", "--reference",
           "m.onnx", "--scheme", "W8-A16", "--output", "q2.onnx", "--report", "r.json"});
  ASSERT_TRUE(outcome.code == 0 || outcome.code == 10) << outcome.out << outcome.err;
  EXPECT_GT(Count("q2.onnx", "DequantizeLinear"), 0);
  const json report = json::parse(Text("r.json"));
  const json part = report["evaluate"]["requantize"];
  EXPECT_EQ(part["reference"], "given");
  EXPECT_TRUE(part["improved"].is_boolean());
  EXPECT_EQ(part["outputs"][0]["name"], "y");
  EXPECT_TRUE(part["outputs"][0].contains("psnr_delta_db"));
  EXPECT_EQ(report["steps"].size(), 4u);
  EXPECT_THAT(outcome.out, HasSubstr("mproved: worst output"));
  EXPECT_EQ(Files(), (std::set<std::string>{"calib.npy", "m.onnx", "q.onnx", "q2.onnx", "r.json"}));
}

TEST_F(StripVerbTest, WithoutAReferenceTheStrippedModelIsTheMeasure) {
  WriteQuantized();
  const Outcome outcome = Run({"requantize", "--model", "q.onnx", "--calibration-data", "calib.npy",
                               "--output", "q2.onnx", "--report", "r.json"});
  ASSERT_TRUE(outcome.code == 0 || outcome.code == 10) << outcome.out << outcome.err;
  const json report = json::parse(Text("r.json"));
  EXPECT_EQ(report["evaluate"]["requantize"]["reference"], "stripped");
  EXPECT_THAT(outcome.out, HasSubstr("stripped model, not the float model"));
}

// The models of the quantizers of ONNX Runtime in operator form.
TEST_F(StripVerbTest, OperatorsOfIntegersBecomeFloatOperators) {
  const std::filesystem::path source = std::filesystem::absolute("../shared/cases/qoperator-input");
  if (!std::filesystem::exists(source / "model.onnx")) {
    GTEST_SKIP() << "../shared/cases is not there: the hard inputs are not shipped";
  }
  const Outcome outcome =
      Run({"dequantize", "--model", (source / "model.onnx").string(), "--evaluation-data",
           (source / "eval.npz").string(), "--output", "f.onnx", "--report", "r.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  for (const char* op : {"QLinearConv", "QLinearMatMul", "QLinearAdd", "QuantizeLinear"}) {
    EXPECT_EQ(Count("f.onnx", op), 0) << op;
  }
  const json report = json::parse(Text("r.json"))["dequantize"];
  EXPECT_GT(report["fidelity"]["outputs"][0]["psnr_db"].get<double>(), 20);
}

TEST_F(StripVerbTest, ARunFileSetsWhatFlagsLeaveOpen) {
  Write("run.yaml",
        "model: m.onnx\ncalibration_data: calib.npy\nsteps:\n- graph_optimize: null\n"
        "- graph_quantize: {scheme: W8-A8}\nevaluate: {}\n");
  Write("run.detail.yaml",
        "detail:\n  graph_quantize[0]:\n    weight: {granularity: TENSOR}\n"
        "    parameters: {calibration: {num_samples: 3}}\n");
  const Outcome outcome =
      Run({"quantize", "-f", "run.yaml", "--output", "q.onnx", "--report", "r.json"});
  ASSERT_TRUE(outcome.code == 0 || outcome.code == 10) << outcome.out << outcome.err;
  const json report = json::parse(Text("r.json"));
  EXPECT_EQ(report["graph_quantize"]["scheme"], "W8-A8");
  EXPECT_EQ(report["graph_quantize"]["calibration"]["samples"], 3);
  EXPECT_EQ(report["graph_quantize"]["config"]["global_config"]["weight"]["params"].value(
                "quant_granularity", "Tensor"),
            "Tensor");
  EXPECT_TRUE(report.contains("evaluate"));
  const Outcome flags = Run({"quantize", "-f", "run.yaml", "--scheme", "vint8", "--num-samples",
                             "2", "--output", "q2.onnx", "--report", "r2.json"});
  ASSERT_TRUE(flags.code == 0 || flags.code == 10) << flags.out << flags.err;
  const json second = json::parse(Text("r2.json"));
  EXPECT_EQ(second["graph_quantize"]["scheme"], "vint8");
  EXPECT_EQ(second["graph_quantize"]["calibration"]["samples"], 2);
}

TEST_F(StripVerbTest, TheDetailsAreInTheSavedConfiguration) {
  Write("run.yaml",
        "model: m.onnx\ncalibration_data: calib.npy\nsteps:\n- graph_optimize: null\n"
        "- graph_quantize: {scheme: W8-A8}\n");
  Write("run.detail.yaml",
        "detail:\n  graph_quantize[0]:\n"
        "    weight: {granularity: CHANNEL, calibration_method: PERCENTILE, percentile: 90}\n"
        "    activation: {calibration_method: PERCENTILE, percentile: 99, symmetric: true}\n");
  ASSERT_EQ(Run({"quantize", "-f", "run.yaml", "--recover", "none", "--output", "q.onnx",
                 "--report", "r.json"})
                .code,
            0);
  const json report = json::parse(Text("r.json"));
  Write("config.json", report["graph_quantize"]["config"].dump());
  ASSERT_EQ(Run({"quantize", "--model", "m.onnx", "--calibration-data", "calib.npy", "--config",
                 "config.json", "--output", "again.onnx"})
                .code,
            0);
  EXPECT_EQ(Text("q.onnx"), Text("again.onnx"));
}

// Where AMD Quark is not installed, the error names the interpreter and the package.
TEST_F(StripVerbTest, AMissingQuarkIsNamed) {
  setenv("GQ_QUARK_PYTHON", "gq-no-such-python", 1);
  ExpectError({"quantize", "--model", "m.onnx", "--calibration-data", "calib.npy", "--engine",
               "quark", "--output", "q.onnx"},
              5, "TOOL_MISSING", {"gq-no-such-python", "amd-quark", "GQ_QUARK_PYTHON"});
  unsetenv("GQ_QUARK_PYTHON");
}

// Against the real package, where GQ_TEST_QUARK_PYTHON names a Python that has it.
TEST_F(StripVerbTest, QuarkQuantizesTheSameModel) {
  const char* const python = std::getenv("GQ_TEST_QUARK_PYTHON");
  if (python == nullptr) {
    GTEST_SKIP() << "GQ_TEST_QUARK_PYTHON is not set: AMD Quark (amd-quark, onnx, onnxruntime) is "
                    "not tested here";
  }
  setenv("GQ_QUARK_PYTHON", python, 1);
  const Outcome quark =
      Run({"quantize", "--model", "m.onnx", "--calibration-data", "calib.npy", "--engine", "quark",
           "--evaluate", "--output", "q.onnx", "--report", "r.json"});
  unsetenv("GQ_QUARK_PYTHON");
  ASSERT_TRUE(quark.code == 0 || quark.code == 10) << quark.out << quark.err;
  const json report = json::parse(Text("r.json"));
  EXPECT_EQ(report["graph_quantize"]["engine"], "quark");
  EXPECT_TRUE(report["graph_quantize"]["quark"].contains("quark"));
  EXPECT_GT(report["evaluate"]["outputs"][0]["psnr_db"].get<double>(), 25);
  EXPECT_GT(Count("q.onnx", "QuantizeLinear"), 0);
}

}  // namespace
}  // namespace gq::worker
