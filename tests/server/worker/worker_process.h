// Runs the real gq-worker in a folder of its own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "common/runtime/npy.h"
#include "common/runtime/tensor.h"
#include "onnx/defs/parser.h"
#include "onnx/onnx_pb.h"
#include "tests/temporary_folder.h"

namespace gq::worker {

struct Outcome {
  int code = -1;    // exit code, or 128 + signal
  std::string out;  // standard output
  std::string err;  // standard error
};

inline std::string ReadText(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class WorkerTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* bin = std::getenv("GQ_BIN_DIR");
    program_ = std::filesystem::path(bin != nullptr ? bin : "build/dev/bin") / "gq-worker";
    if (!std::filesystem::exists(program_)) GTEST_SKIP() << program_ << " is not built";
  }

  // Runs with the folder as current folder.
  Outcome Run(const std::vector<std::string>& arguments) const {
    std::string command = "cd " + Quote(folder_.string()) + " && exec " +
                          Quote(std::filesystem::absolute(program_).string());
    for (const std::string& argument : arguments) command += " " + Quote(argument);
    const std::filesystem::path out = folder_.string() + ".out", err = folder_.string() + ".err";
    command = "(" + command + ") >" + Quote(out.string()) + " 2>" + Quote(err.string());
    const int status = std::system(command.c_str());
    Outcome outcome;
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcome.out = ReadText(out);
    outcome.err = ReadText(err);
    std::filesystem::remove(out);
    std::filesystem::remove(err);
    return outcome;
  }

  std::filesystem::path Path(const std::string& name) const { return folder_ / name; }
  std::string Text(const std::string& name) const { return ReadText(Path(name)); }

  void Write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories(Path(name).parent_path());
    std::ofstream(Path(name), std::ios::binary) << bytes;
  }

  // A model in ONNX's text form, saved as binary.
  void WriteModel(const std::string& name, const std::string& body, int opset = 17) const {
    onnx::ModelProto proto;
    const std::string text =
        "<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset) + "]>\n" + body;
    const auto status = onnx::OnnxParser::Parse(proto, text.c_str());
    ASSERT_TRUE(status.IsOK()) << status.ErrorMessage();
    Write(name, proto.SerializeAsString());
  }

  // A convolution with a Relu behind it: input x [1,2,4,4], output y [1,channels,4,4].
  void WriteConvModel(const std::string& name, int channels = 3) const {
    std::string weights, biases;
    for (int i = 0; i < channels * 18; ++i) {
      weights += (i == 0 ? "" : ", ") + std::to_string(((i * 7) % 11 - 5) * 0.03125);
    }
    for (int i = 0; i < channels; ++i) {
      biases += (i == 0 ? "" : ", ") + std::to_string((i % 5 - 2) * 0.125);
    }
    const std::string n = std::to_string(channels);
    WriteModel(name, "g (float[1,2,4,4] x) => (float[1," + n + ",4,4] y) <float[" + n +
                         ",2,3,3] w = {" + weights + "}, float[" + n + "] b = {" + biases +
                         "}> { c = Conv<kernel_shape=[3,3], pads=[1,1,1,1]>(x, w, b) "
                         "y = Relu(c) }");
  }

  // `count` samples of 1 x 2 x 4 x 4 within [-1, 1]; `bad` is put into the last one.
  void WriteSamples(const std::string& name, int count, float bad = 0,
                    std::vector<int64_t> sample = {2, 4, 4}) const {
    std::vector<int64_t> shape = {count};
    int64_t size = count;
    for (const int64_t dim : sample) {
      shape.push_back(dim);
      size *= dim;
    }
    std::vector<float> values(static_cast<size_t>(size));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(static_cast<int>(i * 37 % 129) - 64) / 64;
    }
    if (bad != 0) values.back() = bad;
    std::filesystem::create_directories(Path(name).parent_path());
    ASSERT_TRUE(runtime::WriteNpy(Path(name), runtime::Tensor::Of<float>(shape, values)).ok());
  }

  // Every file and folder below the test's folder.
  std::set<std::string> Files() const {
    std::set<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      files.insert(entry.path().lexically_relative(folder_).string());
    }
    return files;
  }

  // Runs and expects a clear error, with no file left behind.
  void ExpectError(const std::vector<std::string>& arguments, int code, const std::string& reason,
                   const std::vector<std::string>& mentions) const {
    const std::set<std::string> before = Files();
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.out << outcome.err;
    EXPECT_NE(outcome.err.find("error: "), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("(" + reason + ")"), std::string::npos) << outcome.err;
    for (const std::string& text : mentions) {
      EXPECT_NE(outcome.err.find(text), std::string::npos) << text << " in:\n" << outcome.err;
    }
    EXPECT_EQ(Files(), before);
  }

  static std::string Quote(const std::string& text) {
    std::string quoted = "'";
    for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return quoted + "'";
  }

  std::filesystem::path program_;
  const tests::TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};

}  // namespace gq::worker
