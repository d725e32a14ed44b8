#include "common/quantize/first_samples.h"

#include <algorithm>

#include "common/base/text.h"

namespace gq::quantize {

FirstSamples::FirstSamples(runtime::DataSet& data, int64_t count)
    : DataSet(data.inputs(), {.allow_nonfinite = true}), data_(data) {
  size_ = std::min(count, data.size());
  random_ = data.random();
}

absl::Status FirstSamples::Fetch(int64_t index, std::vector<runtime::Tensor>* sample) {
  return data_.Read(index, sample).status();
}

std::string FirstSamples::Locate(int64_t index, size_t input) const {
  return base::StrCat("sample ", index, ", input '", inputs()[input].name, "'");
}

}  // namespace gq::quantize
