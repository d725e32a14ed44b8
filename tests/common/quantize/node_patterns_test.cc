#include "common/quantize/node_patterns.h"

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "tests/common/quantize/quantize_fixture.h"

namespace gq::quantize {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

onnx::GraphProto Graph() {
  onnx::GraphProto graph;
  for (const char* name : {"/model/backbone/conv1", "/model/head/conv1", "conv1"}) {
    graph.add_node()->set_name(name);
  }
  return graph;
}

absl::StatusOr<absl::flat_hash_set<std::string>> Match(std::vector<std::string> targets,
                                                       PatternOptions options = {}) {
  std::vector<std::string> warnings;
  return MatchNodes(Graph(), targets, options, &warnings);
}

TEST(NodePatternsTest, ExactNamesAndExpressions) {
  EXPECT_THAT(*Match({"conv1"}), UnorderedElementsAre("conv1"));
  EXPECT_THAT(*Match({"^/model/head/.*"}), UnorderedElementsAre("/model/head/conv1"));
  EXPECT_THAT(*Match({"^(?!/model/backbone/).*"}),
              UnorderedElementsAre("/model/head/conv1", "conv1"));
}

TEST(NodePatternsTest, ExpressionWithoutWildcardIsAnErrorThatSaysWhatWorks) {
  const auto matched = Match({"^/model/head/"});
  EXPECT_EQ(base::GetReason(matched.status()), base::Reason::kPatternInvalid);
  EXPECT_THAT(base::GetHint(matched.status()), HasSubstr("^/model/head/.*"));
}

TEST(NodePatternsTest, UnknownNameIsAnErrorWithTheClosestNames) {
  const auto matched = Match({"conv2"});
  EXPECT_EQ(base::GetReason(matched.status()), base::Reason::kPatternUnmatched);
  EXPECT_THAT(base::GetHint(matched.status()), HasSubstr("conv1"));
  EXPECT_TRUE(Match({"conv2"}, {.allow_unmatched = true}).ok());
}

// Quark removes a bad entry from the list it walks over, and so passes over the next one.
TEST(NodePatternsTest, QuarkDropsABadEntryAndDoesNotCheckTheNext) {
  EXPECT_THAT(*Match({"^/model/backbone/", "^/model/head/"}, {.quark = true}),
              UnorderedElementsAre("/model/head/conv1"));
}

TEST(NodePatternsTest, ClosedRegion) {
  const graph::Model model = ParseModel(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1] x) => (float[1] d) {
      [a] a = Relu(x)
      [b] b = Neg(a)
      [c] c = Abs(b)
      [d] d = Add(c, b)
    })");
  const std::vector<std::string> starts = {"b"};
  const std::vector<std::string> ends = {"d"};
  EXPECT_THAT(*NodesBetween(model.graph(), starts, ends), UnorderedElementsAre("b", "c", "d"));
  const std::vector<std::string> wrong = {"c"};
  EXPECT_EQ(base::GetReason(NodesBetween(model.graph(), wrong, ends).status()),
            base::Reason::kPatternInvalid);
}

}  // namespace
}  // namespace gq::quantize
