#include "common/rpc/blob_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/file.h"
#include "common/base/status.h"
#include "tests/common/rpc/fake_server.h"
#include "tests/temporary_folder.h"

namespace gq::rpc {
namespace {

using base::Reason;

std::string Content(size_t size) {
  std::string content(size, '\0');
  for (size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i * 131 + i / 1000);
  return content;
}

class BlobClientTest : public testing::Test {
 protected:
  std::filesystem::path WriteFile(const std::string& name, const std::string& content) {
    const std::filesystem::path path = folder_.path() / name;
    EXPECT_TRUE(base::MakeFolder(path.parent_path()).ok());
    EXPECT_TRUE(base::WriteFileAtomically(path, content).ok());
    return path;
  }

  tests::TemporaryFolder folder_;
  FakeServer server_{folder_.path()};
  BlobClient client_{server_.Connect()};
};

// SHA-256 of "abc": FIPS 180-2, appendix B.1.
TEST_F(BlobClientTest, DigestsAreSha256AndSize) {
  const gq::v1::Digest digest = DigestOfBytes("abc");
  EXPECT_EQ(digest.sha256(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest.size_bytes(), 3);
  EXPECT_EQ(DigestOfFile(WriteFile("abc", "abc"))->sha256(), digest.sha256());
  EXPECT_EQ(base::GetReason(DigestOfFile(folder_.path() / "none").status()), Reason::kFileNotFound);
  EXPECT_EQ(base::GetReason(DigestOfFile(folder_.path()).status()), Reason::kFileUnreadable);
}

TEST_F(BlobClientTest, UploadsOnceAndThenNeverAgain) {
  const std::string content = Content(3 << 20);
  const std::filesystem::path path = WriteFile("m.onnx", content);
  const auto file = client_.UploadFile(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->name(), "m.onnx");
  EXPECT_EQ(server_.blobs.Get(file->digest().sha256()), content);
  ASSERT_TRUE(client_.UploadFile(path, "other.onnx").ok());
  EXPECT_EQ(server_.blobs.bytes_received(), 3 << 20);
}

TEST_F(BlobClientTest, AnEmptyFileIsABlobToo) {
  const auto file = client_.UploadFile(WriteFile("empty", ""));
  ASSERT_TRUE(file.ok()) << file.status();
  const std::filesystem::path copy = folder_.path() / "copy";
  ASSERT_TRUE(client_.Download(file->digest(), copy).ok());
  EXPECT_EQ(std::filesystem::file_size(copy), 0);
}

TEST_F(BlobClientTest, AnInterruptedUploadGoesOnWhereItWas) {
  const std::string content = Content(8 << 20);
  server_.blobs.Break({5, 1}, {});
  const auto file = client_.UploadFile(WriteFile("m.onnx", content));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(server_.blobs.Get(file->digest().sha256()), content);
  EXPECT_EQ(server_.blobs.bytes_received(), 8 << 20);
}

TEST_F(BlobClientTest, AnInterruptedDownloadGoesOnWhereItWas) {
  const std::string content = Content(8 << 20);
  server_.blobs.Put(content);
  server_.blobs.Break({}, {3, 2});
  const std::filesystem::path path = folder_.path() / "copy";
  ASSERT_TRUE(client_.Download(DigestOfBytes(content), path).ok());
  EXPECT_EQ(*base::ReadFile(path), content);
  EXPECT_EQ(server_.blobs.bytes_sent(), 8 << 20);
}

TEST_F(BlobClientTest, ADownloadOfAnEarlierProcessIsTakenUp) {
  const std::string content = Content(4 << 20);
  server_.blobs.Put(content);
  WriteFile("copy.part", content.substr(0, 3 << 20));
  ASSERT_TRUE(client_.Download(DigestOfBytes(content), folder_.path() / "copy").ok());
  EXPECT_EQ(*base::ReadFile(folder_.path() / "copy"), content);
  EXPECT_EQ(server_.blobs.bytes_sent(), 1 << 20);
}

TEST_F(BlobClientTest, ADamagedPartIsThrownAway) {
  const std::string content = Content(4 << 20);
  server_.blobs.Put(content);
  WriteFile("copy.part", std::string(3 << 20, 'x'));
  ASSERT_TRUE(client_.Download(DigestOfBytes(content), folder_.path() / "copy").ok());
  EXPECT_EQ(*base::ReadFile(folder_.path() / "copy"), content);
}

TEST_F(BlobClientTest, ContentThatArrivesChangedIsRefused) {
  const std::string content = Content(1 << 20);
  server_.blobs.Put(content);
  server_.blobs.DamageReads();
  const absl::Status status = client_.Download(DigestOfBytes(content), folder_.path() / "copy");
  EXPECT_EQ(base::GetReason(status), Reason::kDigestMismatch);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "copy"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "copy.part"));
}

TEST_F(BlobClientTest, SmallBlobsCanBeReadIntoMemory) {
  server_.blobs.Put("{}");
  EXPECT_EQ(*client_.ReadBytes(DigestOfBytes("{}"), 10), "{}");
  EXPECT_EQ(base::GetReason(client_.ReadBytes(DigestOfBytes("{}"), 1).status()),
            Reason::kResourceLimit);
  EXPECT_EQ(base::GetReason(client_.ReadBytes(DigestOfBytes("other"), 10).status()),
            Reason::kBlobMissing);
}

TEST_F(BlobClientTest, AServerThatIsDownIsSaidAtOnceToAPerson) {
  BlobClient client(server_.Connect(ChannelUse::kClient));
  server_.Stop();
  const absl::Time start = absl::Now();
  const auto digest = client.UploadBytes("x");
  EXPECT_EQ(base::GetReason(digest.status()), Reason::kServerUnreachable);
  EXPECT_LT(absl::Now() - start, absl::Seconds(8));
}

}  // namespace
}  // namespace gq::rpc
