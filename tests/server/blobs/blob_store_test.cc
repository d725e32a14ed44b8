#include "server/blobs/blob_store.h"

#include <fstream>

#include "common/base/sha256.h"
#include "common/base/status.h"
#include "gtest/gtest.h"
#include "server/ledger/sqlite_ledger.h"
#include "tests/server/manual_clock.h"
#include "tests/temporary_folder.h"

namespace gq::server {
namespace {

using base::GetReason;
using base::Reason;

gq::v1::Digest DigestOf(std::string_view content) {
  gq::v1::Digest digest;
  digest.set_sha256(base::Sha256Hex(content));
  digest.set_size_bytes(static_cast<int64_t>(content.size()));
  return digest;
}

class BlobStoreTest : public testing::Test {
 protected:
  void Put(const std::string& principal, std::string_view content) {
    auto upload = store_.BeginUpload(principal, "u", DigestOf(content), 0);
    ASSERT_TRUE(upload.ok()) << upload.status();
    ASSERT_NE(*upload, nullptr);
    ASSERT_TRUE((*upload)->Append(content).ok());
    ASSERT_TRUE((*upload)->Finish().ok());
  }
  absl::StatusOr<std::string> Get(std::string_view content, int64_t offset = 0) {
    auto reader = store_.Open(DigestOf(content), offset);
    if (!reader.ok()) return reader.status();
    std::string read;
    do {
      auto data = (*reader)->Next(7);
      if (!data.ok()) return data.status();
      read += *data;
    } while (!(*reader)->AtEnd());
    return read;
  }
  std::filesystem::path FileOf(std::string_view content) {
    const std::string hex = base::Sha256Hex(content);
    return folder_.path() / "blobs" / "sha256" / hex.substr(0, 2) / hex;
  }

  tests::TemporaryFolder folder_;
  ManualClock clock_;
  std::unique_ptr<SqliteLedger> ledger_ =
      SqliteLedger::Open(folder_.path() / "ledger.db", clock_).value();
  BlobStore store_{folder_.path() / "blobs", *ledger_, 0};
};

TEST_F(BlobStoreTest, ContentComesBack) {
  Put("alice", "hello, blobs");
  EXPECT_EQ(*Get("hello, blobs"), "hello, blobs");
  EXPECT_EQ(*Get("hello, blobs", 7), "blobs");
  Put("alice", "");
  EXPECT_EQ(*Get(""), "");
  EXPECT_EQ(GetReason(Get("never stored").status()), Reason::kBlobMissing);
  EXPECT_EQ(GetReason(store_.Open(DigestOf("hello, blobs"), 13).status()), Reason::kUploadOffset);
}

TEST_F(BlobStoreTest, InterruptedUploadGoesOn) {
  const std::string content = "0123456789";
  {
    auto upload = *store_.BeginUpload("alice", "u1", DigestOf(content), 0);
    ASSERT_TRUE(upload->Append("0123").ok());
  }
  EXPECT_EQ(store_.QueryUpload("alice", "u1", DigestOf(content))->committed_size, 4);
  EXPECT_EQ(store_.QueryUpload("bob", "u1", DigestOf(content))->committed_size, 0);
  EXPECT_EQ(GetReason(store_.BeginUpload("alice", "u1", DigestOf(content), 3).status()),
            Reason::kUploadOffset);
  // Another store is what a restarted server sees.
  BlobStore again(folder_.path() / "blobs", *ledger_, 0);
  auto upload = *again.BeginUpload("alice", "u1", DigestOf(content), 4);
  EXPECT_EQ(upload->committed_size(), 4);
  EXPECT_EQ(GetReason(upload->Finish()), Reason::kUploadOffset) << "bytes are missing";
  ASSERT_TRUE(upload->Append("456789").ok());
  ASSERT_TRUE(upload->Finish().ok());
  EXPECT_TRUE(again.QueryUpload("alice", "u1", DigestOf(content))->complete);
  EXPECT_EQ(*Get(content), content);
}

TEST_F(BlobStoreTest, OtherContentIsRefusedAndDropped) {
  auto upload = *store_.BeginUpload("alice", "u1", DigestOf("right"), 0);
  ASSERT_TRUE(upload->Append("wrong").ok());
  EXPECT_EQ(GetReason(upload->Finish()), Reason::kDigestMismatch);
  EXPECT_EQ(store_.QueryUpload("alice", "u1", DigestOf("right"))->committed_size, 0);
  EXPECT_EQ(GetReason(Get("right").status()), Reason::kBlobMissing);
}

TEST_F(BlobStoreTest, LongerContentIsRefused) {
  auto upload = *store_.BeginUpload("alice", "u1", DigestOf("four"), 0);
  EXPECT_EQ(GetReason(upload->Append("fours")), Reason::kUploadOffset);
}

TEST_F(BlobStoreTest, MalformedDigestsAreRefused) {
  gq::v1::Digest digest = DigestOf("x");
  for (const char* name : {"", "../../etc/passwd", "ABCDEF"}) {
    digest.set_sha256(name);
    EXPECT_EQ(GetReason(store_.BeginUpload("alice", "u", digest, 0).status()),
              Reason::kDigestMismatch);
    EXPECT_EQ(GetReason(store_.Open(digest, 0).status()), Reason::kDigestMismatch);
  }
  digest = DigestOf("x");
  digest.set_size_bytes(-1);
  EXPECT_EQ(GetReason(store_.BeginUpload("alice", "u", digest, 0).status()),
            Reason::kDigestMismatch);
}

TEST_F(BlobStoreTest, WhoHasABlobNeedNotSendItAgainOthersProveThatTheyHaveIt) {
  Put("alice", "shared");
  EXPECT_EQ(*store_.BeginUpload("alice", "u2", DigestOf("shared"), 0), nullptr);
  Put("bob", "shared");
  EXPECT_EQ(*store_.BeginUpload("bob", "u2", DigestOf("shared"), 0), nullptr);
  EXPECT_EQ(*ledger_->BlobBytes(), 6) << "stored once";
}

TEST_F(BlobStoreTest, NewConnectionTakesTheUploadOver) {
  auto first = *store_.BeginUpload("alice", "u1", DigestOf("abcdef"), 0);
  ASSERT_TRUE(first->Append("abc").ok());
  auto second = *store_.BeginUpload("alice", "u1", DigestOf("abcdef"), 3);
  EXPECT_EQ(GetReason(first->Append("def")), Reason::kUploadOffset);
  ASSERT_TRUE(second->Append("def").ok());
  EXPECT_TRUE(second->Finish().ok());
}

TEST_F(BlobStoreTest, DamageOnTheDiskIsNoticedWhenReading) {
  Put("alice", "precious bytes");
  { std::fstream(FileOf("precious bytes"), std::ios::in | std::ios::out) << "P"; }
  EXPECT_EQ(GetReason(Get("precious bytes").status()), Reason::kDigestMismatch);
  std::filesystem::resize_file(FileOf("precious bytes"), 3);
  EXPECT_EQ(GetReason(Get("precious bytes", 1).status()), Reason::kDigestMismatch);
}

TEST_F(BlobStoreTest, GarbageIsWhatNobodyRefersToAndNobodyTouched) {
  Put("alice", "old");
  clock_.Advance(absl::Hours(2));
  Put("alice", "fresh");
  EXPECT_EQ(store_.CollectGarbage(absl::Hours(1), /*dry_run=*/true)->blobs, 1);
  EXPECT_TRUE(std::filesystem::exists(FileOf("old")));
  const auto collected = *store_.CollectGarbage(absl::Hours(1), false);
  EXPECT_EQ(collected.blobs, 1);
  EXPECT_EQ(collected.bytes, 3);
  EXPECT_FALSE(std::filesystem::exists(FileOf("old")));
  EXPECT_EQ(*Get("fresh"), "fresh");
  EXPECT_FALSE(store_.QueryUpload("alice", "u", DigestOf("old"))->complete);
  Put("alice", "old");
  EXPECT_EQ(*Get("old"), "old");
}

TEST_F(BlobStoreTest, FullDiskRefusesNewUploads) {
  BlobStore full(folder_.path() / "blobs", *ledger_, int64_t{1} << 60);
  EXPECT_EQ(GetReason(full.BeginUpload("alice", "u", DigestOf("x"), 0).status()),
            Reason::kDiskFull);
}

}  // namespace
}  // namespace gq::server
