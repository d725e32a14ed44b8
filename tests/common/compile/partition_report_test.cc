#include "common/compile/partition_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/compile/compile_report.h"
#include "tests/temporary_folder.h"

namespace gq::compile {
namespace {

namespace fs = std::filesystem;
using base::Reason;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr char kSummary[] =
    "Number of operators in the model: 493\nGOPs of the model: 8.09703\n"
    "Number of operators supported by VAIML: 491 (99.594%)\n"
    "Number of operators offloaded by VAIML: 491 (99.594%)\n"
    "GOPs offloaded by VAIML: 8.096 (99.993%)\n"
    "Number of subgraphs offloaded by VAIML: 1\n"
    "Number of subgraphs below 20% GOPs threshold (fall back to CPU): 2\n";

class PartitionReportTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& content) {
    EXPECT_TRUE(base::MakeFolder((cache_ / path).parent_path()).ok());
    EXPECT_TRUE(base::WriteFileAtomically(cache_ / path, content).ok());
  }
  CompileOutput Read() { return ReadCompileOutput(FindCompileFolder(cache_, "m").value(), "m"); }

  const tests::TemporaryFolder temporary_;
  const fs::path cache_ = temporary_.path();
};

TEST_F(PartitionReportTest, FindsTheFilesWhereverTheToolPutThem) {
  EXPECT_EQ(base::GetReason(FindCompileFolder(cache_, "m").status()), Reason::kFileNotFound);
  Write("final-vaiml-pass-summary.txt", kSummary);
  EXPECT_EQ(FindCompileFolder(cache_, "m").value(), cache_);
  Write("cache/m.rai", "x");
  EXPECT_EQ(FindCompileFolder(cache_, "m").value(), cache_ / "cache");
  Write("m/m.rai", "x");
  EXPECT_EQ(FindCompileFolder(cache_, "m").value(), cache_ / "m");
}

TEST_F(PartitionReportTest, ReportsWhatTheToolSays) {
  Write("m/m.rai", "x");
  Write("m/final-vaiml-pass-summary.txt", kSummary);
  Write("m/vaiml_par_0/0/AIECompiler.log", "Partition completed with 1 partition\n");
  Write("m/aie_unsupported_original_ops_with_reasons.json",
        R"([{"op_type":"QuantizeLinear","name":"q","reason":"[FE] standalone"},
            {"op_type":"DequantizeLinear","name":"dq","Message":"[FE] standalone"}])");
  Write("m/x.mlir",
        "a attributes {Reason = \"CpuBecause\", Op = \"onnx.TopK\", LayerName = \"t\", "
        "Message = \"new\"} {} attributes {Reason = \"CpuBecause\", Op = \"onnx.QuantizeLinear\", "
        "LayerName = \"q\", Message = \"[FE] standalone\"} {}");
  const CompileOutput output = Read();
  EXPECT_TRUE(CheckCompiled(output).ok());
  const PartitionReport report = MakePartitionReport(output);
  EXPECT_EQ(report.npu_partitions, 1);
  EXPECT_EQ(report.cpu_partitions, 1);
  EXPECT_EQ(report.operators, 493);
  EXPECT_EQ(report.operators_offloaded, 491);
  EXPECT_EQ(report.operators_percent, 99.594);
  EXPECT_EQ(report.gops_percent, 99.993);
  EXPECT_EQ(report.level, OffloadLevel::kNearlyFull);
  EXPECT_THAT(report.warnings, ElementsAre(HasSubstr("2 subgraphs are supported but stay")));
  ASSERT_THAT(report.cpu_reasons, SizeIs(2));
  EXPECT_EQ(report.cpu_reasons[0].message, "new");
  EXPECT_EQ(report.cpu_reasons[0].reason_class, CpuBecauseClass::kUnclassified);
  EXPECT_THAT(report.cpu_reasons[1].operators, ElementsAre("DequantizeLinear", "QuantizeLinear"));
  EXPECT_THAT(report.cpu_reasons[1].layers, ElementsAre("q", "dq"));

  const auto json = nlohmann::json::parse(CompileReportJson(
      {true, "sim", "ve2-sim", {{"frontend", 1.5}}}, Classification(), CompilerOptions(), report));
  EXPECT_EQ(json["simulated"], true);
  EXPECT_EQ(json["class"], "PURE_FLOAT");
  EXPECT_EQ(json["partitions"]["npu"], 1);
  EXPECT_EQ(json["offload"]["gops_percent"], 99.993);
  EXPECT_EQ(json["offload"]["operators_offloaded"], 491);
  EXPECT_EQ(json["cpu_because"][1]["class"], "fe");
  EXPECT_EQ(json["seconds"]["frontend"], 1.5);
}

TEST_F(PartitionReportTest, AFailureIsFoundWhateverTheStatusSays) {
  Write("m/final-vaiml-pass-summary.txt", kSummary);
  EXPECT_THAT(std::string(CheckCompiled(Read()).message()), HasSubstr("no m.rai"));
  Write("m/m.rai", "x");
  EXPECT_TRUE(CheckCompiled(Read()).ok());
  Write("m/deep/down/aiecompiler-flexml.log", "ERROR: [aie 1] first\nERROR: [aie 2] second\n");
  const absl::Status status = CheckCompiled(Read());
  EXPECT_EQ(base::GetReason(status), Reason::kCompileFailed);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ERROR: [aie 1] first (and 1 more)"));
}

TEST_F(PartitionReportTest, DamagedFilesAreWarnings) {
  Write("m/m.rai", "x");
  Write("m/aie_unsupported_original_ops_with_reasons.json", "{broken");
  EXPECT_THAT(Read().warnings, SizeIs(1));
  EXPECT_FALSE(CheckCompiled(Read()).ok());
}

TEST(OffloadTest, RatesAsTheGoalIsStated) {
  EXPECT_EQ(RateOffload(1, 100), OffloadLevel::kFull);
  EXPECT_EQ(RateOffload(1, 98.5), OffloadLevel::kNearlyFull);
  EXPECT_EQ(RateOffload(1, 98.0), OffloadLevel::kMissed);
  EXPECT_EQ(RateOffload(2, 100), OffloadLevel::kFew);
  EXPECT_EQ(RateOffload(3, 100), OffloadLevel::kMissed);
  EXPECT_EQ(RateOffload(0, 0), OffloadLevel::kMissed);
}

}  // namespace
}  // namespace gq::compile
