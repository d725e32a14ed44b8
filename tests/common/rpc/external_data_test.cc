#include "common/rpc/external_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/file.h"
#include "common/base/status.h"
#include "tests/temporary_folder.h"

namespace gq::rpc {
namespace {

using base::Reason;
using testing::ElementsAre;
using testing::IsEmpty;

// A length-delimited field of a protobuf message.
std::string Field(int number, const std::string& content) {
  std::string out;
  for (uint32_t v :
       {static_cast<uint32_t>(number) << 3 | 2, static_cast<uint32_t>(content.size())}) {
    for (; v >= 0x80; v >>= 7) out += static_cast<char>(v | 0x80);
    out += static_cast<char>(v);
  }
  return out + content;
}

// onnx.proto: TensorProto.external_data = 13 {key = 1, value = 2}.
std::string Tensor(const std::string& location) {
  return Field(8, "w") + Field(13, Field(1, "offset") + Field(2, "0")) +
         Field(13, Field(1, "location") + Field(2, location));
}

class ExternalDataTest : public testing::Test {
 protected:
  absl::StatusOr<std::vector<std::string>> List(const std::string& content,
                                                const std::string& name = "m.onnx") {
    EXPECT_TRUE(base::WriteFileAtomically(folder_.path() / name, content).ok());
    return ListExternalDataFiles(folder_.path() / name);
  }
  tests::TemporaryFolder folder_;
};

TEST_F(ExternalDataTest, FindsTensorsWhereverTheyAre) {
  // Graph: initializer 5; node 1 with attribute 5 holding a tensor 5 or a graph 6; sparse 15.
  const std::string subgraph = Field(5, Tensor("c.bin"));
  const std::string graph = Field(5, Tensor("a.bin")) + Field(5, Tensor("a.bin")) +
                            Field(1, Field(5, Field(5, Tensor("dir/b.bin")))) +
                            Field(1, Field(5, Field(6, subgraph))) +
                            Field(15, Field(1, Tensor("d.bin")));
  EXPECT_THAT(*List(Field(7, graph)), ElementsAre("a.bin", "dir/b.bin", "c.bin", "d.bin"));
}

TEST_F(ExternalDataTest, AModelWithoutAnyHasNone) {
  EXPECT_THAT(*List(Field(7, Field(5, Field(9, std::string(1000, 'x'))))), IsEmpty());
}

TEST_F(ExternalDataTest, ReadsTheTextForm) {
  EXPECT_THAT(*List("<ir_version: 8> g () => () <float[2] w = [\"location\": \"w.bin\", "
                    "\"offset\" : \"0\"]> {}",
                    "m.onnxtxt"),
              ElementsAre("w.bin"));
}

TEST_F(ExternalDataTest, RefusesWhatIsNoModelOrLeadsOutside) {
  EXPECT_EQ(base::GetReason(List("this is text").status()), Reason::kModelInvalid);
  EXPECT_EQ(base::GetReason(List("").status()), Reason::kModelInvalid);
  const std::string whole = Field(7, Field(5, Tensor("a.bin")));
  EXPECT_EQ(base::GetReason(List(whole.substr(0, whole.size() - 3)).status()),
            Reason::kModelInvalid);
  for (const char* location : {"../a.bin", "/etc/passwd", "x/../../a", ""}) {
    EXPECT_EQ(base::GetReason(List(Field(7, Field(5, Tensor(location)))).status()),
              Reason::kExternalDataInvalid)
        << location;
  }
  EXPECT_EQ(base::GetReason(ListExternalDataFiles(folder_.path() / "none").status()),
            Reason::kFileNotFound);
}

}  // namespace
}  // namespace gq::rpc
