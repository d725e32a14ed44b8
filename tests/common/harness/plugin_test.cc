#include "common/harness/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/base/status.h"
#include "common/harness/harness_call.h"
#include "tests/temporary_folder.h"

namespace gq::harness {
namespace {

namespace fs = std::filesystem;
using base::Reason;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class PluginTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& manifest) {
    fs::create_directories(folder_ / name);
    std::ofstream(folder_ / name / "plugin.yaml") << manifest;
  }
  std::string Error() { return std::string(LoadPlugins(folder_).status().message()); }

  const tests::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

constexpr char kGood[] =
    "name: one\nversion: '1'\nconsent: yes, do\ncommand: [./run.sh, -x]\n"
    "applies_to: {stage: quantized, schemes: [vint8], devices: [ve2], operators: [Conv]}\n";

TEST_F(PluginTest, ReadsManifests) {
  Write("b", kGood);
  Write("a", "name: two\nversion: '2'\nconsent: ok\ncommand: [python3, x.py]\n");
  const auto plugins = LoadPlugins(folder_);
  ASSERT_TRUE(plugins.ok()) << plugins.status();
  ASSERT_EQ(plugins->size(), 2U);
  const Plugin& one = (*plugins)[0];
  EXPECT_EQ(one.name, "one");
  EXPECT_EQ(one.stage, PluginStage::kQuantized);
  EXPECT_THAT(one.command, ElementsAre((folder_ / "b/./run.sh").string(), "-x"));
  EXPECT_THAT((*plugins)[1].command, ElementsAre("python3", "x.py"));
  EXPECT_EQ(WhyNotFor(one, "vint8", "ve2-sim", {"Conv"}), "");
  EXPECT_EQ(WhyNotFor(one, "", "", {"Conv"}), "");
  EXPECT_THAT(WhyNotFor(one, "bf16", "ve2", {"Conv"}), HasSubstr("schemes vint8"));
  EXPECT_THAT(WhyNotFor(one, "vint8", "ethos-u-85", {"Conv"}), HasSubstr("devices ve2"));
  EXPECT_THAT(WhyNotFor(one, "vint8", "ve2", {"Relu"}), HasSubstr("operators Conv"));
  EXPECT_TRUE(LoadPlugins("/no/such/folder")->empty());
}

TEST_F(PluginTest, MistakesAreNamedWithTheirLine) {
  Write("a", "name: x\nversion: '1'\nconsent: c\ncomand: [y]\n");
  EXPECT_THAT(Error(), HasSubstr("plugin.yaml:4: unknown key 'comand'"));
  Write("a", "name: x\nversion: '1'\nconsent: c\n");
  EXPECT_THAT(Error(), HasSubstr("command is missing"));
  Write("a", "name: x\nversion: '1'\nconsent: c\ncommand: [y]\napplies_to: {stage: never}\n");
  EXPECT_THAT(Error(), HasSubstr("plugin.yaml:5: stage: expected"));
  Write("a", kGood);
  Write("b", kGood);
  EXPECT_THAT(Error(), HasSubstr("two plugins have the name 'one'"));
}

TEST_F(PluginTest, AHarnessAnswersOrItsFailureIsTold) {
  const fs::path program = folder_ / "run.sh";
  std::ofstream(program) << "#!/bin/sh\nset -e\necho GQ-PROGRESS 1 2 steps\necho working\n"
                            "out=$(sed -n 's/.*\"response\": \"\\(.*\\)\".*/\\1/p' $1)\n"
                            "mode=$(sed -n 's/.*\"mode\": \"\\(.*\\)\".*/\\1/p' $1)\n"
                            "case $mode in\n"
                            "good) echo '{\"schema\":1,\"ok\":true,\"x\":7}' > $out;;\n"
                            "bad) echo '{\"ok\":false,\"reason\":\"MODEL_UNSUPPORTED\","
                            "\"message\":\"no way\",\"hint\":\"do x\"}' > $out;;\n"
                            "junk) echo 5 > $out;;\n*) echo last words; exit 4;;\nesac\n";
  fs::permissions(program, fs::perms::owner_all);
  base::NullReporter reporter;
  const auto call = [&](const std::string& mode) {
    HarnessCall call;
    call.tool.arguments = {program.string()};
    call.tool.work_dir = folder_;
    call.action = "apply";
    call.request["mode"] = mode;
    return CallHarness(call, reporter);
  };
  EXPECT_EQ((*call("good"))["x"], 7);
  EXPECT_EQ(base::GetReason(call("bad").status()), Reason::kModelUnsupported);
  EXPECT_EQ(base::GetHint(call("bad").status()), "do x");
  EXPECT_EQ(base::GetReason(call("junk").status()), Reason::kBoardFailed);
  EXPECT_THAT(std::string(call("none").status().message()),
              AllOf(HasSubstr("ended with status 4 and left no response: "),
                    HasSubstr("working | last words")));
}

}  // namespace
}  // namespace gq::harness
