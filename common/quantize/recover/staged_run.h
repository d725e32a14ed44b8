// Runs a model piece by piece over a few samples, so that a layer can be changed before anything
// behind it is computed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/text.h"
#include "common/graph/graph_index.h"
#include "common/graph/model.h"
#include "common/runtime/data_set.h"
#include "common/runtime/tensor.h"

namespace gq::quantize {

// One input sample: a tensor for each model input, in the order of runtime::InputSpecs.
using Sample = std::vector<runtime::Tensor>;

// Every node runs at most once, when something first needs it. Initializers may change as long as
// the nodes that read them have not run; nodes must stay as they are. A tensor is held, for every
// sample, until its last reader has run. Not thread-safe.
class StagedRun {
 public:
  // `model` and `samples` must outlive this. Samples run side by side on `threads` threads.
  StagedRun(const graph::Model& model, const std::vector<runtime::InputSpec>& inputs,
            const std::vector<Sample>& samples, int threads = 1);

  // The tensor for every sample. It must not have been needed and given up before.
  // RUNTIME_FAILED, MODEL_UNSUPPORTED (values that are no tensors).
  absl::StatusOr<std::vector<runtime::Tensor>> Compute(const std::string& tensor);

 private:
  struct Value {
    std::vector<runtime::Tensor> samples;
    int pending = 0;  // nodes that still have to read it
  };

  std::vector<int> PendingAncestors(const std::string& tensor) const;
  absl::StatusOr<graph::Model> Piece(const std::vector<int>& nodes, const std::string& wanted,
                                     std::vector<std::string>* inputs,
                                     std::vector<std::string>* outputs) const;
  int PendingReaders(std::string_view tensor) const;
  void Release(const std::vector<int>& nodes);

  const graph::Model& model_;
  graph::GraphIndex index_;
  size_t num_samples_;
  int threads_;
  std::vector<bool> done_;  // by node
  absl::flat_hash_map<std::string, Value> values_;
};

// Most bytes that a run over one sample holds between its pieces, from the shapes in value_info.
int64_t PeakLiveBytes(const graph::Model& model);

}  // namespace gq::quantize
