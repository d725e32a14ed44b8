#include "common/runtime/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/base/status.h"
#include "tests/temporary_folder.h"

namespace gq::runtime {
namespace {

using base::GetReason;
using base::Reason;
using testing::ElementsAre;
using testing::HasSubstr;

// A .npy file of version 1.0 with this dictionary and these raw elements.
std::string NpyFile(std::string dictionary, std::string_view elements) {
  dictionary += '\n';
  std::string file = "\x93NUMPY";
  file += '\x01';
  file += '\0';
  file += static_cast<char>(dictionary.size() & 0xff);
  file += static_cast<char>(dictionary.size() >> 8);
  return file + dictionary + std::string(elements);
}

template <typename T>
std::string RawBytes(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(std::data(values)), values.size() * sizeof(T)};
}

std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class NpyTest : public testing::Test {
 protected:
  std::filesystem::path Put(const std::string& bytes) {
    const auto path = folder_.path() / "array.npy";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  tests::TemporaryFolder folder_;
};

TEST_F(NpyTest, RowsOfAnArray) {
  const auto path = Put(NpyFile("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }",
                                RawBytes<float>({0, 1, 2, 3, 4, 5})));
  const auto reader = OpenNpy(path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT((*reader)->header().shape, ElementsAre(3, 2));
  const auto rows = (*reader)->ReadRows(1, 2);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(rows->shape(), ElementsAre(2, 2));
  EXPECT_THAT(rows->As<float>(), ElementsAre(2, 3, 4, 5));
}

TEST_F(NpyTest, FortranOrderIsTurnedIntoCOrder) {
  // numpy.asfortranarray([[1, 2, 3], [4, 5, 6]]) lies column by column.
  const auto path = Put(NpyFile("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }",
                                RawBytes<int32_t>({1, 4, 2, 5, 3, 6})));
  const auto all = ReadNpy(path);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(all->As<int32_t>(), ElementsAre(1, 2, 3, 4, 5, 6));
  const auto reader = OpenNpy(path);
  ASSERT_TRUE(reader.ok());
  EXPECT_THAT((*reader)->ReadRows(1, 1)->As<int32_t>(), ElementsAre(4, 5, 6));
}

TEST_F(NpyTest, BigEndianIsConverted) {
  const auto path = Put(NpyFile("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }",
                                std::string("\x01\x02\x00\xff", 4)));
  const auto all = ReadNpy(path);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(all->As<int16_t>(), ElementsAre(0x0102, 0x00ff));
}

TEST_F(NpyTest, ScalarAndVersions2And3) {
  for (const char version : {'\x02', '\x03'}) {
    std::string dictionary = "{\"descr\": '<f8', 'fortran_order': False, 'shape': ()}";
    std::string file = "\x93NUMPY";
    file += version;
    file += std::string("\0", 1);
    file += static_cast<char>(dictionary.size());
    file += std::string("\0\0\0", 3);
    file += dictionary + RawBytes<double>({2.5});
    const auto all = ReadNpy(Put(file));
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_THAT(all->shape(), ElementsAre());
    EXPECT_THAT(all->As<double>(), ElementsAre(2.5));
  }
}

TEST_F(NpyTest, WrittenFilesAreReadBack) {
  const auto path = folder_.path() / "out.npy";
  const std::vector<int64_t> values = {7, -1, 3};
  ASSERT_TRUE(WriteNpy(path, Tensor::Of<int64_t>({3}, values)).ok());
  const auto all = ReadNpy(path);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(all->As<int64_t>(), ElementsAre(7, -1, 3));
  // numpy.save puts the first element at a multiple of 64.
  EXPECT_EQ(std::filesystem::file_size(path), 128u + 24u);
}

TEST_F(NpyTest, TruncatedFileIsRefused) {
  const auto status = OpenNpy(Put(NpyFile("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
                                          RawBytes<float>({0, 1}))))
                          .status();
  EXPECT_EQ(GetReason(status), Reason::kDataInvalid);
  EXPECT_THAT(std::string(status.message()), HasSubstr("array.npy"));
}

TEST_F(NpyTest, MissingFile) {
  EXPECT_EQ(GetReason(OpenNpy(folder_.path() / "none.npy").status()), Reason::kFileNotFound);
}

TEST(NpyHeaderTest, HostileHeadersAreErrors) {
  const std::vector<std::string> headers = {
      "",
      "{",
      "{}",
      "{'descr': '<f4'}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} import os",
      "{'descr': '|O', 'fortran_order': False, 'shape': (3,)}",
      "{'descr': '<U8', 'fortran_order': False, 'shape': (3,)}",
      "{'descr': '<c8', 'fortran_order': False, 'shape': (3,)}",
      "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}",
      "{'descr': '', 'fortran_order': False, 'shape': (3,)}",
      "{'descr': '<f4', 'fortran_order': 1, 'shape': (3,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 8)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3",
      "{'descr': '<f4', 'fortran_order': False, 'shape': 3}",
      "{'descr': '<f4', 'other': False, 'shape': (3,)}",
  };
  for (const std::string& header : headers) {
    const auto parsed = ParseNpyHeader(AsBytes(NpyFile(header, "")), "x.npy");
    EXPECT_EQ(GetReason(parsed.status()), Reason::kDataInvalid) << header;
  }
}

TEST(NpyHeaderTest, EveryPrefixOfAGoodHeaderIsAnError) {
  const std::string file =
      NpyFile("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", "");
  EXPECT_TRUE(ParseNpyHeader(AsBytes(file), "x.npy").ok());
  for (size_t length = 0; length < file.size(); ++length) {
    EXPECT_FALSE(ParseNpyHeader(AsBytes(file.substr(0, length)), "x.npy").ok()) << length;
  }
}

}  // namespace
}  // namespace gq::runtime
