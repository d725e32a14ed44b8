#include "server/api/wake_gate.h"

#include <gtest/gtest.h>

namespace gq::server {
namespace {

TEST(WakeGateTest, AChangeDuringAStepMeansAnotherStepAndNotTwoAtOnce) {
  WakeGate gate;
  EXPECT_FALSE(gate.Wake());  // the first step is under way
  EXPECT_TRUE(gate.LookAgain());
  EXPECT_FALSE(gate.LookAgain());  // idle now
  EXPECT_TRUE(gate.Wake());
  EXPECT_FALSE(gate.Wake());
  EXPECT_FALSE(gate.Wake());
  EXPECT_TRUE(gate.LookAgain());  // two changes, one step
  EXPECT_FALSE(gate.LookAgain());
}

TEST(WakeGateTest, AnEndedCallIsNotWokenAnyMore) {
  WakeGate gate;
  EXPECT_FALSE(gate.LookAgain());
  gate.Close();
  EXPECT_FALSE(gate.Wake());
}

}  // namespace
}  // namespace gq::server
