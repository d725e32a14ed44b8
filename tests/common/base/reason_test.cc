#include "common/base/reason.h"

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "common/base/status.h"
#include "common/base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gq::base {
namespace {

std::string ErrorPage() {
  const char* root = std::getenv("GQ_SOURCE_DIR");
  std::ifstream file(StrCat(root == nullptr ? "." : root, "/docs/errors.md"));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string Lower(std::string_view name) {
  std::string lower;
  for (const char c : name) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

TEST(Reasons, AreTheRowsOfTheTableInOrder) {
  std::set<std::string_view> names;
  int index = 0;
  for (const ReasonInfo& info : AllReasons()) {
    EXPECT_EQ(static_cast<int>(info.reason), index++) << info.name;
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(ReasonFromName(info.name), info.reason);
    EXPECT_EQ(ReasonName(info.reason), info.name);
    EXPECT_NE(info.code, absl::StatusCode::kOk) << info.name;
    EXPECT_TRUE(info.exit_code >= 1 && info.exit_code <= 10) << info.name;
  }
  EXPECT_EQ(ReasonFromName("NO_SUCH_REASON"), std::nullopt);
}

TEST(Reasons, TravelWithAStatus) {
  for (const ReasonInfo& info : AllReasons()) {
    const absl::Status status = MakeError(info.reason, "what", "do this");
    EXPECT_EQ(GetReason(status), info.reason);
    EXPECT_EQ(status.code(), info.code);
    const absl::Status longer = AddContext(status, "where");
    EXPECT_EQ(GetReason(longer), info.reason);
    EXPECT_EQ(GetHint(longer), "do this");
    EXPECT_EQ(FromAbsl(longer.message()), "where: what");
  }
  EXPECT_EQ(GetReason(absl::InternalError("x")), Reason::kInternal);
  EXPECT_TRUE(AddContext(absl::OkStatus(), "where").ok());
}

TEST(Reasons, AreDocumentedWithTheirCodes) {
  const std::string page = ErrorPage();
  ASSERT_FALSE(page.empty()) << "docs/errors.md cannot be read";
  size_t last = 0;
  for (const ReasonInfo& info : AllReasons()) {
    const std::string heading = StrCat("\n### ", Lower(info.name), "\n");
    const size_t begin = page.find(heading);
    ASSERT_NE(begin, std::string::npos) << info.name << " has no entry in docs/errors.md";
    EXPECT_GT(begin, last) << info.name << " is out of order";
    last = begin;
    const size_t end = page.find("\n#", begin + heading.size());
    const std::string entry = page.substr(begin, end - begin);
    const std::string code = absl::StatusCodeToString(info.code);
    EXPECT_THAT(entry, testing::HasSubstr(StrCat("[", code, ", ", info.exit_code, "]")))
        << info.name;
  }
  size_t entries = 0;
  for (size_t at = page.find("\n### "); at != std::string::npos; at = page.find("\n### ", at + 1)) {
    ++entries;
  }
  EXPECT_EQ(entries, AllReasons().size());
}

}  // namespace
}  // namespace gq::base
