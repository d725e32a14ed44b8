// A whole job on real processes: `gq run --local` starts server, worker and simulated board.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/integration/gq_run.h"
#include "tests/temporary_folder.h"

namespace gq {
namespace {

namespace fs = std::filesystem;
using base::StrCat;
using nlohmann::json;
using testing::HasSubstr;

// A .npy file of format 1.0; `values` follow the header as they are in memory.
template <typename T>
void WriteNpy(const fs::path& path, const std::string& type, const std::string& shape,
              const std::vector<T>& values) {
  std::string header =
      StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': (", shape, "), }");
  constexpr size_t kPrefix = 10;
  while ((kPrefix + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size() % 256)
       << static_cast<char>(header.size() / 256) << header;
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(T)));
}

// Samples of shape 2 x 8 x 8, values in [-1, 1).
void WriteSamples(const fs::path& path, int samples) {
  uint32_t state = 1;
  std::vector<float> values;
  for (int i = 0; i < samples * 128; ++i) {
    state = state * 1664525u + 1013904223u;
    values.push_back(static_cast<float>(state >> 8) / (1 << 23) - 1);
  }
  WriteNpy(path, "<f4", StrCat(samples, ", 2, 8, 8"), values);
}

class LocalRunTest : public testing::Test {
 protected:
  LocalRunTest() {
    std::ofstream(folder_ / "net.onnxtxt") << kSmallNet;
    WriteSamples(folder_ / "d.npy", 4);
  }

  // Runs gq in the test's folder; returns its exit code.
  int Gq(const std::string& arguments) {
    GqOutcome outcome =
        RunGq(folder_, StrCat("TMPDIR=", folder_.string(), " HOME=", folder_.string()), arguments);
    out_ = std::move(outcome.out);
    err_ = std::move(outcome.err);
    return outcome.code;
  }

  fs::path ResultFolder() {
    for (const auto& entry : fs::directory_iterator(folder_ / "gq-runs")) return entry.path();
    return {};
  }

  const tests::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  std::string out_;
  std::string err_;
};

TEST_F(LocalRunTest, QuantizesEvaluatesAndCompiles) {
  ASSERT_EQ(Gq("run --local --model net.onnxtxt --calibration-data d.npy --target-accuracy "
               "'psnr>20' --utc"),
            0)
      << out_ << err_;
  for (const char* banner :
       {"[1/4] Graph Optimize", "[2/4] Graph Quantize", "[3/4] Evaluate", "[4/4] Compile"}) {
    EXPECT_THAT(out_, HasSubstr(banner));
  }
  EXPECT_THAT(out_, HasSubstr("Verdict: "));
  EXPECT_THAT(out_, HasSubstr("(simulated)"));
  const fs::path results = ResultFolder();
  for (const char* name : {"report.json", "report.html", "log.txt", "model_quantized.onnx",
                           "quark_config.json", "vitisai_config.json"}) {
    EXPECT_GT(ReadAll(results / name).size(), 0u) << name;
  }
  const json report = json::parse(ReadAll(results / "report.json"), nullptr, false);
  EXPECT_EQ(report["schema"], 1);
  EXPECT_EQ(report["compile"]["simulated"], true);
  EXPECT_EQ(report["steps"].size(), 4u);
  // The private server has taken its folder with it.
  for (const auto& entry : fs::directory_iterator(folder_)) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("gq-local-")) << entry.path();
  }
}

// The net hands its input on; of six samples five have the label of their largest value.
TEST_F(LocalRunTest, LabelsGiveTheTrueAccuracy) {
  std::ofstream(folder_ / "classes.onnxtxt")
      << "<ir_version: 8, opset_import: [\"\" : 17]>\n"
         "net (float[1,3] x) => (float[1,3] y) <float[3,3] w = {1,0,0,0,1,0,0,0,1}> "
         "{ y = MatMul(x, w) }";
  std::vector<float> values;
  for (int i = 0; i < 18; ++i) values.push_back(i % 3 == i / 3 % 3 ? 1.0f : -0.5f);
  WriteNpy(folder_ / "c.npy", "<f4", "6, 3", values);
  WriteNpy(folder_ / "labels.npy", "<i8", "6,", std::vector<int64_t>{0, 1, 2, 0, 1, 1});
  ASSERT_EQ(Gq("run --local --model classes.onnxtxt --calibration-data c.npy --evaluation-data "
               "c.npy --labels labels.npy --stage quantize --target-accuracy 'top1>=fp32-1%'"),
            0)
      << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("goal met: top1>=fp32-1% holds"));
  const json report = json::parse(ReadAll(ResultFolder() / "report.json"), nullptr, false);
  EXPECT_NEAR(report["evaluate"]["top1"].get<double>(), 500.0 / 6, 1e-9);
  EXPECT_NEAR(report["evaluate"]["fp32_top1"].get<double>(), 500.0 / 6, 1e-9);
}

TEST_F(LocalRunTest, TheSavedConfigurationRepeatsTheModel) {
  ASSERT_EQ(Gq("run --local --model net.onnxtxt --calibration-data d.npy --stage quantize"), 0)
      << out_ << err_;
  const fs::path first = ResultFolder();
  fs::rename(first, folder_ / "first");
  ASSERT_EQ(Gq("run --local --model net.onnxtxt --calibration-data d.npy --stage quantize "
               "--config first/quark_config.json"),
            0)
      << out_ << err_;
  EXPECT_EQ(ReadAll(folder_ / "first/model_quantized.onnx"),
            ReadAll(ResultFolder() / "model_quantized.onnx"));
}

TEST_F(LocalRunTest, AMissedGoalReturnsTheModelAndExitCode10) {
  EXPECT_EQ(Gq("run --local --model net.onnxtxt --calibration-data d.npy --stage quantize "
               "--target-accuracy 'psnr>200'"),
            10)
      << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("Verdict: goal not met"));
  EXPECT_THAT(out_, HasSubstr("Try next: gq run --local --model"));
  EXPECT_GT(ReadAll(ResultFolder() / "model_quantized.onnx").size(), 0u);
}

TEST_F(LocalRunTest, ARunFileIsAJobOfTwoOrFourSteps) {
  ASSERT_EQ(Gq("init job"), 0) << out_ << err_;
  std::ofstream(folder_ / "job/run.yaml")
      << "model: ../net.onnxtxt\ncalibration_data: ../d.npy\nsteps:\n- graph_optimize: null\n"
         "- graph_quantize:\n  - scheme: vint8\n    automatic_mixed_precision: null\n";
  ASSERT_EQ(Gq("validate job/run.yaml"), 0) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("is valid: graph_optimize, graph_quantize"));
  ASSERT_EQ(Gq("run --local -f job/run.yaml"), 0) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("[2/2] Graph Quantize"));
  EXPECT_GT(ReadAll(ResultFolder() / "model_quantized.onnx").size(), 0u);
  EXPECT_EQ(Gq("run --local -f job/missing.yaml"), 2) << out_ << err_;
}

TEST_F(LocalRunTest, GraphQuantizeAloneTakesTheModelAsItIs) {
  std::ofstream(folder_ / "run.yaml")
      << "model: net.onnxtxt\ncalibration_data: d.npy\nsteps:\n"
         "- graph_quantize: {scheme: vint8}\nevaluate: {}\ntarget_accuracy: psnr>10\n";
  ASSERT_EQ(Gq("run --local -f run.yaml"), 0) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("[1/2] Graph Quantize"));
  EXPECT_THAT(out_, HasSubstr("taken as it is"));
  EXPECT_THAT(out_, HasSubstr("[2/2] Evaluate"));
}

TEST_F(LocalRunTest, AQuantizedModelIsStrippedAndQuantizedAnew) {
  ASSERT_EQ(Gq("run --local --model net.onnxtxt --calibration-data d.npy --stage quantize"), 0)
      << out_ << err_;
  fs::rename(ResultFolder(), folder_ / "first");
  const int code =
      Gq("run --local --mode requantize --model first/model_quantized.onnx --reference net.onnxtxt "
         "--calibration-data d.npy --stage quantize");
  ASSERT_TRUE(code == 0 || code == 10) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("[1/4] Dequantize"));
  EXPECT_THAT(out_, HasSubstr("Requantized"));
  const fs::path results = ResultFolder();
  EXPECT_GT(ReadAll(results / "model_stripped.onnx").size(), 0u);
  const json report = json::parse(ReadAll(results / "report.json"), nullptr, false);
  EXPECT_EQ(report["dequantize"]["before"]["state"], "qdq");
  EXPECT_EQ(report["evaluate"]["requantize"]["reference"], "given");
}

// Needs a server that outlives the first job.
TEST_F(LocalRunTest, AJobStartsFromTheResultOfAnother) {
  const std::string bin = ProgramFolder().string();
  const std::string socket = (folder_ / "gq.sock").string();
  ASSERT_EQ(
      std::system(StrCat("cd ", folder_.string(), "; ", bin, "/gq-server --data data --socket ",
                         socket, " --listen none --workers 1 > server.log 2>&1 & echo $! > ",
                         folder_.string(), "/server.pid; for i in $(seq 200); do [ -S ", socket,
                         " ] && break; sleep 0.1; done")
                      .c_str()),
      0);
  const std::string server = StrCat(" --server unix:", socket);
  const int first =
      Gq("run --model net.onnxtxt --calibration-data d.npy --stage quantize "
         "--target-accuracy 'psnr>10'" +
         server);
  const std::string first_text = out_ + err_;
  const int second =
      Gq("run --from @last --mode requantize --scheme bf16 --stage quantize" + server);
  std::system(StrCat("kill $(cat ", folder_.string(), "/server.pid)").c_str());
  ASSERT_EQ(first, 0) << first_text << ReadAll(folder_ / "server.log");
  ASSERT_EQ(second, 0) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("goal met: psnr>10 holds"));  // taken over
  EXPECT_THAT(out_, HasSubstr("the reference is the FP32 model that was given"));
}

TEST_F(LocalRunTest, ABadModelIsAnErrorOfTheUser) {
  std::ofstream(folder_ / "bad.onnxtxt") << "<ir_version: 8> no model";
  EXPECT_EQ(Gq("run --local --model bad.onnxtxt --stage quantize"), 2) << out_ << err_;
  EXPECT_THAT(err_, HasSubstr("(MODEL_INVALID)"));
}

}  // namespace
}  // namespace gq
