#include "client/cli/upload.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "client/cli/results_folder.h"
#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/temporary_folder.h"

namespace gq::cli {
namespace {

namespace fs = std::filesystem;
using base::GetReason;
using base::Reason;
using testing::ElementsAre;
using testing::HasSubstr;

class UploadTest : public testing::Test {
 protected:
  UploadTest() {
    fs::create_directories(folder_ / "empty");
    fs::create_directories(folder_ / "data");
    for (const char* name : {"data/b.npz", "data/a.npy", "data/notes.txt", "model.onnx"}) {
      std::ofstream(folder_ / name) << "x";
    }
  }

  absl::StatusOr<std::vector<fs::path>> Expand(std::vector<std::string> names) {
    for (std::string& name : names) {
      if (!name.starts_with("data:")) name = (folder_ / name).string();
    }
    return ExpandDataPaths("calibration-data", names);
  }

  tests::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(UploadTest, AFolderStandsForItsDataFilesSortedByName) {
  const auto files = Expand({"data/b.npz", "data"});
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(*files,
              ElementsAre(folder_ / "data/b.npz", folder_ / "data/a.npy", folder_ / "data/b.npz"));
}

TEST_F(UploadTest, RefusesWhatIsNoData) {
  EXPECT_EQ(GetReason(Expand({"empty"}).status()), Reason::kDataEmpty);
  EXPECT_EQ(GetReason(Expand({"data/notes.txt"}).status()), Reason::kDataInvalid);
  EXPECT_EQ(GetReason(Expand({"data:mine"}).status()), Reason::kNotAvailable);
  const absl::Status missing = Expand({"data/a.npz"}).status();
  EXPECT_EQ(GetReason(missing), Reason::kFileNotFound);
  EXPECT_THAT(base::GetHint(missing), HasSubstr("did you mean"));
}

TEST_F(UploadTest, ChecksFilesBeforeAnythingIsSent) {
  job::LocalOptions local;
  local.model = (folder_ / "model.onnx").string();
  EXPECT_TRUE(CheckFiles(local).ok());
  local.labels = (folder_ / "labels.npy").string();
  EXPECT_EQ(GetReason(CheckFiles(local)), Reason::kFileNotFound);
  local.model = folder_.string();
  EXPECT_EQ(GetReason(CheckFiles(local)), Reason::kFileUnreadable);
  local.model = (folder_ / "modle.onnx").string();
  EXPECT_THAT(base::GetHint(CheckFiles(local)), HasSubstr("model.onnx"));
}

TEST(PathBelow, KeepsArtifactsInTheirFolder) {
  EXPECT_EQ(*PathBelow("/out", "compile/a.json"), "/out/compile/a.json");
  for (std::string_view path : {"", "/etc/passwd", "../x", "a/../../x", "a//b/..", "./x", "a/"}) {
    EXPECT_FALSE(PathBelow("/out", path).ok()) << path;
  }
  EXPECT_FALSE(PathBelow("/out", std::string_view("a\0b", 3)).ok());
}

}  // namespace
}  // namespace gq::cli
