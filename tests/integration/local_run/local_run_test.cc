// A whole job on real processes: `gq run --local` starts server, worker and simulated board.
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace gq {
namespace {

namespace fs = std::filesystem;
using base::StrCat;
using nlohmann::json;
using testing::HasSubstr;

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string Variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

// Samples of shape 2 x 8 x 8, values in [-1, 1), as a .npy file of format 1.0.
void WriteSamples(const fs::path& path, int samples) {
  std::string header =
      StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': (", samples, ", 2, 8, 8), }");
  constexpr size_t kPrefix = 10;
  while ((kPrefix + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size() % 256)
       << static_cast<char>(header.size() / 256) << header;
  uint32_t state = 1;
  for (int i = 0; i < samples * 128; ++i) {
    state = state * 1664525u + 1013904223u;
    const float value = static_cast<float>(state >> 8) / (1 << 23) - 1;
    file.write(reinterpret_cast<const char*>(&value), sizeof value);
  }
}

class LocalRunTest : public testing::Test {
 protected:
  LocalRunTest() {
    std::string folder = (fs::path(testing::TempDir()) / "local_run_XXXXXX").string();
    folder_ = mkdtemp(folder.data());
    // Two convolutions; weights and data are small so that the job takes a second.
    std::ofstream(folder_ / "net.onnxtxt") << kModel;
    WriteSamples(folder_ / "d.npy", 4);
  }
  ~LocalRunTest() override { fs::remove_all(folder_); }

  // Runs gq in the test's folder; returns its exit code.
  int Gq(const std::string& arguments) {
    const std::string command = StrCat(
        "cd ", folder_.string(), " && TMPDIR=", folder_.string(), " HOME=", folder_.string(), " ",
        fs::absolute(Variable("GQ_BIN_DIR", ".")).string(), "/gq ", arguments, " > out 2> err");
    const int status = std::system(command.c_str());
    out_ = ReadAll(folder_ / "out");
    err_ = ReadAll(folder_ / "err");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  fs::path ResultFolder() {
    for (const auto& entry : fs::directory_iterator(folder_ / "gq-runs")) return entry.path();
    return {};
  }

  static constexpr char kModel[] = R"(<ir_version: 8, opset_import: ["" : 17]>
net (float[1,2,8,8] x) => (float[1,2,8,8] y)
<float[2,2,1,1] w1 = {0.5, -0.25, 0.125, 0.75}, float[2] b1 = {0.1, -0.1},
 float[2,2,1,1] w2 = {1.0, 0.5, -0.5, 0.25}, float[2] b2 = {0.0, 0.2}>
{
  a = Conv(x, w1, b1)
  r = Relu(a)
  y = Conv(r, w2, b2)
}
)";

  fs::path folder_;
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
  const std::string bin = fs::absolute(Variable("GQ_BIN_DIR", ".")).string();
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
