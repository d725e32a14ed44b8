#include "server/worker/staged_output.h"

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "gtest/gtest.h"

namespace gq::worker {
namespace {

namespace fs = std::filesystem;

class StagedOutputTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "gq-staged.XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  static void Write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  static std::string Read(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  int Entries() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_), {}));
  }

  fs::path folder_;
};

TEST_F(StagedOutputTest, FilesAppearWithTheCommit) {
  {
    auto output = StagedOutput::Create(folder_ / "q.onnx");
    ASSERT_TRUE(output.ok()) << output.status();
    Write(output->path(), "model");
    Write(output->path().string() + ".data", "weights");
    EXPECT_FALSE(fs::exists(folder_ / "q.onnx"));
    ASSERT_TRUE(output->Commit().ok());
  }
  EXPECT_EQ(Read(folder_ / "q.onnx"), "model");
  EXPECT_EQ(Read(folder_ / "q.onnx.data"), "weights");
  EXPECT_EQ(Entries(), 2);
}

TEST_F(StagedOutputTest, WithoutACommitNothingStays) {
  Write(folder_ / "q.onnx", "older");
  {
    auto output = StagedOutput::Create(folder_ / "q.onnx");
    ASSERT_TRUE(output.ok());
    Write(output->path(), "newer");
  }
  EXPECT_EQ(Read(folder_ / "q.onnx"), "older");
  EXPECT_EQ(Entries(), 1);
}

TEST_F(StagedOutputTest, RefusesAFolderAndAMissingFolder) {
  for (const fs::path& path : {folder_, folder_ / "no" / "q.onnx", fs::path("")}) {
    const auto output = StagedOutput::Create(path);
    ASSERT_FALSE(output.ok()) << path;
    EXPECT_EQ(base::GetReason(output.status()), base::Reason::kFileUnwritable);
  }
  EXPECT_EQ(Entries(), 0);
}

}  // namespace
}  // namespace gq::worker
