#include "common/quantize/residual_stream.h"

#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/calibrate/calibrate.h"
#include "common/graph/analysis.h"
#include "common/graph/graph_index.h"
#include "common/quantize/first_samples.h"

namespace gq::quantize {
namespace {

constexpr int64_t kSamples = 8;

double LargestMagnitude(const calibrate::TensorCalibration& seen) {
  return std::max(std::fabs(static_cast<double>(seen.min)),
                  std::fabs(static_cast<double>(seen.max)));
}

}  // namespace

absl::StatusOr<ResidualStream> MeasureResidualStream(const graph::Model& float_model,
                                                     runtime::DataSet& data, bool allow_nonfinite,
                                                     base::Reporter& reporter) {
  ResidualStream stream;
  stream.adds = graph::ResidualAdds(float_model.graph());
  if (stream.adds.empty()) return stream;
  FirstSamples first(data, std::min(kSamples, data.size()));
  calibrate::CalibrateOptions options;
  options.allow_nonfinite = allow_nonfinite;
  const calibrate::MethodSpec method = calibrate::MethodSpec::Default(calibrate::Method::kMinMax);
  const auto tensors = calibrate::ObservableTensors(float_model);
  GQ_ASSIGN_OR_RETURN(
      const calibrate::CalibrationTable table,
      calibrate::Calibrate(float_model, tensors, std::span(&method, 1), first, options, reporter));
  stream.samples = table.samples;
  std::vector<double> magnitudes;
  for (const auto& [name, seen] : table.tensors) magnitudes.push_back(LargestMagnitude(seen));
  if (magnitudes.empty()) return stream;
  const auto middle = magnitudes.begin() + static_cast<std::ptrdiff_t>(magnitudes.size() / 2);
  std::nth_element(magnitudes.begin(), middle, magnitudes.end());
  stream.median = *middle;
  const graph::GraphIndex index(float_model.graph());
  for (const std::string& name : stream.adds) {
    const std::string& tensor = index.FindNode(name)->output(0);
    const auto* seen = table.Find(tensor);
    if (seen == nullptr || LargestMagnitude(*seen) <= stream.peak) continue;
    stream.peak = LargestMagnitude(*seen);
    stream.peak_tensor = tensor;
  }
  return stream;
}

}  // namespace gq::quantize
