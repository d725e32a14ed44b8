// The first samples of a data set as one of their own (extra_options.CalibDataSize).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/runtime/data_set.h"

namespace gq::quantize {

// `data` must outlive this. NaN and infinity are left to its own rules.
class FirstSamples : public runtime::DataSet {
 public:
  FirstSamples(runtime::DataSet& data, int64_t count);

 protected:
  absl::Status Fetch(int64_t index, std::vector<runtime::Tensor>* sample) override;
  std::string Locate(int64_t index, size_t input) const override;

 private:
  runtime::DataSet& data_;
};

}  // namespace gq::quantize
