#include "common/runtime/data_shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/status.h"
#include "common/runtime/npy.h"
#include "common/runtime/npz.h"
#include "tests/temporary_folder.h"

namespace gq::runtime {
namespace {

using base::Reason;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
namespace fs = std::filesystem;

class DataShapesTest : public testing::Test {
 protected:
  fs::path Npy(const std::string& name, std::vector<int64_t> shape) {
    const fs::path path = folder_.path() / name;
    EXPECT_TRUE(WriteNpy(path, Tensor(onnx::TensorProto::FLOAT, std::move(shape))).ok());
    return path;
  }
  static auto Shapes(const std::vector<fs::path>& paths, const std::vector<OpenInput>& inputs) {
    return ShapesOfData(paths, inputs);
  }
  tests::TemporaryFolder folder_;
};

TEST_F(DataShapesTest, SamplesStackedAlongTheBatch) {
  EXPECT_THAT(*Shapes({Npy("d.npy", {8, 3, 5, 7})}, {{"x", {-1, 3, -1, -1}}}),
              ElementsAre(Pair("x", ElementsAre(1, 3, 5, 7))));
  EXPECT_THAT(*Shapes({Npy("d.npy", {8, 3, 5, 7})}, {{"x", {2, 3, -1, -1}}}),
              ElementsAre(Pair("x", ElementsAre(2, 3, 5, 7))));
}

TEST_F(DataShapesTest, SamplesAlongAnAxisOfTheirOwn) {
  EXPECT_THAT(*Shapes({Npy("d.npy", {8, 4, 3, 5})}, {{"x", {-1, 3, -1}}}),
              ElementsAre(Pair("x", ElementsAre(4, 3, 5))));
}

TEST_F(DataShapesTest, FixedInputsNeedNothing) {
  EXPECT_THAT(*Shapes({folder_.path() / "missing.npy"}, {{"x", {1, 3}}}), IsEmpty());
}

TEST_F(DataShapesTest, ArraysThatDoNotFitGiveNoShape) {
  EXPECT_THAT(*Shapes({Npy("d.npy", {8, 4, 5})}, {{"x", {-1, 3, -1}}}), IsEmpty());
  EXPECT_THAT(*Shapes({Npy("d.npy", {8, 0, 3})}, {{"x", {-1, -1, 3}}}), IsEmpty());
  EXPECT_THAT(*Shapes({Npy("d.npy", {})}, {{"x", {-1}}}), IsEmpty());
}

TEST_F(DataShapesTest, SeveralInputsByFileAndByKey) {
  Npy("a.npy", {8, 6});
  Npy("b.npy", {8, 6, 2});
  const std::vector<OpenInput> inputs = {{"a", {-1, -1}}, {"b", {-1, -1, 2}}};
  EXPECT_THAT(*Shapes({folder_.path()}, inputs),
              ElementsAre(Pair("a", ElementsAre(1, 6)), Pair("b", ElementsAre(1, 6, 2))));
  const fs::path npz = folder_.path() / "c.npz";
  ASSERT_TRUE(WriteNpz(npz, {{"a", Tensor(onnx::TensorProto::FLOAT, {8, 9})}}).ok());
  EXPECT_THAT(*Shapes({npz}, inputs), ElementsAre(Pair("a", ElementsAre(1, 9))));
}

TEST_F(DataShapesTest, FilesThatDisagreeAreNamed) {
  Npy("a.npy", {2, 3, 4});
  Npy("b.npy", {9, 3, 5});
  const auto shapes = Shapes({folder_.path()}, {{"x", {-1, 3, -1}}});
  EXPECT_EQ(base::GetReason(shapes.status()), Reason::kDynamicShape);
  EXPECT_THAT(std::string(shapes.status().message()),
              testing::AllOf(HasSubstr("a.npy"), HasSubstr("b.npy"), HasSubstr("[1, 3, 4]"),
                             HasSubstr("[1, 3, 5]")));
  EXPECT_THAT(base::GetHint(shapes.status()), HasSubstr("--input-shape x=1x3x4"));
}

}  // namespace
}  // namespace gq::runtime
