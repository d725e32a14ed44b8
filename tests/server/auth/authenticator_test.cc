#include "server/auth/authenticator.h"

#include <sys/stat.h>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "gtest/gtest.h"
#include "server/ledger/sqlite_ledger.h"
#include "tests/server/manual_clock.h"
#include "tests/temporary_folder.h"

namespace gq::server {
namespace {

using base::GetReason;
using base::Reason;

TEST(Authenticator, TokenIsItsPrincipal) {
  ManualClock clock;
  Authenticator authenticator(clock);
  const NewToken alice = MakeToken("alice", Role::kSubmitter);
  const NewToken agent = MakeToken("lab-1", Role::kAgent);
  authenticator.SetTokens({alice.record, agent.record});
  EXPECT_EQ(authenticator.CheckToken(alice.text)->name, "alice");
  EXPECT_EQ(authenticator.CheckToken(alice.text)->role, Role::kSubmitter);
  EXPECT_EQ(authenticator.CheckToken(agent.text)->role, Role::kAgent);
}

TEST(Authenticator, WrongTokensAreRefused) {
  ManualClock clock;
  Authenticator authenticator(clock);
  const NewToken token = MakeToken("alice", Role::kSubmitter);
  authenticator.SetTokens({token.record});
  std::string changed = token.text;
  changed.back() = changed.back() == '0' ? '1' : '0';
  for (const std::string& wrong :
       {changed, std::string(), std::string("gq_"), token.text + "0", token.text.substr(3),
        "gq_" + token.record.id, std::string("gq_none_0000")}) {
    EXPECT_EQ(GetReason(authenticator.CheckToken(wrong).status()), Reason::kUnauthenticated)
        << wrong;
  }
}

TEST(Authenticator, TokenExpires) {
  ManualClock clock;
  Authenticator authenticator(clock);
  NewToken token = MakeToken("alice", Role::kSubmitter);
  token.record.expires = clock.Now() + absl::Hours(1);
  authenticator.SetTokens({token.record});
  EXPECT_TRUE(authenticator.CheckToken(token.text).ok());
  clock.Advance(absl::Hours(1));
  EXPECT_EQ(GetReason(authenticator.CheckToken(token.text).status()), Reason::kUnauthenticated);
}

TEST(Authenticator, TokensAreNeverTheSame) {
  EXPECT_NE(MakeToken("a", Role::kAdmin).text, MakeToken("a", Role::kAdmin).text);
  EXPECT_EQ(MakeToken("a", Role::kAdmin).record.hash.size(), 32u);
}

TEST(Authenticator, RolesIncludeTheLesserOnesButAgentsStandApart) {
  const Principal admin{"a", Role::kAdmin}, submitter{"s", Role::kSubmitter},
      agent{"g", Role::kAgent};
  EXPECT_TRUE(RequireRole(admin, Role::kSubmitter).ok());
  EXPECT_TRUE(RequireRole(submitter, Role::kViewer).ok());
  EXPECT_EQ(GetReason(RequireRole(submitter, Role::kOperator)), Reason::kPermissionDenied);
  EXPECT_EQ(GetReason(RequireRole(agent, Role::kViewer)), Reason::kPermissionDenied);
  EXPECT_EQ(GetReason(RequireRole(submitter, Role::kAgent)), Reason::kPermissionDenied);
}

TEST(Authenticator, AdminTokenIsMadeOnceAndForItsOwnerOnly) {
  tests::TemporaryFolder folder;
  ManualClock clock;
  auto ledger = *SqliteLedger::Open(folder.path() / "ledger.db", clock);
  ASSERT_TRUE(EnsureAdminToken(folder.path(), *ledger).ok());
  const auto path = folder.path() / "admin.token";
  const std::string first = *base::ReadFile(path);
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_TRUE(EnsureAdminToken(folder.path(), *ledger).ok());
  EXPECT_EQ(*base::ReadFile(path), first);
  Authenticator authenticator(clock);
  authenticator.SetTokens(*ledger->ListTokens());
  EXPECT_EQ(authenticator.CheckToken(base::StripSpace(first))->role, Role::kAdmin);
  // A lost file is replaced, and the old token ends.
  std::filesystem::remove(path);
  ASSERT_TRUE(EnsureAdminToken(folder.path(), *ledger).ok());
  authenticator.SetTokens(*ledger->ListTokens());
  EXPECT_FALSE(authenticator.CheckToken(base::StripSpace(first)).ok());
}

}  // namespace
}  // namespace gq::server
