// Runs gq-conformance over the golden vectors beside the source tree.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

constexpr const char* kVectors = "../shared/vectors/quark";

std::string RunConformance(const std::string& arguments, int* code) {
  const std::string command =
      std::string(std::getenv("GQ_BIN_DIR")) + "/gq-conformance " + arguments + " 2>&1";
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  while (const size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), count);
  }
  *code = WEXITSTATUS(pclose(pipe));
  return output;
}

TEST(VectorsTest, AllRunsAgree) {
  if (!std::filesystem::exists(std::filesystem::path(kVectors) / "index.json")) {
    GTEST_SKIP() << kVectors << " is not there: the golden vectors are not shipped";
  }
  int code = 0;
  const std::string output = RunConformance(kVectors, &code);
  EXPECT_EQ(code, 0) << output;
  EXPECT_THAT(output, testing::EndsWith("664 agree, 0 differ, 0 unsupported\n"));
}

// With our own preparation of the models, ONNX Runtime's where Quark uses it.
TEST(VectorsTest, AllRunsAgreeFromTheModelsThemselves) {
  if (!std::filesystem::exists(std::filesystem::path(kVectors) / "index.json")) {
    GTEST_SKIP() << kVectors << " is not there: the golden vectors are not shipped";
  }
  int code = 0;
  const std::string output = RunConformance(std::string(kVectors) + " --from-model", &code);
  EXPECT_EQ(code, 0) << output;
  EXPECT_THAT(output, testing::EndsWith("664 agree, 0 differ, 0 unsupported\n"));
}

TEST(VectorsTest, FolderWithoutVectorsIsAnError) {
  int code = 0;
  EXPECT_THAT(RunConformance("/nonexistent", &code), testing::HasSubstr("FILE_NOT_FOUND"));
  EXPECT_EQ(code, 2);
}

}  // namespace
