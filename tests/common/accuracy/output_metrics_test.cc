#include "common/accuracy/output_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gq::accuracy {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

OutputFigures Compare(const std::vector<double>& reference, const std::vector<double>& candidate,
                      OutputMetricsOptions options = {}) {
  options.expected_elements = static_cast<int64_t>(reference.size());
  OutputMetrics metrics(options);
  metrics.AddSample(std::span<const double>(reference), std::span<const double>(candidate));
  return metrics.Figures();
}

// The published worked examples (atol 0.015, rtol 0.01).
TEST(OutputMetricsTest, GivesThePublishedFigures) {
  struct Example {
    std::vector<double> reference, candidate;
    double psnr, pass, cosine;
  };
  std::vector<double> zeros_and_ten(1000, 0.0), zeros_and_nine(1000, 0.0);
  zeros_and_ten[999] = 10;
  zeros_and_nine[999] = 9;
  const std::vector<Example> examples = {
      {{1, 2, 3, 4}, {1, 2, 3, 4}, kInf, 100, 1},
      {{1, 2, 3, 4}, {1.1, 2, 2.9, 4}, 35.051500, 50, 0.999684848},
      {{1, 2, 3, 4}, {1.02, 2.03, 3.04, 4.05}, 40.737862, 100, 0.999998918},
      {{0, 0, 0}, {0.1, 0, 0}, 0.0, 66.6667, 1.0},
      {{0, 0}, {0, 0}, kInf, 100, 1.0},
      {{-5, 0, 5}, {-4.5, 0.01, 5.2}, 24.125135, 33.3333, 0.997405182},
      {zeros_and_ten, zeros_and_nine, 50.0, 99.9, 1.0},
  };
  for (const Example& example : examples) {
    const OutputFigures f = Compare(example.reference, example.candidate);
    if (std::isinf(example.psnr)) {
      EXPECT_EQ(f.psnr_db, kInf);
    } else {
      EXPECT_NEAR(f.psnr_db, example.psnr, 1e-6);
    }
    EXPECT_NEAR(f.pass_rate, example.pass, 1e-4);
    EXPECT_NEAR(f.cosine, example.cosine, 1e-9);
  }
}

// A rate of exactly 99.9 is not lost to rounding: the goal is "at least 99.9".
TEST(OutputMetricsTest, PassRateOfExactly999OfAThousandReachesTheGoal) {
  std::vector<double> r(1000, 0.0), a(1000, 0.0);
  r[0] = 10;
  a[0] = 9;
  EXPECT_GE(Compare(r, a).pass_rate, 99.9);
}

// -1 + 2i/1000 rounded to multiples of 2^-7 and 2^-6 within int8.
TEST(OutputMetricsTest, MeasuresARampQuantizedAtTwoPositions) {
  const auto quantized_psnr = [](int position) {
    std::vector<double> r, a;
    const double scale = std::ldexp(1.0, -position);
    for (int i = 0; i <= 1000; ++i) {
      const auto x = static_cast<float>(-1.0 + 2.0 * i / 1000);
      r.push_back(x);
      a.push_back(std::clamp(std::nearbyint(x / scale), -127.0, 127.0) * scale);
    }
    return Compare(r, a).psnr_db;
  };
  EXPECT_NEAR(quantized_psnr(7), 52.788231, 1e-5);
  EXPECT_NEAR(quantized_psnr(6), 46.920031, 1e-5);
}

// Every figure against its definition, computed here in one go, while the metrics see the values in
// samples of odd sizes.
TEST(OutputMetricsTest, StreamingEqualsTheDefinitions) {
  constexpr int kCount = 10007;
  std::vector<float> r(kCount), a(kCount);
  for (int i = 0; i < kCount; ++i) {
    r[i] = static_cast<float>(std::sin(i * 0.37) * 5 + (i % 17) * 0.25);
    a[i] = static_cast<float>(r[i] + 0.01 * std::cos(i * 1.7) * (i % 101 == 0 ? 21 : 1));
  }
  OutputMetricsOptions options;
  options.expected_elements = kCount;
  OutputMetrics metrics(options);
  for (int begin = 0, size = 1; begin < kCount; begin += size, size = size * 3 + 1) {
    const int count = std::min(size, kCount - begin);
    metrics.AddSample(std::span<const float>(r).subspan(begin, count),
                      std::span<const float>(a).subspan(begin, count));
  }
  const OutputFigures f = metrics.Figures();

  long double se = 0, ae = 0, rr = 0, aa = 0, ra = 0, relative = 0;
  double max_abs = 0, peak = 0, max_relative = 0;
  int passed = 0;
  std::vector<double> errors;
  for (int i = 0; i < kCount; ++i) {
    const double x = r[i], y = a[i], error = std::abs(x - y);
    errors.push_back(error);
    se += static_cast<long double>(error) * error;
    ae += error;
    rr += static_cast<long double>(x) * x;
    aa += static_cast<long double>(y) * y;
    ra += static_cast<long double>(x) * y;
    max_abs = std::max(max_abs, error);
    peak = std::max(peak, std::abs(x));
    if (std::abs(x) > 1e-30) {
      relative += error / std::abs(x);
      max_relative = std::max(max_relative, error / std::abs(x));
    }
    passed += error <= 0.015 + 0.01 * std::abs(x);
  }
  const auto kurtosis = [](const std::vector<float>& values) {
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / kCount;
    double m2 = 0, m4 = 0;
    for (const float value : values) {
      const double c = value - mean;
      m2 += c * c;
      m4 += c * c * c * c;
    }
    return kCount * m4 / (m2 * m2);
  };
  std::sort(errors.begin(), errors.end());
  const double rank = 0.9999 * (kCount - 1);
  const int below = static_cast<int>(rank);
  const double percentile = errors[below] + (rank - below) * (errors[below + 1] - errors[below]);

  EXPECT_EQ(f.elements, kCount);
  EXPECT_EQ(f.samples, 9);  // 1 4 13 40 121 364 1093 3280 and the rest
  EXPECT_NEAR(f.mse, static_cast<double>(se / kCount), 1e-15);
  EXPECT_NEAR(f.mae, static_cast<double>(ae / kCount), 1e-14);
  EXPECT_EQ(f.max_abs, max_abs);
  EXPECT_EQ(f.peak_reference, peak);
  EXPECT_NEAR(f.psnr_db, 10 * std::log10(peak * peak / static_cast<double>(se / kCount)), 1e-9);
  EXPECT_NEAR(f.snr_db, 10 * std::log10(static_cast<double>(rr / se)), 1e-9);
  EXPECT_NEAR(f.cosine, static_cast<double>(ra / std::sqrt(rr * aa)), 1e-13);
  EXPECT_NEAR(f.max_relative, max_relative, 1e-12);
  EXPECT_NEAR(f.mean_relative * (kCount - (r[0] == 0)), static_cast<double>(relative), 1e-7);
  EXPECT_NEAR(f.pass_rate, 100.0 * passed / kCount, 1e-12);
  EXPECT_NEAR(f.percentile_max, percentile, 1e-15);
  EXPECT_NEAR(f.kurtosis_reference, kurtosis(r), 1e-10);
  EXPECT_NEAR(f.kurtosis_ratio, kurtosis(a) / kurtosis(r), 1e-10);
  EXPECT_LE(metrics.Scatter().size(), 512u);
}

TEST(OutputMetricsTest, NamesTheWorstElementAndSample) {
  OutputMetrics metrics({.expected_elements = 8});
  const std::vector<float> zero = {0, 0, 0, 0}, first = {0, 1, 0, 0}, second = {0, 0, -2, 0};
  metrics.AddSample(zero, first);
  metrics.AddSample(zero, second);
  EXPECT_EQ(metrics.Figures().worst_sample, 1);
  EXPECT_EQ(metrics.Figures().worst_element, 2);
}

TEST(OutputMetricsTest, SamplesHaveTheirOwnPsnr) {
  OutputMetrics metrics({.expected_elements = 6});
  const std::vector<float> ones = {1, 1}, good = {1, 1.01f}, bad = {1, 1.1f};
  metrics.AddSample(ones, ones);  // infinite: stays out
  metrics.AddSample(ones, good);
  metrics.AddSample(ones, bad);
  const auto psnr = [](double error) { return 10 * std::log10(1 / (error * error / 2)); };
  const OutputFigures f = metrics.Figures();
  EXPECT_NEAR(f.sample_psnr_min_db, psnr(1.1f - 1.0), 1e-9);
  EXPECT_EQ(f.sample_psnr_min_index, 2);
  EXPECT_NEAR(f.sample_psnr_mean_db, (psnr(1.1f - 1.0) + psnr(1.01f - 1.0)) / 2, 1e-9);
}

TEST(OutputMetricsTest, EqualNonFiniteValuesStayOutOfTheFigures) {
  const double nan = std::nan("");
  const OutputFigures f = Compare({1, nan, -kInf, 2}, {1, nan, -kInf, 2.5});
  EXPECT_EQ(f.pass_rate, 75);
  EXPECT_NEAR(f.mse, 0.125, 1e-15);
  EXPECT_EQ(f.nonfinite_reference, 2);
  EXPECT_EQ(f.nonfinite_candidate, 2);
}

TEST(OutputMetricsTest, ANonFiniteCandidateIsAnInfiniteError) {
  for (const double broken : {std::nan(""), kInf, -kInf}) {
    const OutputFigures f = Compare({1, 2, 3}, {1, broken, 3});
    EXPECT_EQ(f.mse, kInf);
    EXPECT_EQ(f.psnr_db, -kInf);
    EXPECT_EQ(f.snr_db, -kInf);
    EXPECT_EQ(f.worst_element, 1);
    EXPECT_NEAR(f.pass_rate, 200.0 / 3, 1e-12);
  }
}

TEST(OutputMetricsTest, KlOfHistogramsIsThatOfTheSharesOfTheBins) {
  // Two values at the ends of the range fall into the first and the last of the 2048 bins: shares
  // 1/2, 1/2 against 1/4, 3/4.
  const OutputFigures f = Compare({0, 0, 1, 1}, {0, 1, 1, 1});
  EXPECT_NEAR(f.kl, 0.5 * std::log(0.5 / 0.25) + 0.5 * std::log(0.5 / 0.75), 1e-6);
  EXPECT_NEAR(Compare({1, 2, 3}, {1, 2, 3}).kl, 0, 1e-12);
}

TEST(OutputMetricsTest, TheHistogramGrowsWithTheValues) {
  OutputMetrics metrics({.expected_elements = 6});
  const std::vector<float> zeros = {0, 0}, small_r = {0.5f, 0.25f}, large = {1000, -1000};
  metrics.AddSample(zeros, zeros);
  metrics.AddSample(small_r, small_r);
  metrics.AddSample(large, large);
  EXPECT_NEAR(metrics.Figures().kl, 0, 1e-12);
}

TEST(OutputMetricsTest, SaysWhereTheStepIsWiderThanTheTolerance) {
  OutputMetricsOptions options;
  options.quantization_step = 0.1;  // half a step is 0.05 = 0.015 + 0.01 * 3.5
  const OutputFigures f = Compare({1, 3, 4, 5}, {1, 3, 4, 5}, options);
  EXPECT_EQ(f.step_allows_pass_rate, 50);
}

}  // namespace
}  // namespace gq::accuracy
