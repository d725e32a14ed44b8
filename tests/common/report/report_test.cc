#include <string>

#include "common/report/escape.h"
#include "common/report/html.h"
#include "common/report/json_view.h"
#include "common/report/merge.h"
#include "common/report/summary.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gq::report {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kHostile[] = "</script><img src=x onerror=alert(1)>\"'&\033[31m|`*";

gq::v1::Job ExampleJob() {
  gq::v1::Job job;
  job.set_id("01JOB");
  job.set_state(gq::v1::JOB_STATE_SUCCEEDED);
  job.set_verdict(gq::v1::VERDICT_GOAL_NOT_MET);
  job.mutable_spec()->mutable_model()->mutable_file()->set_name("net.onnx");
  job.mutable_start_time()->set_seconds(100);
  job.mutable_end_time()->set_seconds(190);
  const std::pair<gq::v1::StepKind, const char*> steps[] = {
      {gq::v1::STEP_KIND_GRAPH_OPTIMIZE, "Graph Optimize"},
      {gq::v1::STEP_KIND_GRAPH_QUANTIZE, "Graph Quantize"},
      {gq::v1::STEP_KIND_EVALUATE, "Evaluate"},
      {gq::v1::STEP_KIND_COMPILE, "Compile"}};
  for (const auto& [kind, title] : steps) {
    gq::v1::Step& step = *job.add_steps();
    step.set_index(job.steps_size() - 1);
    step.set_kind(kind);
    step.set_title(title);
    step.set_state(gq::v1::STEP_STATE_SUCCEEDED);
    gq::v1::Attempt& attempt = *step.add_attempts();
    attempt.mutable_start_time()->set_seconds(100);
    attempt.mutable_end_time()->set_seconds(112);
  }
  return job;
}

std::string ExampleReport() {
  const std::string quantize =
      R"({"scheme":"vint8","config_digest":"abc","calibration":{"method":"minmse","samples":16,
          "data_digest":"d1","random":false},"counts":{"quantized":{"Conv":3},"float":{"Sigmoid":1}},
          "sizes":{"float_bytes":935116,"quantized_bytes":264031,"ratio_file":3.5417},
          "warnings":["first warning"],
          "layers":[{"node":"conv \u003cb\u003e","op":"Conv","precision":"int8","weight_bits":8,"activation_bits":16,
                     "reason":"config","macs":300},
                    {"node":"act","op":"Sigmoid","precision":"float","reason":"cannot","macs":100}],
          "tensors":[{"name":"t","class":"weight","op":"Conv","scale":[0.5,0.25],"zero_point":[0,0],
                      "dtype":"int8"}],
          "histogram":{"tensor":"t","min":-1,"max":1,"counts":[1,5,2],"clip":[-0.5,0.5]}})";
  Json evaluate = Json::parse(R"({"data":{"samples":16,"source":"evaluation","digest":"d2"},
      "outputs":[{"name":"y","psnr_db":31.5,"snr_db":"inf","pass_rate":99.0,"cosine":0.9999,
                  "max_abs":0.25,"scatter":[[0,0.1],[1,0.9]]}],
      "layer_errors":[{"tensor":"t","op":"Conv","snr_db":28.5}],
      "verdict":{"result":"goal_not_met","default_goal":false,"reason":"psnr is low",
                 "goals":[{"expression":"psnr>40","value":31.5,"output":"y","met":false}],
                 "default":{"result":"goal_met","reason":"PSNR 31.5 dB"}},"warnings":["second"]})");
  evaluate["outputs"][0]["name"] = kHostile;
  const std::vector<StepPart> parts = {
      {1, quantize},
      {0,
       R"({"identity":{"onnxruntime_version":"1.32.0"},"passes":[{"name":"fold","changed":2,"detail":"x"}]})"},
      {2, evaluate.dump()},
      {3, R"({"simulated":true,"class":"PURE_VINT8","partitions":{"npu":1,"cpu":0},
              "offload":{"operators_percent":100,"gops_percent":100},"cpu_because":
              [{"class":"fe","operators":["Sigmoid"],"layers":["act"],"message":"no","remedy":"none"}]})"}};
  return MergeReport(ExampleJob(), parts);
}

TEST(MergeReport, JoinsThePartsInTheOrderOfTheSteps) {
  const Json report = ParseReport(ExampleReport());
  EXPECT_EQ(report["schema"], kReportSchema);
  EXPECT_EQ(TextAt(report, {"identity", "onnxruntime_version"}), "1.32.0");
  EXPECT_EQ(TextAt(report, {"identity", "config_digest"}), "abc");
  EXPECT_EQ(TextAt(report, {"identity", "calibration_data_digest"}), "d1");
  EXPECT_EQ(TextAt(report, {"identity", "evaluation_data_digest"}), "d2");
  EXPECT_EQ(NumberAt(report, {"identity", "seed"}), 42);
  EXPECT_EQ(TextAt(report, {"job", "state"}), "SUCCEEDED");
  EXPECT_EQ(NumberAt(report, {"job", "seconds"}), 90);
  ASSERT_EQ(report["steps"].size(), 4u);
  EXPECT_EQ(report["steps"][1]["seconds"], 12.0);
  ASSERT_EQ(report["warnings"].size(), 2u);
  EXPECT_EQ(report["warnings"][0]["step"], "Graph Quantize");
  EXPECT_EQ(report["warnings"][1]["text"], "second");
  EXPECT_TRUE(report.contains("graph_optimize") && report.contains("compile"));
}

TEST(MergeReport, LeavesOutDamagedPartsWithAWarning) {
  const std::vector<StepPart> parts = {{0, "{"}, {1, "[1]"}, {2, ""}, {9, "{}"}, {-1, "{}"}};
  const Json report = ParseReport(MergeReport(ExampleJob(), parts));
  EXPECT_EQ(report["warnings"].size(), 2u);
  EXPECT_FALSE(report.contains("graph_optimize"));
}

TEST(MergeReport, KeepsBytesThatAreNotUtf8OutOfTheJson) {
  const std::vector<StepPart> parts = {{0, "{\"name\":\"\xff\"}"}};
  const Json report = ParseReport(MergeReport(ExampleJob(), parts));
  EXPECT_EQ(report["schema"], kReportSchema);
}

TEST(MergeReport, LeavesOutWhatIsNestedTooDeeply) {
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  const std::vector<StepPart> parts = {{0, "{\"a\":" + deep + ",\"b\":1}"}};
  const Json report = ParseReport(MergeReport(ExampleJob(), parts));
  EXPECT_EQ(NumberAt(report, {"graph_optimize", "b"}), 1);
}

// The model that a board chose in place of the search's best is the one that is told of.
TEST(MergeReport, TheChoiceOfABoardTakesThePlaceOfTheSearchs) {
  gq::v1::Job job = ExampleJob();
  job.mutable_steps(3)->set_kind(gq::v1::STEP_KIND_BOARD_RUN);
  const std::vector<StepPart> parts = {
      {1, R"({"scheme":"vint8","layers":[]})"},
      {2, R"({"verdict":{"result":"goal_met"}})"},
      {3, R"({"winner":4,"result":{"graph_quantize":{"scheme":"mixed"}}})"}};
  const Json report = ParseReport(MergeReport(job, parts));
  EXPECT_EQ(TextAt(report, {"graph_quantize", "scheme"}), "mixed");
  EXPECT_EQ(TextAt(report, {"board_run", "before", "graph_quantize", "scheme"}), "vint8");
  EXPECT_EQ(NumberAt(report, {"board_run", "winner"}), 4);
  EXPECT_FALSE(report["board_run"].contains("result"));
}

TEST(PerformanceGoals, AreShownAndCountForTheVerdict) {
  const std::string met = R"({"job":{"state":"SUCCEEDED"},
      "evaluate":{"verdict":{"result":"goal_met","default_goal":true,"reason":"PSNR 40 dB"}},
      "compile":{"performance_targets":[
        {"expression":"offload>=98%","judged":true,"met":false,"value":90,"simulated":true},
        {"expression":"model_size<1MB","judged":true,"met":true,"value":5000}]},
      "board_run":{"performance_targets":[
        {"expression":"offload>=98%","judged":true,"met":true,"value":99,"simulated":true},
        {"expression":"latency_p99<5ms","judged":false,"met":false,"reason":"a mean only"}]}})";
  const std::string text = SummaryText(met);
  EXPECT_THAT(text, HasSubstr("Verdict: goal met (default goal): PSNR 40 dB"));
  EXPECT_THAT(text, HasSubstr("offload>=98%  met (simulated, not on hardware): 99"));
  EXPECT_THAT(text, HasSubstr("model_size<1MB  met: 5000"));
  EXPECT_THAT(text, HasSubstr("latency_p99<5ms  not judged: a mean only"));
  EXPECT_THAT(text, Not(HasSubstr(": 90")));  // the last step to judge a goal counts
  EXPECT_THAT(JUnitXml(met), HasSubstr("<skipped message=\"a mean only\"/>"));
  EXPECT_THAT(JUnitXml(met), HasSubstr("failures=\"0\""));

  Json missed = Json::parse(met);
  missed["board_run"]["performance_targets"][0]["met"] = false;
  EXPECT_THAT(SummaryText(missed.dump()),
              HasSubstr("Verdict: goal not met: offload>=98% is missed"));
  EXPECT_THAT(JUnitXml(missed.dump()), HasSubstr("failures=\"1\""));
}

TEST(SummaryText, SaysWhatAPersonWantsToKnow) {
  const std::string text = SummaryText(ExampleReport());
  EXPECT_THAT(text, HasSubstr("Verdict: goal not met: psnr is low"));
  EXPECT_THAT(text, HasSubstr("psnr>40  not met: 31.5"));
  EXPECT_THAT(text, HasSubstr("default goal: goal met: PSNR 31.5 dB"));
  EXPECT_THAT(text, HasSubstr("935.12 kB -> 264.03 kB (3.54 times smaller)"));
  EXPECT_THAT(text, HasSubstr("100 % of the operators, 100 % of the GOPs (simulated)"));
  EXPECT_THAT(text, HasSubstr("Warnings (2)"));
  EXPECT_THAT(text, HasSubstr("[Graph Quantize] first warning"));
  EXPECT_THAT(text, HasSubstr("1m 30s"));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
}

TEST(SummaryText, CopesWithAnything) {
  for (const char* text : {"", "[]", "{}", "{\"evaluate\":3}", "{\"warnings\":[1]}",
                           "{\"evaluate\":{\"verdict\":[],\"outputs\":[1,{}]},\"steps\":{}}"}) {
    SummaryText(text);
    SummaryMarkdown(text);
    JUnitXml(text);
    LayersText(text);
    ReportHtml(text);
  }
}

TEST(SummaryMarkdown, EscapesNames) {
  const std::string text = SummaryMarkdown(ExampleReport());
  EXPECT_THAT(text, Not(HasSubstr("<img")));
  EXPECT_THAT(text, HasSubstr("&lt;img src=x onerror=alert\\(1\\)&gt;"));
  EXPECT_THAT(text, HasSubstr("**goal not met**"));
}

TEST(JUnitXml, CountsStepsAndGoals) {
  const std::string text = JUnitXml(ExampleReport());
  EXPECT_THAT(text, HasSubstr("tests=\"5\" failures=\"1\" skipped=\"0\" time=\"90.000\""));
  EXPECT_THAT(text, HasSubstr("<testcase name=\"psnr&gt;40\" classname=\"gq.goal\""));
  EXPECT_THAT(text, HasSubstr("GOAL_NOT_MET"));
}

TEST(LayersText, GivesTheShareOfTheOperations) {
  const std::string text = LayersText(ExampleReport());
  EXPECT_THAT(text, HasSubstr("conv <b>"));
  EXPECT_THAT(text, HasSubstr("75.00"));
  EXPECT_THAT(text, HasSubstr("int8       8/16  75.00"));
}

TEST(ReportHtml, IsSelfContainedAndEscaped) {
  const std::string html = ReportHtml(ExampleReport());
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, Not(HasSubstr("http://")));
  EXPECT_THAT(html, Not(HasSubstr("https://")));
  EXPECT_THAT(html, Not(HasSubstr("<link")));
  EXPECT_THAT(html, HasSubstr("&lt;img src=x onerror=alert(1)&gt;"));
  EXPECT_THAT(html, HasSubstr("goal not met"));
  EXPECT_THAT(html, HasSubstr("Simulated: no compiler of the vendor was run."));
}

TEST(ReportHtml, SaysWhyAChartIsMissing) {
  const std::string html = ReportHtml(MergeReport(ExampleJob(), {}));
  EXPECT_THAT(html, HasSubstr("Not shown: this job has no result of Graph Quantize."));
  EXPECT_THAT(html, HasSubstr("Not shown: this job did not explore."));
  EXPECT_THAT(html, HasSubstr("Not shown: this job ran on no board."));
  EXPECT_THAT(html, HasSubstr("Not shown: this job has no result of Compile."));
}

TEST(Escape, MakesTextHarmless) {
  EXPECT_EQ(EscapeHtml("<a href=\"x\">'&\033[1m\x01"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
  EXPECT_EQ(EscapeMarkdown("a|b\n<i>[x](y)"), "a\\|b&lt;i&gt;\\[x\\]\\(y\\)");
  EXPECT_EQ(EscapeJsonForScript("{\"a\":\"</script>\"}"), "{\"a\":\"\\u003c/script\\u003e\"}");
}

TEST(Format, Figures) {
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(1234567), "1.23 MB");
  EXPECT_EQ(FormatNumber(std::nullopt), "-");
  EXPECT_EQ(FormatGeneral(0.000012345678), "1.23457e-05");
  EXPECT_EQ(FormatSeconds(0.25), "250ms");
}

}  // namespace
}  // namespace gq::report
