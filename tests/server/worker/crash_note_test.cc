#include "server/worker/crash_note.h"

#include <gtest/gtest.h>

#include <csignal>

namespace gq::worker {
namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(CrashNoteDeathTest, ACrashSaysWhatItMeansAndStaysACrash) {
  for (const int fault : {SIGFPE, SIGSEGV, SIGABRT}) {
    EXPECT_EXIT(
        {
          SayWhatACrashMeans();
          std::raise(fault);
        },
        testing::KilledBySignal(fault), "the program crashed.*check that the model runs there");
  }
}
#endif

}  // namespace
}  // namespace gq::worker
