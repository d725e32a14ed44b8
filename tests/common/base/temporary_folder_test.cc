#include "common/base/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "common/base/file.h"
#include "common/base/status.h"
#include "tests/temporary_folder.h"

namespace gq::base {
namespace {

using testing::HasSubstr;

TEST(TemporaryFolderTest, GoesWithAllThatIsInItAndWithItsLastOwner) {
  const tests::TemporaryFolder parent;
  std::filesystem::path path;
  {
    std::optional<TemporaryFolder> last;
    {
      auto folder = TemporaryFolder::Make("work-", parent.path());
      ASSERT_TRUE(folder.ok());
      path = folder->path();
      EXPECT_THAT(path.string(), HasSubstr((parent.path() / "work-").string()));
      ASSERT_TRUE(MakeFolder(path / "a/b").ok());
      ASSERT_TRUE(WriteFileAtomically(path / "a/b/c", "x").ok());
      last.emplace(*std::move(folder));
    }
    EXPECT_TRUE(std::filesystem::exists(path / "a/b/c"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TemporaryFolderTest, SaysWhereItCannotBeMade) {
  const tests::TemporaryFolder parent;
  const auto folder = TemporaryFolder::Make("work-", parent.path() / "missing");
  EXPECT_EQ(GetReason(folder.status()), Reason::kFileUnwritable);
  EXPECT_THAT(std::string(folder.status().message()),
              HasSubstr((parent.path() / "missing").string()));
}

}  // namespace
}  // namespace gq::base
