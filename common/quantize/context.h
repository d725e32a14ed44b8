// What the passes of one quantization share.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/reporter.h"
#include "common/base/text.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"
#include "common/graph/model.h"
#include "common/quantize/config.h"
#include "common/quantize/placement.h"
#include "common/quantize/ranges.h"
#include "common/quantize/settings.h"
#include "common/quantize/targets.h"

namespace gq::quantize {

enum class TensorClass { kActivation, kWeight, kBias };

// A quantized tensor of the result under the name it has in the float model. Parameters as they
// were inserted; alignment changes the initializers, so read those for final values.
struct QuantizedTensor {
  std::string name;
  TensorClass tensor_class = TensorClass::kActivation;
  std::string scale_name;
  std::string zero_point_name;
  std::string
      data_name;  // integer initializer of a weight or bias; empty for pairs and activations
  int axis = -1;  // channel axis; -1 for one set of parameters
  std::vector<QuantParams> params;
  // Float values of a weight or bias, to quantize again when alignment moves the scale.
  graph::TensorView values;
  // Of an int32 bias: the initializers that its scale is the product of, and the operator's beta.
  std::string input_scale_name;
  std::string weight_scale_name;
  float beta = 1;
};

// One change of a position or scale by alignment.
struct AlignmentChange {
  std::string rule;
  std::string node;
  std::string scale;  // initializer
  int before = 0;
  int after = 0;
};

struct PassRecord {
  std::string name;
  std::string summary;  // what the pass does
  int changed = 0;
  std::vector<std::string> details;  // what it did here (graph_changes.h)
};

struct QuantizeContext {
  QuantizeContext(const graph::Model& source, const QuantizeConfig& config_in, Settings settings_in,
                  Targets targets_in, base::Reporter& reporter_in)
      : float_model(source),
        index(source.graph()),
        config(config_in),
        settings(std::move(settings_in)),
        targets(std::move(targets_in)),
        reporter(reporter_in),
        model(source),
        names(source.graph()),
        sources(index, settings, targets) {}

  const graph::Model& float_model;
  const graph::GraphIndex index;  // over float_model
  const QuantizeConfig& config;
  const Settings settings;
  const Targets targets;
  base::Reporter& reporter;

  graph::Model model;  // float_model at first, the result in the end
  graph::NameScope names;
  Placement placement;
  RangeSources sources;
  // Observed ranges by tensor and method, before replacement, and the true extremes.
  absl::flat_hash_map<std::string, ValueRange> observed;
  absl::flat_hash_map<std::string, ValueRange> extremes;

  std::vector<QuantizedTensor> tensors;                       // in order of insertion
  absl::flat_hash_map<std::string, size_t> tensor_positions;  // by name of the float tensor

  // Tensors under a new name -> name in the float model.
  absl::flat_hash_map<std::string, std::string> renamed;

  std::string config_digest;  // of the resolved configuration (resolved_config.h)
  std::vector<AlignmentChange> alignment;
  std::vector<PassRecord> passes;
  std::vector<std::string> warnings;

  // Name in the float model of a tensor that got another one.
  const std::string& OriginalName(const std::string& tensor) const {
    const auto it = renamed.find(tensor);
    return it == renamed.end() ? tensor : it->second;
  }

  const QuantizedTensor* FindTensor(std::string_view name) const {
    const auto it = tensor_positions.find(base::ToAbsl(name));
    return it == tensor_positions.end() ? nullptr : &tensors[it->second];
  }
  QuantizedTensor* MutableTensor(std::string_view name) {
    return const_cast<QuantizedTensor*>(FindTensor(name));
  }
  void AddTensor(QuantizedTensor tensor) {
    tensor_positions.emplace(tensor.name, tensors.size());
    tensors.push_back(std::move(tensor));
  }
  void Warn(std::string text) {
    reporter.Warn("Quantize", text);
    warnings.push_back(std::move(text));
  }
};

}  // namespace gq::quantize
