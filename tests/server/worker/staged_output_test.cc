#include "server/worker/staged_output.h"

#include <sys/stat.h>

#include <fstream>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "gtest/gtest.h"
#include "tests/temporary_folder.h"

namespace gq::worker {
namespace {

namespace fs = std::filesystem;

class StagedOutputTest : public testing::Test {
 protected:
  static void Write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  static std::string Read(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  int Entries() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_), {}));
  }

  const tests::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(StagedOutputTest, WhatIsNoFileIsNotReplaced) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink("pipe", folder_ / "link");
  for (const char* name : {"pipe", "link"}) {
    const auto output = StagedOutput::Create(folder_ / name);
    EXPECT_EQ(base::GetReason(output.status()), base::Reason::kFileUnwritable) << name;
  }
  EXPECT_TRUE(fs::is_fifo(pipe));
}

TEST_F(StagedOutputTest, ALinkToAFileStays) {
  Write(folder_ / "old.onnx", "old");
  fs::create_symlink("old.onnx", folder_ / "q.onnx");
  auto output = StagedOutput::Create(folder_ / "q.onnx");
  ASSERT_TRUE(output.ok()) << output.status();
  Write(output->path(), "new");
  ASSERT_TRUE(output->Commit().ok());
  EXPECT_TRUE(fs::is_symlink(folder_ / "q.onnx"));
  EXPECT_EQ(Read(folder_ / "old.onnx"), "new");
}

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
