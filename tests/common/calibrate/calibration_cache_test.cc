#include "common/calibrate/calibration_cache.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "common/base/status.h"
#include "tests/temporary_folder.h"

namespace gq::calibrate {
namespace {

class CalibrationCacheTest : public testing::Test {
 protected:
  CalibrationCacheTest() {
    table_.methods = {MethodSpec::Default(Method::kMinMse),
                      MethodSpec::Default(Method::kLayerwisePercentile)};
    table_.tensors["/conv/a:0"] = {.min = -0.1f,
                                   .max = 1e-42f,
                                   .mean_abs_max = 0.1 + 0.2,
                                   .elements = 77,
                                   .grid = Grid::kUint8,
                                   .ranges = {{-128, 127}, {-3.4e38f, 1.0f / 3}}};
    table_.left_out["shape"] = "int64";
    table_.samples = 3;
    table_.skipped = {1, 4};
    table_.data_digest = "abc";
  }

  const tests::TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
  CalibrationTable table_;
};

TEST_F(CalibrationCacheTest, StoredTablesComeBackBitForBit) {
  ASSERT_TRUE(StoreCalibration(folder_ / "cache", "key", table_).ok());
  const auto loaded = LoadCalibration(folder_ / "cache", "key");
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->methods, table_.methods);
  const TensorCalibration& tensor = loaded->tensors.at("/conv/a:0");
  EXPECT_EQ(tensor.min, -0.1f);
  EXPECT_EQ(tensor.max, 1e-42f);
  EXPECT_EQ(tensor.mean_abs_max, 0.1 + 0.2);
  EXPECT_EQ(tensor.elements, 77);
  EXPECT_EQ(tensor.grid, Grid::kUint8);
  EXPECT_EQ(tensor.ranges, table_.tensors.at("/conv/a:0").ranges);
  EXPECT_EQ(loaded->left_out, table_.left_out);
  EXPECT_EQ(loaded->samples, 3);
  EXPECT_EQ(loaded->skipped, table_.skipped);
  EXPECT_EQ(loaded->data_digest, "abc");
  EXPECT_FALSE(LoadCalibration(folder_ / "cache", "other").has_value());
}

TEST_F(CalibrationCacheTest, DamagedFilesAreAsGoodAsNone) {
  ASSERT_TRUE(StoreCalibration(folder_, "key", table_).ok());
  const auto path = folder_ / "key.calibration.json";
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  const std::string good = content.str();
  for (size_t at = 0; at < good.size(); at += 3) {
    std::string bytes = good;
    bytes[at] = bytes[at] == '7' ? '8' : '7';
    std::ofstream(path, std::ios::trunc) << bytes;
    // A digit beyond float precision changes nothing; everything else must be noticed.
    const auto loaded = LoadCalibration(folder_, "key");
    if (loaded.has_value()) {
      EXPECT_EQ(loaded->tensors.at("/conv/a:0").min, -0.1f) << at;
      EXPECT_EQ(loaded->tensors.at("/conv/a:0").ranges, table_.tensors.at("/conv/a:0").ranges);
      EXPECT_EQ(loaded->tensors.at("/conv/a:0").mean_abs_max, 0.1 + 0.2);
    }
  }
  std::ofstream(path, std::ios::trunc) << good.substr(0, good.size() / 2);
  EXPECT_FALSE(LoadCalibration(folder_, "key").has_value());
}

TEST_F(CalibrationCacheTest, KeyFollowsEverythingThatChangesTheResult) {
  const std::vector<TensorRequest> tensors = {{.name = "a"}, {.name = "b"}};
  const std::vector<TensorRequest> other_grid = {{.name = "a"},
                                                 {.name = "b", .grid = Grid::kInt16}};
  const std::vector<MethodSpec> methods = {MethodSpec::Default(Method::kPercentile)};
  std::vector<MethodSpec> other_percentile = methods;
  other_percentile[0].percentile = 99.9;
  const std::string key = CacheKey("model", "data", tensors, methods, {});
  EXPECT_EQ(key, CacheKey("model", "data", tensors, methods, {}));
  EXPECT_NE(key, CacheKey("other", "data", tensors, methods, {}));
  EXPECT_NE(key, CacheKey("model", "other", tensors, methods, {}));
  EXPECT_NE(key, CacheKey("model", "data", other_grid, methods, {}));
  EXPECT_NE(key, CacheKey("model", "data", tensors, other_percentile, {}));
  EXPECT_NE(key, CacheKey("model", "data", tensors, methods, {.quark_compatible = true}));
  EXPECT_NE(key, CacheKey("model", "data", tensors, methods, {.allow_nonfinite = true}));
}

TEST_F(CalibrationCacheTest, NamesThatAreNotUtf8AreNotStored) {
  table_.tensors["\xff\xfe"] = table_.tensors.at("/conv/a:0");
  EXPECT_EQ(base::GetReason(StoreCalibration(folder_, "key", table_)),
            base::Reason::kFileUnwritable);
}

}  // namespace
}  // namespace gq::calibrate
