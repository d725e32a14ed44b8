// A quantized model whose regions can be moved to higher precision between runs, without a new
// session: what a search measures with. Final figures come from emitted files, not from here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/calibrate/switched_rounding.h"
#include "common/explore/regions.h"
#include "common/graph/model.h"
#include "common/runtime/tensor.h"

namespace gq::explore {

// Every Q/DQ pair of the quantized model becomes a rounding that can be switched, every constant
// behind a DequantizeLinear one that can be exchanged for its float values. As in an emitted file
// with promoted layers (quantize/qdq_insertion.h), what a quantized node makes is rounded to
// integers for all its readers, what a promoted one makes for those that are quantized, and a graph
// input unless all its readers are promoted. Constants go with their readers. Not thread-safe.
class SwitchModel {
 public:
  // `quantized` has the node names of `float_model`. `precision` (BFLOAT16, FLOAT16 or FLOAT) is
  // what promoted regions are rounded to. Regions may share nodes; a node is promoted with any of
  // them. `in_float` names nodes that the quantized model has in float already. Errors of
  // Session::Create.
  static absl::StatusOr<std::unique_ptr<SwitchModel>> Create(const graph::Model& float_model,
                                                             const graph::Model& quantized,
                                                             const std::vector<Region>& regions,
                                                             const std::set<std::string>& in_float,
                                                             int32_t precision, int threads);

  // True for a region that has something to promote.
  bool CanPromote(size_t region) const { return switchable_[region]; }
  // Nodes of the region that read or make a quantized tensor, and its layer.
  const std::vector<std::string>& QuantizedNodes(size_t region) const { return nodes_[region]; }

  // Which regions are promoted in the runs that follow.
  void Promote(const std::vector<bool>& regions);

  // `sample` holds the model's inputs. The outputs are those of the quantized model, in its order.
  absl::Status Run(const std::vector<runtime::Tensor>& sample,
                   std::vector<runtime::Tensor>* outputs);

 private:
  friend class SwitchModelBuilder;
  // The regions that promote a node; none for one that stays as it is.
  struct Owners {
    std::vector<size_t> regions;
    bool in_float = false;
    bool operator==(const Owners&) const = default;
  };
  struct Rounded {
    std::string tensor;
    std::optional<Owners> producer;  // nothing: a graph input
    Owners reader;                   // of this copy of the tensor; its producer for a graph output
    std::vector<Owners> readers;     // of all copies, for a graph input
    calibrate::Rounding rounding;
  };
  struct Exchanged {
    size_t input = 0;  // position among the session's inputs
    std::vector<Owners> readers;
    runtime::Tensor quantized;
    runtime::Tensor promoted;
  };

  SwitchModel() = default;
  static bool Promoted(const Owners& node, const std::vector<bool>& regions);
  static bool All(const std::vector<Owners>& nodes, const std::vector<bool>& regions);
  static bool Promoted(const Rounded& point, const std::vector<bool>& regions);

  calibrate::Rounding promoted_;
  std::vector<Rounded> roundings_;
  std::vector<Exchanged> constants_;
  std::vector<bool> switchable_;
  std::vector<std::vector<std::string>> nodes_;
  std::unique_ptr<calibrate::SwitchedModel> model_;
  size_t data_inputs_ = 0;
  std::vector<runtime::Tensor> inputs_;  // samples and constants of the next run
};

}  // namespace gq::explore
