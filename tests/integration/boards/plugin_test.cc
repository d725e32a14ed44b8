// A plugin of the server's folder, from its offer to the report.
#include <sys/stat.h>

#include "gmock/gmock.h"
#include "tests/integration/boards/lab.h"

namespace gq {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class PluginJobTest : public LabTest {
 protected:
  void SetUp() override {
    if (std::system("python3 -c pass 2> /dev/null") != 0) GTEST_SKIP() << "there is no python3";
    WritePlugin("stamp", "model");
  }

  // Copies the model and adds a line about itself as its doc string (field 6 of an ONNX file).
  void WritePlugin(const std::string& name, const std::string& stage,
                   const std::string& scope = "") {
    const fs::path folder = folder_ / "plugins" / name;
    fs::create_directories(folder);
    std::ofstream(folder / "plugin.yaml")
        << "name: " << name << "\nversion: \"2.1\"\ndescription: adds a stamp to the model\n"
        << "applies_to:\n  stage: " << stage << "\n"
        << scope << "consent: The model carries a stamp of the house.\ncommand: [./apply.py]\n";
    std::ofstream(folder / "apply.py") << R"(#!/usr/bin/env python3
import json, os, sys
request = json.load(open(sys.argv[1]))
data = open(request["model"], "rb").read()
stamp = ("stamped " + request["stage"]).encode()
open(request["output"], "wb").write(data + bytes([0x32, len(stamp)]) + stamp)
print("stamping", os.path.basename(request["model"]))
json.dump({"schema": 1, "ok": True, "changed": 1, "detail": "added a stamp"},
          open(request["response"], "w"))
)";
    fs::permissions(folder / "apply.py", fs::perms::owner_all);
  }
  void StartWithPlugins() {
    StartServer(1, {"--listen", "none", "--plugins", (folder_ / "plugins").string()});
    ASSERT_TRUE(Eventually([&] { return Gq("jobs list") == 0; }));
  }
  int Run(const std::string& more) {
    return Gq("run --model net.onnxtxt --stage quantize --no-color " + more);
  }
};

TEST_F(PluginJobTest, IsOfferedAppliedWithConsentAndRecorded) {
  WritePlugin("seal", "quantized");
  WritePlugin("other", "model", "  devices: [ethos-u]\n");
  StartWithPlugins();
  ASSERT_EQ(Gq("analyze net.onnxtxt --device ve2 --no-color"), 0) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("plugin stamp 2.1 fits: adds a stamp to the model"));
  EXPECT_THAT(out_, HasSubstr("plugin seal 2.1 fits"));
  EXPECT_THAT(out_, Not(HasSubstr("plugin other 2.1 fits")));

  EXPECT_EQ(Run("--plugin stamp"), 2) << out_ << err_;
  EXPECT_THAT(err_, HasSubstr("The model carries a stamp of the house. (CONSENT_REQUIRED)"));

  ASSERT_EQ(Run("--plugin stamp --plugin seal --yes"), 0) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("[Plugin] Applying stamp 2.1"));
  EXPECT_THAT(out_, HasSubstr("[Plugin] stamping net.onnx"));
  const json report = Report();
  const json first = report["graph_optimize"]["plugins"][0];
  EXPECT_EQ(first["name"], "stamp");
  EXPECT_EQ(first["version"], "2.1");
  EXPECT_EQ(first["changed"], 1);
  EXPECT_EQ(first["detail"], "added a stamp");
  EXPECT_NE(first["digest_before"], first["digest_after"]);
  EXPECT_EQ(report["graph_quantize"]["plugins"][0]["name"], "seal");
  ASSERT_EQ(Gq("artifacts @last --get got"), 0) << err_;
  EXPECT_THAT(ReadAll(folder_ / "got/model_quantized.onnx"), HasSubstr("stamped quantized"));
}

TEST_F(PluginJobTest, WhatDoesNotFitIsRefusedBeforeAnythingIsDone) {
  WritePlugin("other", "model", "  schemes: [W8-A8]\n");
  StartWithPlugins();
  EXPECT_EQ(Run("--scheme vint8 --plugin other --yes"), 2) << out_ << err_;
  EXPECT_THAT(err_, HasSubstr("plugin other does not fit: it is for the schemes W8-A8"));
  EXPECT_EQ(Run("--plugin stomp --yes"), 2) << out_ << err_;
  EXPECT_THAT(err_, HasSubstr("there is no plugin 'stomp'"));
  EXPECT_THAT(err_, HasSubstr("Plugins: other, stamp."));
}

TEST_F(PluginJobTest, AFolderThatCannotBeReadIsToldByTheServer) {
  std::ofstream(folder_ / "plugins/stamp/plugin.yaml") << "name: stamp\nversoin: 1\n";
  StartWithPlugins();
  EXPECT_EQ(Run("--plugin stamp --yes"), 2) << out_ << err_;
  EXPECT_THAT(err_, HasSubstr("plugin.yaml:2: unknown key 'versoin'"));
}

}  // namespace
}  // namespace gq
