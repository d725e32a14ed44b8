// Every calibrated range of the golden vectors of AMD Quark, through the same pass that the product
// uses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/reporter.h"
#include "common/calibrate/calibrate.h"
#include "common/graph/model.h"
#include "common/runtime/data_set.h"

namespace gq::calibrate {
namespace {

namespace fs = std::filesystem;

fs::path VectorFolder() {
  const char* source = std::getenv("GQ_SOURCE_DIR");
  return fs::path(source != nullptr ? source : ".") / ".." / "shared" / "vectors" / "quark";
}

struct Expectation {
  MethodSpec method;
  Grid grid = Grid::kInt8;
  double tolerance = 0;  // relative to the larger end of the range
};

MethodSpec MinMse() { return MethodSpec::Default(Method::kMinMse); }

// What each configuration of the vectors calibrates with (index.json) and how closely README.md
// wants its ranges.
Expectation ExpectationOf(const std::string& configuration) {
  const auto by = [](Method method, double tolerance) {
    return Expectation{.method = MethodSpec::Default(method), .tolerance = tolerance};
  };
  if (configuration == "vint8_minmax" || configuration == "xint8_minmax") {
    return by(Method::kNonOverflow, 1e-6);
  }
  if (configuration == "int8_pc_minmax" || configuration == "uint8_asym") {
    return by(Method::kMinMax, 1e-6);
  }
  if (configuration == "int8_movavg") return by(Method::kMovingAverage, 1e-6);
  if (configuration == "int8_pc_percentile" || configuration == "a8w8" ||
      configuration == "vint8_percentile_pof2") {
    return by(Method::kPercentile, 1e-5);
  }
  if (configuration == "int8_entropy") return by(Method::kEntropy, 1e-5);
  if (configuration == "int8_distribution") return by(Method::kDistribution, 1e-5);
  if (configuration == "int8_lwp") return by(Method::kLayerwisePercentile, 1e-5);
  Expectation expectation{.method = MinMse()};
  if (configuration == "xint8_legacy") expectation.grid = Grid::kUint8;
  if (configuration == "vint8_numbins0") expectation.method.bins = 0;
  if (configuration == "vint8_mostcommon") expectation.method.mode = MinMseMode::kMostCommon;
  return expectation;
}

struct Golden {
  std::string configuration;
  Expectation expectation;
  nlohmann::json ranges;
};

// Configurations of one case that share a preprocessed model and a grid: one pass serves them all.
struct Batch {
  std::vector<Golden> golden;
};

std::map<std::pair<std::string, Grid>, Batch> BatchesOf(const fs::path& folder) {
  std::map<std::pair<std::string, Grid>, Batch> batches;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("expected.")) continue;
    std::ifstream file(entry.path());
    const nlohmann::json json = nlohmann::json::parse(file);
    if (!json.contains("calibrated_ranges")) continue;
    Golden golden{.configuration = json.at("config").get<std::string>(),
                  .ranges = json.at("calibrated_ranges")};
    golden.expectation = ExpectationOf(golden.configuration);
    batches[{json.at("preprocessed").get<std::string>(), golden.expectation.grid}].golden.push_back(
        std::move(golden));
  }
  return batches;
}

void CheckRange(const Golden& golden, const std::string& tensor, const Range& range) {
  const double min = golden.ranges.at(tensor).at(0).get<double>();
  const double max = golden.ranges.at(tensor).at(1).get<double>();
  const double allowed = golden.expectation.tolerance * std::max(std::fabs(min), std::fabs(max));
  EXPECT_NEAR(range.min, min, allowed) << golden.configuration << " " << tensor;
  EXPECT_NEAR(range.max, max, allowed) << golden.configuration << " " << tensor;
}

int64_t RunBatch(const fs::path& folder, const std::string& preprocessed, Grid grid,
                 const Batch& batch) {
  const auto model = graph::LoadModel(folder / preprocessed);
  EXPECT_TRUE(model.ok()) << model.status();
  const auto inputs = runtime::InputSpecs(*model);
  EXPECT_TRUE(inputs.ok()) << inputs.status();
  const std::vector<fs::path> files = {folder / "calib.npz"};
  const auto data = runtime::DataSet::Open(files, *inputs);
  EXPECT_TRUE(data.ok()) << data.status();
  std::set<std::string> names;
  std::vector<MethodSpec> methods;
  for (const Golden& golden : batch.golden) {
    for (const auto& [tensor, range] : golden.ranges.items()) names.insert(tensor);
    if (std::find(methods.begin(), methods.end(), golden.expectation.method) == methods.end()) {
      methods.push_back(golden.expectation.method);
    }
  }
  std::vector<TensorRequest> requests;
  for (const std::string& name : names) requests.push_back({.name = name, .grid = grid});
  base::NullReporter reporter;
  const auto table =
      Calibrate(*model, requests, methods, **data, {.quark_compatible = true}, reporter);
  EXPECT_TRUE(table.ok()) << table.status();
  EXPECT_EQ((*table).samples, 8);
  int64_t compared = 0;
  for (const Golden& golden : batch.golden) {
    for (const auto& [tensor, range] : golden.ranges.items()) {
      const auto found = table->RangeOf(tensor, golden.expectation.method);
      EXPECT_TRUE(found.has_value()) << golden.configuration << " " << tensor;
      if (found.has_value()) CheckRange(golden, tensor, *found);
      ++compared;
    }
  }
  return compared;
}

class QuarkRanges : public testing::TestWithParam<std::string> {};

TEST_P(QuarkRanges, AreReproduced) {
  const fs::path folder = VectorFolder() / GetParam();
  int64_t compared = 0;
  for (const auto& [key, batch] : BatchesOf(folder)) {
    SCOPED_TRACE(key.first);
    compared += RunBatch(folder, key.first, key.second, batch);
  }
  EXPECT_GT(compared, 0);
}

std::vector<std::string> Cases() {
  std::vector<std::string> cases;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(VectorFolder(), error)) {
    if (entry.is_directory()) cases.push_back(entry.path().filename().string());
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

// Without the vectors beside the source tree there is nothing to run.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(QuarkRanges);
INSTANTIATE_TEST_SUITE_P(Vectors, QuarkRanges, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace gq::calibrate
