// Channels that share a scale made alike by factors that the layers around them take up.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/graph/graph_index.h"
#include "common/quantize/recover/recovery_pass.h"
#include "common/quantize/recover/scaling.h"

namespace gq::quantize {

// Channels of activations (axis 1 of tensors with places behind it) that can only be scaled
// together, because operators between them pass a factor on: activations like Relu, pools, sums,
// joins. Convolutions part them: they take up any factor of each input and each output channel.
class ChannelClasses {
 public:
  ChannelClasses(const graph::GraphIndex& index, const ConstantReader& constants);

  // Number of channels of a tensor; 0 for one that is not looked at.
  int64_t Channels(const std::string& tensor) const;
  // One number for all channels of a class; -1 where a channel must stay as it is.
  int64_t Class(const std::string& tensor, int64_t channel) const;
  // All tensors that are looked at, in graph order.
  const std::vector<std::string>& tensors() const { return tensors_; }

 private:
  void AddTensor(const std::string& tensor);
  int64_t Find(int64_t element) const;
  void Join(const std::string& a, int64_t offset, const std::string& b);
  void Freeze(const std::string& tensor);
  void FreezeAround(const onnx::NodeProto& node);
  void Visit(const onnx::NodeProto& node);
  void VisitConcat(const onnx::NodeProto& node);
  void VisitProduct(const onnx::NodeProto& node);

  const graph::GraphIndex& index_;
  const ConstantReader& constants_;
  std::vector<std::string> tensors_;
  absl::flat_hash_map<std::string, std::pair<int64_t, int64_t>> places_;  // first element, channels
  std::vector<int64_t> parents_;                                          // by element
  std::vector<bool> frozen_;                                              // by element
};

// Cross-layer equalization (Nagel et al., 2019) with powers of two, which keep what the float model
// computes bit for bit: channels grow towards the largest channel of their tensors, as far as the
// weights before them stay within what their layer's largest weight needs anyway; channels that are
// joined with others that must stay shrink towards those. Variants differ in how far they go.
class EqualizeChannels : public RecoveryPass {
 public:
  std::string_view name() const override { return "equalize"; }
  absl::StatusOr<int> Run(const RecoveryData& data, RecoveryState& state) const override;
  bool JudgedBehindRounding() const override { return true; }
  int variants() const override { return 2; }
};

}  // namespace gq::quantize
