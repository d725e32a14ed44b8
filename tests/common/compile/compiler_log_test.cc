#include "common/compile/compiler_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gq::compile {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

// Figures: VE2 test vectors, section 11 (resnet50 VINT8).
TEST(CompilerLogTest, ReadsTheCensusInBothForms) {
  const CompilerLog host = ParseCompilerLog(
      "subpartition path = cache/x/vaiml_par_0/0\n"
      "INFO: [VAIP-VAIML-PASS] No. of Operators : \n"
      "INFO:  VAIML     491\n"
      "INFO:  VITIS_EP_CPU     2\n"
      "INFO: [VAIP-VAIML-PASS] No. of Subgraphs :\n"
      "INFO:    NPU     1\n"
      "INFO: [VAIP-VAIML-PASS] For detailed compilation results, please refer to x\n");
  EXPECT_THAT(host.operators, ElementsAre(Pair("VAIML", 491), Pair("VITIS_EP_CPU", 2)));
  EXPECT_THAT(host.subgraphs, ElementsAre(Pair("NPU", 1)));

  const CompilerLog board = ParseCompilerLog(
      "I20260101 10:00:00.123456  123 stat.cpp:193] [Vitis AI EP] No. of Operators : VAIML\n"
      "I20260101 10:00:00.123456  123 stat.cpp:194] [Vitis AI EP] No. of Operators :\n"
      "I20260101 10:00:00.123456  123 stat.cpp:195]  VAIML 491\n"
      "I20260101 10:00:00.123456  123 stat.cpp:195]  VITIS_EP_CPU 2\n"
      "I20260101 10:00:00.123456  123 stat.cpp:196] [Vitis AI EP] No. of Subgraphs :\n"
      "I20260101 10:00:00.123456  123 stat.cpp:197]  NPU 1\n"
      "I20260101 10:00:00.123456  123 stat.cpp:197] Actually running on NPU 1\n");
  EXPECT_THAT(board.operators, ElementsAre(Pair("VAIML", 491), Pair("VITIS_EP_CPU", 2)));
  EXPECT_THAT(board.subgraphs, ElementsAre(Pair("Actually running on NPU", 1), Pair("NPU", 1)));
}

TEST(CompilerLogTest, ReadsPartitionsReasonsAndKernels) {
  const CompilerLog log = ParseCompilerLog(
      "INFO: [VAIML-COMPILE 1000] Operation statistics for the model:\n"
      "kernel:Conv2d (i8, i8, i16) -> (i8) , 30\n"
      "templatedGraph:MHA (bf16) -> (bf16) , 12\n"
      "Partition completed with 3 partition\n"
      "[VAIML-COMPILE 1046] 99.5% of operations will run on AIE, 0.5% of operations on CPU.\n"
      "Partition 1 breaks at: CpuBecause(\"[FE] tosa.cast \\\"x\\\"\") / CpuBecause(\"b\")\n"
      "Partition 2 breaks at: CpuBecause(\"b\")\n");
  EXPECT_EQ(log.partitions, 3);
  EXPECT_EQ(log.aie_percent, 99.5);
  EXPECT_THAT(log.kernels, ElementsAre(Pair("kernel:Conv2d (i8, i8, i16) -> (i8)", 30),
                                       Pair("templatedGraph:MHA (bf16) -> (bf16)", 12)));
  EXPECT_THAT(log.break_reasons, ElementsAre(Pair("[FE] tosa.cast \"x\"", 1), Pair("b", 2)));
  EXPECT_THAT(log.errors, IsEmpty());
}

TEST(CompilerLogTest, FindsErrorsThatTheExitStatusHides) {
  EXPECT_THAT(ParseCompilerLog("ERROR: [aiecompiler 77-1] no space\n").errors,
              ElementsAre("ERROR: [aiecompiler 77-1] no space"));
  EXPECT_THAT(ParseCompilerLog("ERROR:[x] a\r\n").errors, ElementsAre("ERROR:[x] a"));
  EXPECT_EQ(ParseCompilerLog("Compilation Complete\n(WARNING:3, CRITICAL-WARNING:0, ERROR:2)\n")
                .errors.size(),
            1U);
  EXPECT_THAT(ParseCompilerLog("(WARNING:3, CRITICAL-WARNING:0, ERROR:0)\nan ERROR: [in text]\n"
                               "ERROR: without bracket\n")
                  .errors,
              IsEmpty());
}

TEST(CompilerLogTest, AHostWithoutNpuIsNoError) {
  const CompilerLog log =
      ParseCompilerLog("ERROR during FlexMLHWRunner creation:  No such device\n");
  EXPECT_TRUE(log.no_device);
  EXPECT_THAT(log.errors, IsEmpty());
}

}  // namespace
}  // namespace gq::compile
