#include "common/compile/summary.h"

#include <gtest/gtest.h>

#include <string>

#include "common/base/text.h"

namespace gq::compile {
namespace {

// A published summary (VE2 test vectors, section 11), as the numbers are printed.
struct Published {
  const char* name;
  int64_t operators;
  int64_t offloaded;
  const char* operators_percent;
  const char* gops;
  const char* gops_offloaded;
  const char* gops_percent;
  const char* ops;
  int64_t ops_value;
  const char* int8_percent;  // null: the line is missing
  const char* fp32_percent;
};

constexpr Published kResnet50Cifar = {"resnet50 CIFAR-10 BF16",
                                      124,
                                      124,
                                      "100.000",
                                      "0.168",
                                      "0.168",
                                      "100.000",
                                      "167,999,964",
                                      167999964,
                                      nullptr,
                                      "99.574"};
constexpr Published kPublished[] = {
    {"resnet50 VINT8", 493, 491, "99.594", "8.09703", "8.096", "99.993", "8,096,419,216",
     8096419216, "95.536", nullptr},
    {"resnet50 BF16", 122, 122, "100.000", "7.76806", "7.768", "100.000", "7,768,063,056",
     7768063056, nullptr, nullptr},
    {"resnet18 BF16", 49, 49, "100.000", "3.64388", "3.644", "100.000", "3,643,881,552", 3643881552,
     nullptr, nullptr},
    {"yolov8m VINT8 and BF16", 1182, 1181, "99.915", "84.2197", "84.215", "99.994",
     "84,214,822,666", 84214822666, "93.846", "0.001"},
    kResnet50Cifar};

std::string Counts(const Published& p, bool partitions) {
  using base::StrCat;
  const auto share = [&](const char* what) {
    return StrCat("Number of operators ", what, " by VAIML: ", p.offloaded, " (",
                  p.operators_percent, "%)\nGOPs ", what, " by VAIML: ", p.gops_offloaded, " (",
                  p.gops_percent, "%)\nNumber of subgraphs ", what, " by VAIML: 1\n");
  };
  std::string text =
      StrCat("Number of operators in the model: ", p.operators, "\nGOPs of the model: ", p.gops,
             "\n", share("supported"), share("offloaded"));
  if (partitions) {
    text += "Number of partitions offloaded to NPU: 1\nNumber of partitions executed on CPU: 0\n";
  }
  text +=
      "Number of subgraphs with compilation errors (fall back to CPU): 0\n"
      "Number of subgraphs below 20% GOPs threshold (fall back to CPU): 0\n"
      "Number of subgraphs above max number of subgraphs allowed(7): 0 (fall back to CPU)\n"
      "Stats for offloaded subgraphs\n";
  text +=
      StrCat("Subgraph vaiml_par_0 stats:", partitions ? "" : " ", "\n    Type: npu\n",
             "    Operators: ", p.offloaded, " (", p.operators_percent,
             "%)\n    GOPs : ", p.gops_offloaded, " (", p.gops_percent, "%)  OPs: ", p.ops, "\n");
  if (p.int8_percent != nullptr) text += StrCat("    int8 ops %: ", p.int8_percent, "\n");
  if (p.fp32_percent != nullptr) text += StrCat("    fp32 ops %: ", p.fp32_percent, "\n");
  return text;
}

std::string OldLayout(const Published& p) {
  return base::StrCat(
      "--------- Final Summary of VAIML Pass ----------\nOS: Linux X64\nVAIP commit: 0123abcd\n"
      "Model: /models/a:b.onnx\nModel signature: 8af9\nDevice: ve2-xc2ve3858\n"
      "Model data type: float32 and int8 quantized\nDevice data type: bfloat16 and int8\n",
      Counts(p, false));
}

std::string NewLayout(const Published& p) {
  return base::StrCat(
      "--------- Final Summary of VAIML Pass ----------\nOS: Linux X64\nModel: /models/a:b.onnx\n"
      "Model signature: 9d91\n\nCompiler Information\n  Target Device: ve2 (part number: "
      "xc2ve3858)\n  Device Data Type: bfloat16 and int8\n  Flow: default\n  Version: VAIP 1\n"
      "  FlexML Version: rai_1 (hash: 1, built: 2026-01-01-10:00:00)\n  Overlay: "
      "aie2_6x4x4.yaml\n  NPU Frequency: 1267 MHz\n  AIE Single Core Compiler: peano\n  Recipes: "
      "mlopslib\n  DP size: 1\n  TP size: 1\n  Optimize Level: 2\n  Preferred Data Storage: auto\n"
      "  Threshold GOPs Percent: 20\n  Logging Level: info\n  Preemption: disabled\n  Model data "
      "type: float32 and int8 quantized\n",
      Counts(p, true),
      "\nCompilation Information\n  Frontend (FE): 23.7 s (6.5%)\n  Backend (BE): 342.0 s "
      "(93.2%)\n    AIE Compile: 72.7 s (19.8%)\n  Overhead (partitioner, cache, etc.): 1.0 s "
      "(0.3%)\n  Total: 366.7 s\n");
}

void ExpectCounts(const CompileSummary& s, const Published& p) {
  SCOPED_TRACE(p.name);
  EXPECT_EQ(s.operators, p.operators);
  EXPECT_DOUBLE_EQ(*s.gops, std::stod(p.gops));
  EXPECT_EQ(s.operators_offloaded->count, p.offloaded);
  // Printed from unrounded figures: 8.096 of 8.09703 would be 99.987 %.
  EXPECT_DOUBLE_EQ(s.operators_offloaded->percent, std::stod(p.operators_percent));
  EXPECT_DOUBLE_EQ(s.gops_offloaded->count, std::stod(p.gops_offloaded));
  EXPECT_DOUBLE_EQ(s.gops_offloaded->percent, std::stod(p.gops_percent));
  EXPECT_EQ(s.operators_supported->count, p.offloaded);
  EXPECT_EQ(s.subgraphs_offloaded, 1);
  EXPECT_EQ(s.subgraphs_supported, 1);
  EXPECT_EQ(s.subgraphs_with_errors, 0);
  EXPECT_EQ(s.threshold_percent, 20);
  EXPECT_EQ(s.subgraphs_below_threshold, 0);
  EXPECT_EQ(s.max_subgraphs, 7);
  EXPECT_EQ(s.subgraphs_above_max, 0);
  EXPECT_EQ(s.device_data_type, "bfloat16 and int8");
  EXPECT_EQ(s.model_data_type, "float32 and int8 quantized");
  EXPECT_EQ(s.model, "/models/a:b.onnx");
  ASSERT_EQ(s.subgraphs.size(), 1U);
  const SubgraphStats& sub = s.subgraphs[0];
  EXPECT_EQ(sub.name, "vaiml_par_0");
  EXPECT_EQ(sub.type, "npu");
  EXPECT_EQ(sub.operators->count, p.offloaded);
  EXPECT_DOUBLE_EQ(sub.gops->percent, std::stod(p.gops_percent));
  EXPECT_EQ(sub.ops, p.ops_value);
  EXPECT_EQ(sub.int8_ops_percent.has_value(), p.int8_percent != nullptr);
  EXPECT_EQ(sub.fp32_ops_percent.has_value(), p.fp32_percent != nullptr);
  if (p.int8_percent != nullptr) {
    EXPECT_DOUBLE_EQ(*sub.int8_ops_percent, std::stod(p.int8_percent));
  }
  if (p.fp32_percent != nullptr) {
    EXPECT_DOUBLE_EQ(*sub.fp32_ops_percent, std::stod(p.fp32_percent));
  }
}

TEST(SummaryTest, ReadsThePublishedSummariesInTheOlderLayout) {
  for (const Published& p : kPublished) {
    const CompileSummary summary = ParseSummary(OldLayout(p));
    ExpectCounts(summary, p);
    EXPECT_EQ(summary.device, "ve2-xc2ve3858");
    EXPECT_EQ(summary.npu_partitions, std::nullopt);
    EXPECT_EQ(summary.seconds.total, std::nullopt);
  }
}

TEST(SummaryTest, ReadsThePublishedSummariesInTheNewerLayout) {
  for (const Published& p : kPublished) {
    const CompileSummary summary = ParseSummary(NewLayout(p));
    ExpectCounts(summary, p);
    EXPECT_EQ(summary.device, "ve2 (part number: xc2ve3858)");
    EXPECT_EQ(summary.npu_partitions, 1);
    EXPECT_EQ(summary.cpu_partitions, 0);
    EXPECT_EQ(summary.npu_frequency, "1267 MHz");
    EXPECT_EQ(summary.dp_size, 1);
    EXPECT_EQ(summary.optimize_level, 2);
    const CompileTimes& t = summary.seconds;
    // The AIE compile is inside the back end.
    EXPECT_DOUBLE_EQ(*t.frontend + *t.backend + *t.overhead, *t.total);
    EXPECT_DOUBLE_EQ(*t.aie_compile, 72.7);
  }
}

TEST(SummaryTest, EveryLineIsOptional) {
  const std::string text = NewLayout(kResnet50Cifar);
  // Any cut of the text, in the middle of a line or not, is read without harm.
  for (size_t length = 0; length < text.size(); ++length) {
    const CompileSummary summary = ParseSummary(std::string_view(text).substr(0, length));
    if (summary.operators) {
      EXPECT_LE(*summary.operators, 124);
    }
  }
  EXPECT_EQ(ParseSummary("").operators, std::nullopt);
  EXPECT_EQ(ParseSummary("Number of operators in the model: many\n").operators, std::nullopt);
}

}  // namespace
}  // namespace gq::compile
