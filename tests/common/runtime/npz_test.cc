#include "common/runtime/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zip.h>

#include <fstream>
#include <sstream>

#include "common/base/status.h"
#include "tests/temporary_folder.h"

namespace gq::runtime {
namespace {

using base::GetReason;
using base::Reason;
using testing::ElementsAre;

Tensor Ramp(int64_t rows, int64_t columns) {
  Tensor tensor(onnx::TensorProto::FLOAT, {rows, columns});
  float next = 0;
  for (float& value : tensor.MutableAs<float>()) value = next++;
  return tensor;
}

class NpzTest : public testing::Test {
 protected:
  // An archive with these entries (full names), compressed or not.
  std::filesystem::path Put(const std::vector<std::pair<std::string, std::string>>& entries,
                            bool compress) {
    const auto path = folder_.path() / "data.npz";
    zip_t* zip = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
    for (const auto& [name, bytes] : entries) {
      zip_source_t* source = zip_source_buffer(zip, bytes.data(), bytes.size(), 0);
      const auto index = zip_file_add(zip, name.c_str(), source, ZIP_FL_ENC_UTF_8);
      zip_set_file_compression(zip, static_cast<zip_uint64_t>(index),
                               compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
    }
    EXPECT_EQ(zip_close(zip), 0);
    return path;
  }
  static std::string ReadFile(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
  }
  tests::TemporaryFolder folder_;
};

TEST_F(NpzTest, WrittenArchivesAreReadBack) {
  const auto path = folder_.path() / "out.npz";
  ASSERT_TRUE(WriteNpz(path, {{"b", Ramp(2, 2)}, {"/a/b:0", Ramp(1, 3)}}).ok());
  const auto arrays = ReadNpz(path);
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  EXPECT_THAT(arrays->at("b").As<float>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(arrays->at("/a/b:0").shape(), ElementsAre(1, 3));
}

TEST_F(NpzTest, RowsInAnyOrderCompressedOrNot) {
  for (const bool compress : {false, true}) {
    const auto path = Put({{"x.npy", *NpyBytes(Ramp(100, 50))}}, compress);
    const auto archive = NpzArchive::Open(path);
    ASSERT_TRUE(archive.ok()) << archive.status();
    const auto array = (*archive)->OpenArray("x");
    ASSERT_TRUE(array.ok()) << array.status();
    for (const int64_t row : {0, 1, 57, 3, 99, 0}) {
      const auto rows = (*array)->ReadRows(row, 1);
      ASSERT_TRUE(rows.ok()) << rows.status();
      EXPECT_EQ(rows->As<float>()[7], static_cast<float>(row * 50 + 7));
    }
  }
}

TEST_F(NpzTest, UnknownKeyNamesThoseThatAreThere) {
  const auto archive = NpzArchive::Open(Put({{"x.npy", *NpyBytes(Ramp(1, 1))}}, false));
  ASSERT_TRUE(archive.ok());
  const auto status = (*archive)->OpenArray("y").status();
  EXPECT_EQ(GetReason(status), Reason::kDataKeyMismatch);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("x"));
}

TEST_F(NpzTest, NotAnArchive) {
  const auto path = folder_.path() / "text.npz";
  std::ofstream(path) << "hello";
  EXPECT_EQ(GetReason(NpzArchive::Open(path).status()), Reason::kDataInvalid);
  EXPECT_EQ(GetReason(NpzArchive::Open(folder_.path() / "none.npz").status()),
            Reason::kFileNotFound);
}

TEST_F(NpzTest, NamesThatLeadOutAreRefused) {
  for (const std::string name : {"../x.npy", "a/../../x.npy", "..\\x.npy"}) {
    const auto path = Put({{name, *NpyBytes(Ramp(1, 1))}}, false);
    EXPECT_EQ(GetReason(NpzArchive::Open(path).status()), Reason::kDataInvalid) << name;
  }
}

TEST_F(NpzTest, EntriesThatGrowTooMuchAreRefused) {
  const std::string zeros(size_t{80} << 20, '\0');
  const auto path = Put({{"x.npy", zeros}}, true);
  EXPECT_EQ(GetReason(NpzArchive::Open(path, {.max_ratio = 100}).status()), Reason::kDataInvalid);
  EXPECT_EQ(GetReason(NpzArchive::Open(path, {.max_entry_bytes = 1 << 20}).status()),
            Reason::kDataInvalid);
}

TEST_F(NpzTest, HeaderThatPromisesMoreThanTheEntryHolds) {
  std::string bytes = *NpyBytes(Ramp(4, 4));
  bytes.resize(bytes.size() - 8);
  const auto archive = NpzArchive::Open(Put({{"x.npy", bytes}}, true));
  ASSERT_TRUE(archive.ok());
  EXPECT_EQ(GetReason((*archive)->OpenArray("x").status()), Reason::kDataInvalid);
}

// A damaged byte anywhere gives an error or, in fields that nobody reads, the same array; never a
// crash or other values.
TEST_F(NpzTest, DamagedBytes) {
  const auto path = Put({{"x.npy", *NpyBytes(Ramp(8, 8))}}, true);
  const std::string good = ReadFile(path);
  const Tensor expected = Ramp(8, 8);
  const auto damaged = folder_.path() / "damaged.npz";
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x41);
    std::ofstream(damaged, std::ios::binary | std::ios::trunc) << bytes;
    const auto arrays = ReadNpz(damaged);
    if (!arrays.ok() || !arrays->contains("x")) continue;
    EXPECT_TRUE(std::ranges::equal(arrays->at("x").bytes(), expected.bytes())) << at;
  }
  for (size_t length = 0; length < good.size(); length += 3) {
    std::ofstream(damaged, std::ios::binary | std::ios::trunc) << good.substr(0, length);
    EXPECT_FALSE(ReadNpz(damaged).ok()) << length;
  }
}

}  // namespace
}  // namespace gq::runtime
