#include "common/runtime/data_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>

#include "common/base/status.h"
#include "common/runtime/npy.h"
#include "common/runtime/npz.h"
#include "tests/temporary_folder.h"

namespace gq::runtime {
namespace {

using base::GetReason;
using base::Reason;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

// Elements 0, 1, 2, ... of a shape.
Tensor Ramp(std::vector<int64_t> shape) {
  Tensor tensor(onnx::TensorProto::FLOAT, std::move(shape));
  float next = 0;
  for (float& value : tensor.MutableAs<float>()) value = next++;
  return tensor;
}

class DataSetTest : public testing::Test {
 protected:
  fs::path Npy(const std::string& name, const Tensor& tensor) {
    const fs::path path = folder_.path() / name;
    fs::create_directories(path.parent_path());
    EXPECT_TRUE(WriteNpy(path, tensor).ok());
    return path;
  }
  fs::path Npz(const std::string& name, const std::map<std::string, Tensor>& arrays) {
    const fs::path path = folder_.path() / name;
    fs::create_directories(path.parent_path());
    EXPECT_TRUE(WriteNpz(path, arrays).ok());
    return path;
  }
  // First element of every sample's tensor of one input; the status's message on an error.
  static std::vector<float> Firsts(DataSet& data, size_t input = 0) {
    std::vector<float> firsts;
    std::vector<Tensor> sample;
    for (int64_t i = 0; i < data.size(); ++i) {
      const auto result = data.Read(i, &sample);
      EXPECT_TRUE(result.ok()) << result.status();
      if (!result.ok()) break;
      EXPECT_EQ(sample[input].shape(), data.inputs()[input].shape);
      firsts.push_back(sample[input].As<float>()[0]);
    }
    return firsts;
  }
  absl::StatusOr<std::unique_ptr<DataSet>> Open(const std::vector<fs::path>& paths,
                                                const DataSetOptions& options = {}) {
    return DataSet::Open(paths, specs_, options);
  }

  tests::TemporaryFolder folder_;
  std::vector<InputSpec> specs_ = {{"x", onnx::TensorProto::FLOAT, {1, 2, 3}}};
};

TEST_F(DataSetTest, FormsOfOneArray) {
  const struct {
    std::vector<int64_t> shape;
    std::vector<float> firsts;
  } kForms[] = {{{1, 2, 3}, {0}},             // the sample itself
                {{4, 2, 3}, {0, 6, 12, 18}},  // along the batch axis
                {{3, 1, 2, 3}, {0, 6, 12}}};  // stacked
  for (const auto& form : kForms) {
    const auto npy = Open({Npy("x.npy", Ramp(form.shape))});
    ASSERT_TRUE(npy.ok()) << npy.status();
    EXPECT_EQ(Firsts(**npy), form.firsts);
    const auto npz = Open({Npz("x.npz", {{"x", Ramp(form.shape)}})});
    ASSERT_TRUE(npz.ok()) << npz.status();
    EXPECT_EQ(Firsts(**npz), form.firsts);
    EXPECT_EQ(*(*npy)->Digest(), *(*npz)->Digest());
  }
}

TEST_F(DataSetTest, LargerBatchesAreCutIntoTheModels) {
  specs_ = {{"x", onnx::TensorProto::FLOAT, {2, 3}}};
  const auto data = Open({Npy("x.npy", Ramp({5, 3}))});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(Firsts(**data), ElementsAre(0, 6));
  EXPECT_THAT((*data)->warnings(), ElementsAre(HasSubstr("the last 1 rows")));
}

TEST_F(DataSetTest, FolderInOrderOfName) {
  Npy("set/b.npy", Ramp({2, 2, 3}));
  Npz("set/a.npz", {{"x", Ramp({1, 2, 3})}});
  std::ofstream(folder_.path() / "set" / "readme.txt") << "no data";
  const auto data = Open({folder_.path() / "set"});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(Firsts(**data), ElementsAre(0, 0, 6));
  EXPECT_THAT((*data)->description()[0], HasSubstr("a.npz"));
}

TEST_F(DataSetTest, SeveralInputsByNameAndByNumber) {
  specs_ = {{"left", onnx::TensorProto::FLOAT, {1, 2}},
            {"right", onnx::TensorProto::FLOAT, {1, 1}}};
  const fs::path left = Npy("left.npy", Ramp({3, 2}));
  const fs::path right = Npy("right.npy", Ramp({3, 1}));
  auto data = Open({right, left});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(Firsts(**data, 0), ElementsAre(0, 2, 4));
  EXPECT_THAT(Firsts(**data, 1), ElementsAre(0, 1, 2));
  data = Open({Npy("ifm_0.npy", Ramp({3, 2})), Npy("ifm_1.npy", Ramp({3, 1}))});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(Firsts(**data, 1), ElementsAre(0, 1, 2));
  EXPECT_EQ(GetReason(Open({left}).status()), Reason::kDataKeyMismatch);
  EXPECT_EQ(GetReason(Open({left, Npy("other.npy", Ramp({3, 1}))}).status()),
            Reason::kDataKeyMismatch);
  EXPECT_EQ(GetReason(Open({left, Npy("ifm_1.npy", Ramp({2, 1}))}).status()),
            Reason::kDataShapeMismatch);
}

TEST_F(DataSetTest, WrongKeyNamesFileKeysAndInputs) {
  const auto status = Open({Npz("calib.npz", {{"x:0", Ramp({1, 2, 3})}})}).status();
  EXPECT_EQ(GetReason(status), Reason::kDataKeyMismatch);
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr("calib.npz"));
  EXPECT_THAT(message, HasSubstr("'x:0'"));
  EXPECT_THAT(message, HasSubstr("'x'"));
}

TEST_F(DataSetTest, KeyThatIsNoInputIsAWarning) {
  const auto data = Open({Npz("calib.npz", {{"x", Ramp({1, 2, 3})}, {"extra", Ramp({1})}})});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT((*data)->warnings(), ElementsAre(HasSubstr("'extra'")));
}

TEST_F(DataSetTest, WrongShapeSaysWhatWasExpected) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{2, 3}, {1, 3, 2}, {6}, {1, 2, 3, 1}, {}}) {
    const auto status = Open({Npy("x.npy", Ramp(shape))}).status();
    EXPECT_EQ(GetReason(status), Reason::kDataShapeMismatch);
    EXPECT_THAT(std::string(status.message()), HasSubstr("[1, 2, 3] or [N, 1, 2, 3] or [N, 2, 3]"));
  }
  EXPECT_EQ(GetReason(Open({Npy("x.npy", Ramp({0, 2, 3}))}).status()), Reason::kDataEmpty);
}

TEST_F(DataSetTest, WrongTypeSaysWhatWasExpected) {
  const std::vector<double> values(6, 1);
  const auto status = Open({Npy("x.npy", Tensor::Of<double>({1, 2, 3}, values))}).status();
  EXPECT_EQ(GetReason(status), Reason::kDataTypeMismatch);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected float32"));
  // Unless the model had this type before it was converted.
  specs_[0].file_dtype = onnx::TensorProto::DOUBLE;
  const auto data = Open({folder_.path() / "x.npy"});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(Firsts(**data), ElementsAre(1));
}

TEST_F(DataSetTest, NothingToRead) {
  EXPECT_EQ(GetReason(Open({folder_.path() / "none.npy"}).status()), Reason::kFileNotFound);
  fs::create_directories(folder_.path() / "empty");
  EXPECT_EQ(GetReason(Open({folder_.path() / "empty"}).status()), Reason::kDataEmpty);
  EXPECT_EQ(GetReason(Open({}).status()), Reason::kDataEmpty);
  std::ofstream(folder_.path() / "x.png") << "picture";
  EXPECT_EQ(GetReason(Open({folder_.path() / "x.png"}).status()), Reason::kDataInvalid);
}

TEST_F(DataSetTest, NumberOfSamples) {
  Npy("x.npy", Ramp({4, 2, 3}));
  const auto data = Open({folder_.path() / "x.npy"}, {.num_samples = 3});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->size(), 3);
  const auto more = Open({folder_.path() / "x.npy"}, {.num_samples = 9});
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_EQ((*more)->size(), 4);
  EXPECT_EQ((*more)->warnings().size(), 1u);
}

TEST_F(DataSetTest, NotANumberIsAnErrorOrSkipped) {
  Tensor tensor = Ramp({3, 2, 3});
  tensor.MutableAs<float>()[8] = std::numeric_limits<float>::quiet_NaN();
  tensor.MutableAs<float>()[13] = -std::numeric_limits<float>::infinity();
  const fs::path path = Npy("x.npy", tensor);
  const auto strict = Open({path});
  ASSERT_TRUE(strict.ok()) << strict.status();
  std::vector<Tensor> sample;
  EXPECT_TRUE((*strict)->Read(0, &sample).ok());
  const auto status = (*strict)->Read(1, &sample).status();
  EXPECT_EQ(GetReason(status), Reason::kDataNonfinite);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("x.npy"), HasSubstr("'x'"), HasSubstr("sample 1"),
                             HasSubstr("element 2 is NaN")));
  const auto lenient = Open({path}, {.allow_nonfinite = true});
  ASSERT_TRUE(lenient.ok()) << lenient.status();
  EXPECT_EQ(*(*lenient)->Read(2, &sample), DataSet::ReadResult::kSkipped);
  EXPECT_THAT((*lenient)->skip_reason(), HasSubstr("-infinity"));
  EXPECT_EQ(*(*lenient)->Read(0, &sample), DataSet::ReadResult::kSample);
}

TEST_F(DataSetTest, RandomDataFollowsTheSeed) {
  specs_ = {{"x", onnx::TensorProto::FLOAT, {1, 20000}}, {"n", onnx::TensorProto::INT64, {1, 500}}};
  const auto data = DataSet::Random(specs_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->size(), 8);
  EXPECT_TRUE((*data)->random());
  std::vector<Tensor> sample;
  ASSERT_TRUE((*data)->Read(3, &sample).ok());
  const auto values = sample[0].As<float>();
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / 20000;
  double variance = 0;
  for (const float value : values) variance += (value - mean) * (value - mean) / 20000;
  EXPECT_NEAR(mean, 0, 0.03);
  EXPECT_NEAR(variance, 1, 0.05);
  for (const int64_t value : sample[1].As<int64_t>()) {
    EXPECT_GE(value, 0);
    EXPECT_LE(value, 99);
  }
  EXPECT_EQ(*(*data)->Digest(), *(*DataSet::Random(specs_))->Digest());
  EXPECT_NE(*(*data)->Digest(), *(*DataSet::Random(specs_, {.seed = 7}))->Digest());
}

}  // namespace
}  // namespace gq::runtime
