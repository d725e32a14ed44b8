#include "common/base/host.h"

#include <gtest/gtest.h>

namespace gq::base {
namespace {

TEST(HostTest, TheStateFolderIsTheFirstThatApplies) {
  EXPECT_EQ(StateFolder({.root = true, .xdg_state_home = "/x", .home = "/h"}), "/var/lib/gq");
  EXPECT_EQ(StateFolder({.root = false, .xdg_state_home = "/x", .home = "/h"}), "/x/gq");
  EXPECT_EQ(StateFolder({.root = false, .xdg_state_home = "", .home = "/h"}), "/h/.local/state/gq");
  EXPECT_EQ(StateFolder({.root = false, .xdg_state_home = "", .home = ""}), "./.local/state/gq");
}

TEST(HostTest, TheOwnProgramIsThisTest) {
  const auto program = OwnProgram();
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(program->filename(), "gq_base_test");
}

}  // namespace
}  // namespace gq::base
