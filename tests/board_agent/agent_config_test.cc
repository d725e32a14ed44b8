#include "board_agent/agent_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/file.h"
#include "common/base/status.h"
#include "tests/temporary_folder.h"

namespace gq::agent {
namespace {

using base::Reason;
using testing::ElementsAre;
using testing::HasSubstr;

class AgentConfigTest : public testing::Test {
 protected:
  absl::Status Read(const std::string& text) {
    const std::filesystem::path path = folder_.path() / "agent.yaml";
    EXPECT_TRUE(base::WriteFileAtomically(path, text).ok());
    return ReadConfigFile(path, config_);
  }
  tests::TemporaryFolder folder_;
  AgentConfig config_;
};

TEST_F(AgentConfigTest, ReadsAFileAndPrintsItBack) {
  ASSERT_TRUE(Read("server: unix:/run/gq.sock\nname: bench\nslots: 3\nhealth_interval: 30\n"
                   "boards:\n  - {name: a, device: ve2-xc2ve3858, tags: [fast, new]}\n"
                   "  - {name: ve2-sim}\n")
                  .ok());
  ASSERT_TRUE(CompleteConfig(config_).ok());
  EXPECT_EQ(config_.slots, 3);
  ASSERT_EQ(config_.boards.size(), 2U);
  EXPECT_THAT(config_.boards[0].tags, ElementsAre("fast", "new"));
  EXPECT_EQ(config_.boards[0].backend, "sim");
  EXPECT_EQ(config_.boards[1].device, "ve2-sim");
  EXPECT_EQ(config_.state_dir, "/run/agents/bench");

  const std::string printed = FormatConfig(config_);
  config_ = AgentConfig();
  ASSERT_TRUE(Read(printed).ok());
  EXPECT_EQ(FormatConfig(config_), printed);
}

TEST_F(AgentConfigTest, UnknownKeysAndWrongValuesAreRefusedWithTheirLine) {
  const absl::Status unknown = Read("name: a\nservr: unix:/x\n");
  EXPECT_EQ(base::GetReason(unknown), Reason::kConfigInvalid);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("agent.yaml:2: unknown key 'servr'"));
  EXPECT_EQ(base::GetHint(unknown), "Did you mean server?");
  EXPECT_THAT(std::string(Read("slots: many\n").message()), HasSubstr("slots: expected"));
  for (const char* text : {"[1]", "boards: 3", "boards: [x]", "boards: [{nam: a}]", "a: [", "x"}) {
    EXPECT_EQ(base::GetReason(Read(text)), Reason::kConfigInvalid) << text;
  }
  EXPECT_TRUE(Read("").ok());
}

TEST_F(AgentConfigTest, AServerAndABoardAreNeeded) {
  EXPECT_EQ(base::GetReason(CompleteConfig(config_)), Reason::kInvalidFlag);
  config_.server = "127.0.0.1:7443";
  config_.backend = "vitisai";
  EXPECT_EQ(base::GetReason(CompleteConfig(config_)), Reason::kInvalidFlag);
  config_.backend = "sim";
  ASSERT_TRUE(CompleteConfig(config_).ok());
  ASSERT_EQ(config_.boards.size(), 3U);
  EXPECT_EQ(config_.boards[0].name, "ve2-sim");
  EXPECT_EQ(config_.boards[2].backend, "onnxruntime");
}

TEST_F(AgentConfigTest, BoardsSurviveTheWayIntoAStep) {
  const std::vector<BoardSpec> boards = {{"a \"b\"", "ve2-sim", "sim", {"t"}, "slow"}};
  const auto back = BoardsFromJson(BoardsToJson(boards));
  ASSERT_TRUE(back.ok());
  ASSERT_EQ(back->size(), 1U);
  EXPECT_EQ((*back)[0].name, "a \"b\"");
  EXPECT_EQ((*back)[0].fault, "slow");
  EXPECT_FALSE(BoardsFromJson("{").ok());
  EXPECT_FALSE(BoardsFromJson("[{}]").ok());
}

}  // namespace
}  // namespace gq::agent
