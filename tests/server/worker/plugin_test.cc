// Plugins, as gq-worker applies them.
#include <gmock/gmock.h>

#include "nlohmann/json.hpp"
#include "tests/server/worker/worker_process.h"

namespace gq::worker {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class PluginTest : public WorkerTest {
 protected:
  void SetUp() override {
    WorkerTest::SetUp();
    setenv("GQ_PLUGINS", fs::absolute("deploy/plugins").c_str(), 1);
    std::ofstream(folder_ / "net.onnxtxt")
        << "<ir_version: 8, opset_import: [\"\" : 17], producer_name: \"trainer\", "
           "doc_string: \"of the house\">\n"
           "net (float[1,2,4,4] x) => (float[1,2,4,4] y)\n"
           "<float[2,2,1,1] w = {0.5, -0.25, 0.125, 0.75}> { y = Conv(x, w) }\n";
    ASSERT_EQ(Convert(), 0);
  }
  void TearDown() override {
    unsetenv("GQ_PLUGINS");
    WorkerTest::TearDown();
  }
  // The plugin reads ONNX files, not their text form.
  int Convert() {
    onnx::ModelProto model;
    const std::string text = ReadText(folder_ / "net.onnxtxt");
    onnx::OnnxParser parser(text.c_str());
    if (!parser.Parse(model).IsOK()) return 1;
    std::ofstream file(folder_ / "net.onnx", std::ios::binary);
    return model.SerializeToOstream(&file) ? 0 : 1;
  }
};

TEST_F(PluginTest, IsOfferedAppliedWithConsentAndRecorded) {
  const Outcome analyzed = Run({"analyze", "net.onnx"});
  ASSERT_EQ(analyzed.code, 0) << analyzed.out << analyzed.err;
  EXPECT_THAT(analyzed.out, HasSubstr("plugin strip-metadata 1.0 fits: "));

  const Outcome refused = Run({"quantize", "net.onnx", "--plugin", "strip-metadata"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("has no doc string"));
  EXPECT_THAT(refused.err, HasSubstr("(CONSENT_REQUIRED)"));

  const Outcome done =
      Run({"quantize", "net.onnx", "--plugin", "strip-metadata", "--yes", "--report", "r.json"});
  ASSERT_EQ(done.code, 0) << done.out << done.err;
  const json report = json::parse(ReadText(folder_ / "r.json"));
  const json& record = report["graph_optimize"]["plugins"][0];
  EXPECT_EQ(record["name"], "strip-metadata");
  EXPECT_EQ(record["changed"], 2);
  EXPECT_EQ(record["detail"], "removed doc_string, producer_name");
  EXPECT_NE(record["digest_before"], record["digest_after"]);
  onnx::ModelProto model;
  std::ifstream file(folder_ / "net_quantized.onnx", std::ios::binary);
  ASSERT_TRUE(model.ParseFromIstream(&file));
  EXPECT_EQ(model.doc_string(), "");
}

TEST_F(PluginTest, AnUnknownOneIsRefusedWithTheList) {
  const Outcome outcome = Run({"quantize", "net.onnx", "--plugin", "strip", "--yes"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("there is no plugin 'strip' (INVALID_FLAG)"));
  EXPECT_THAT(outcome.err, HasSubstr("Plugins: strip-metadata."));
}

}  // namespace
}  // namespace gq::worker
