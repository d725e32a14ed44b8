#include "common/quantize/recover/held_out.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/status.h"
#include "common/runtime/session.h"

namespace gq::quantize {
namespace {

constexpr double kLowest = -20, kHighest = 80;

runtime::SessionOptions Options() {
  runtime::SessionOptions options;
  options.optimization = runtime::OptimizationLevel::kBasic;
  options.spinning = false;
  return options;
}

}  // namespace

absl::StatusOr<HeldOut> HeldOut::Create(const graph::Model& float_model,
                                        std::vector<Sample> samples) {
  HeldOut held_out;
  GQ_ASSIGN_OR_RETURN(const auto session, runtime::Session::Create(float_model, Options()));
  for (const Sample& sample : samples) {
    GQ_RETURN_IF_ERROR(session.Run(sample, &held_out.references_.emplace_back()));
  }
  held_out.samples_ = std::move(samples);
  return held_out;
}

absl::StatusOr<std::vector<double>> HeldOut::Measure(const graph::Model& candidate) const {
  GQ_ASSIGN_OR_RETURN(const auto session, runtime::Session::Create(candidate, Options()));
  const size_t count = session.outputs().size();
  std::vector<double> signal(count, 0), noise(count, 0);
  std::vector<bool> is_float(count, true);
  std::vector<runtime::Tensor> outputs;
  for (size_t i = 0; i < samples_.size(); ++i) {
    GQ_RETURN_IF_ERROR(session.Run(samples_[i], &outputs));
    for (size_t output = 0; output < count; ++output) {
      const runtime::Tensor& reference = references_[i][output];
      if (reference.dtype() != onnx::TensorProto::FLOAT ||
          outputs[output].dtype() != reference.dtype() ||
          outputs[output].size() != reference.size()) {
        is_float[output] = false;
        continue;
      }
      const auto r = reference.As<float>(), a = outputs[output].As<float>();
      for (size_t k = 0; k < r.size(); ++k) {
        const double error = static_cast<double>(r[k]) - static_cast<double>(a[k]);
        signal[output] += static_cast<double>(r[k]) * static_cast<double>(r[k]);
        noise[output] += error * error;
      }
    }
  }
  std::vector<double> decibels;
  for (size_t output = 0; output < count; ++output) {
    if (!is_float[output] || signal[output] == 0) continue;
    const double ratio = 10 * std::log10(signal[output] / std::max(noise[output], 1e-300));
    decibels.push_back(std::isnan(ratio) ? kLowest : std::clamp(ratio, kLowest, kHighest));
  }
  return decibels;
}

double Mean(const std::vector<double>& decibels) {
  if (decibels.empty()) return 0;
  return std::accumulate(decibels.begin(), decibels.end(), 0.0) /
         static_cast<double>(decibels.size());
}

}  // namespace gq::quantize
