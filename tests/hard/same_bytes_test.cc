// The same job gives the same bytes, whatever --threads says.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "common/runtime/npy.h"
#include "tests/hard/program_run.h"
#include "tests/temporary_folder.h"

namespace gq::hard {
namespace {

namespace fs = std::filesystem;

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class SameBytes : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const char* bin = std::getenv("GQ_BIN_DIR");
    program_ = fs::absolute(fs::path(bin == nullptr ? "build/dev/bin" : bin) / "gq-worker");
    if (!fs::exists(program_)) GTEST_SKIP() << program_ << " is not built";
    runtime::Tensor samples(onnx::TensorProto::FLOAT, {16, 3, 8, 8});
    uint32_t state = 1;
    for (float& value : samples.MutableAs<float>()) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<float>(state >> 8) / (1 << 23) - 1;
    }
    ASSERT_TRUE(runtime::WriteNpy(folder_ / "x.npy", samples).ok());
  }

  std::string Quantized(const std::string& output, const std::string& threads) const {
    const fs::path model = fs::absolute("tests/hard/forms/op_pool_global_lp.onnxtxt");
    const ProgramRun run = RunProgram(
        {program_.string(), "quantize", "--model", model.string(), "--scheme", GetParam(),
         "--calibration-data", "x.npy", "--threads", threads, "--output", output},
        folder_);
    EXPECT_EQ(run.code, 0) << run.text;
    return ReadAll(folder_ / output);
  }

  fs::path program_;
  const tests::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_P(SameBytes, TwiceAndOnAnyThreads) {
  const std::string first = Quantized("a.onnx", "1");
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(first == Quantized("b.onnx", "2"), true);
  EXPECT_EQ(first == Quantized("c.onnx", "1"), true);
}

INSTANTIATE_TEST_SUITE_P(Schemes, SameBytes,
                         testing::Values("vint8", "W8-A8", "W8-A8_dynamic", "bf16"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) {
                             if (c == '-') c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace gq::hard
