#include "server/logs/log_store.h"

#include <fstream>
#include <thread>

#include "common/base/log_format.h"
#include "common/base/status.h"
#include "gtest/gtest.h"
#include "tests/server/manual_clock.h"
#include "tests/temporary_folder.h"

namespace gq::server {
namespace {

using base::GetReason;
using base::Reason;

constexpr int64_t kMany = 1 << 20;

class LogStoreTest : public testing::Test {
 protected:
  tests::TemporaryFolder folder_;
  ManualClock clock_;
  LogStore logs_{folder_.path(), kMany, clock_};
};

TEST_F(LogStoreTest, BytesAppearInOrderAndOnce) {
  EXPECT_EQ(*logs_.Append("j", 1, 0, "one\n"), 4);
  EXPECT_EQ(*logs_.Append("j", 1, 4, "two\n"), 8);
  EXPECT_EQ(*logs_.Append("j", 1, 4, "two\n"), 8) << "a repeat changes nothing";
  EXPECT_EQ(*logs_.Append("j", 1, 2, "e\ntwo\nthree\n"), 14) << "only what is new is added";
  EXPECT_EQ(logs_.Read("j", 1, 0, kMany)->data, "one\ntwo\nthree\n");
  EXPECT_EQ(logs_.Read("j", 1, 4, 4)->data, "two\n");
  EXPECT_EQ(logs_.Read("j", 1, 14, kMany)->data, "");
  EXPECT_EQ(logs_.Read("j", 1, 99, kMany)->data, "");
  EXPECT_EQ(logs_.Size("j", 1), 14);
}

TEST_F(LogStoreTest, GapIsRefused) {
  ASSERT_TRUE(logs_.Append("j", 1, 0, "one\n").ok());
  EXPECT_EQ(GetReason(logs_.Append("j", 1, 5, "x").status()), Reason::kLogGap);
  EXPECT_EQ(*logs_.Append("j", 1, 0, ""), 4) << "an empty append tells the size";
}

TEST_F(LogStoreTest, AttemptsHaveLogsOfTheirOwn) {
  ASSERT_TRUE(logs_.Append("j", 1, 0, "one\n").ok());
  ASSERT_TRUE(logs_.Append("j", 2, 0, "two\n").ok());
  ASSERT_TRUE(logs_.Append("k", 1, 0, "three\n").ok());
  EXPECT_EQ(logs_.Read("j", 2, 0, kMany)->data, "two\n");
  logs_.Seal("j", 1);
  logs_.Seal("j", 2);
  logs_.Remove("j");
  EXPECT_EQ(logs_.Size("j", 1), 0);
  EXPECT_EQ(logs_.Size("k", 1), 6);
}

TEST_F(LogStoreTest, SealedLogTakesNothingMore) {
  ASSERT_TRUE(logs_.Append("j", 1, 0, "one\n").ok());
  EXPECT_TRUE(logs_.Read("j", 1, 0, kMany)->open);
  EXPECT_EQ(logs_.Seal("j", 1), 4);
  EXPECT_EQ(GetReason(logs_.Append("j", 1, 4, "late\n").status()), Reason::kLeaseLost);
  const LogChunk chunk = *logs_.Read("j", 1, 0, kMany);
  EXPECT_FALSE(chunk.open);
  EXPECT_EQ(chunk.data, "one\n");
  EXPECT_EQ(logs_.Seal("j", 7), 0) << "an attempt that never wrote";
}

TEST_F(LogStoreTest, LogGoesOnAfterARestart) {
  ASSERT_TRUE(logs_.Append("j", 1, 0, "one\n").ok());
  LogStore again(folder_.path(), kMany, clock_);
  EXPECT_EQ(*again.Append("j", 1, 0, "one\ntwo\n"), 8);
  EXPECT_EQ(again.Read("j", 1, 0, kMany)->data, "one\ntwo\n");
}

TEST_F(LogStoreTest, LongLogEndsWithAMarkAndTheSenderGoesOn) {
  constexpr int64_t kCap = 200;
  LogStore small(folder_.path(), kCap, clock_);
  std::string sent;
  int64_t offset = 0;
  for (int i = 0; i < 30; ++i) {
    const std::string line = "line number " + std::to_string(i) + "\n";
    const auto size = small.Append("j", 1, offset, line);
    ASSERT_TRUE(size.ok()) << size.status();
    sent += line;
    offset += static_cast<int64_t>(line.size());
    EXPECT_GE(*size, offset) << "the sender has nothing to repeat";
  }
  const std::string stored = small.Read("j", 1, 0, kMany)->data;
  EXPECT_GE(stored.size(), static_cast<size_t>(kCap));
  EXPECT_LT(stored.size(), static_cast<size_t>(kCap) + 150);
  const size_t mark = stored.rfind('\n', stored.size() - 2) + 1;
  EXPECT_EQ(stored.substr(0, mark), sent.substr(0, mark)) << "whole lines up to the mark";
  const auto line = base::ParseStoredLine(stored.substr(mark, stored.size() - mark - 1));
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->level, base::LogLevel::kWarn);
  // The same holds after a restart.
  LogStore again(folder_.path(), kCap, clock_);
  EXPECT_EQ(*again.Append("j", 1, offset, "more\n"), offset + 5);
  EXPECT_EQ(again.Read("j", 1, 0, kMany)->data, stored);
}

TEST_F(LogStoreTest, ReadersNeverSeeAnUnfinishedWrite) {
  std::string expected;
  for (int i = 0; i < 2000; ++i) expected += std::to_string(i) + "\n";
  std::thread reader([&] {
    std::string seen;
    while (seen.size() < expected.size()) {
      seen += logs_.Read("j", 1, static_cast<int64_t>(seen.size()), 64)->data;
    }
    EXPECT_EQ(seen, expected);
  });
  int64_t offset = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string line = std::to_string(i) + "\n";
    offset = *logs_.Append("j", 1, offset, line);
  }
  reader.join();
}

}  // namespace
}  // namespace gq::server
