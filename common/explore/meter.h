// What a set of promoted regions costs or gains, measured on a few samples.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/explore/regions.h"
#include "common/explore/switch_model.h"
#include "common/graph/model.h"
#include "common/runtime/data_set.h"

namespace gq::explore {

struct MeterOptions {
  int32_t precision = 0;
  int threads = 1;
  // Noise against the signal's power (SNR) instead of its peak (PSNR).
  bool snr = false;
  std::set<std::string> in_float;  // nodes that `quantized` has in float already
};

// Not thread-safe.
class Meter {
 public:
  // Holds the samples `samples` of `data` and what the float model makes of them. Where an output
  // is a Softmax with few rows, what the Softmax reads is compared: a saturated Softmax hides
  // differences. Errors of Session and DataSet.
  // `quantized` was made of `source`, which computes what the float model does.
  static absl::StatusOr<std::unique_ptr<Meter>> Create(
      const graph::Model& float_model, const graph::Model& source, const graph::Model& quantized,
      const std::vector<Region>& regions, runtime::DataSet& data,
      const std::vector<int64_t>& samples, const MeterOptions& options);

  // Signal to noise in dB, worst and mean over the outputs in equal parts, with these regions
  // promoted, over the first `samples` samples (0: all). Larger is better; more than `enough_db` of
  // an output counts for nothing.
  absl::StatusOr<double> Score(const std::vector<bool>& promoted, int64_t samples = 0,
                               double enough_db = 80);

  const SwitchModel& model() const { return *model_; }
  int64_t samples() const { return static_cast<int64_t>(samples_.size()); }
  int64_t runs() const { return runs_; }

 private:
  Meter() = default;

  std::unique_ptr<SwitchModel> model_;
  std::vector<std::vector<runtime::Tensor>> samples_;
  std::vector<std::vector<runtime::Tensor>> references_;
  std::vector<size_t> places_;  // outputs that are compared
  bool snr_ = false;
  int64_t runs_ = 0;
  std::vector<runtime::Tensor> outputs_;
};

}  // namespace gq::explore
