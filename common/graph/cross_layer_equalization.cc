// Cross-layer equalization (Nagel et al., 2019) with the factors and in the order of Quark 0.13:
// one round over pairs of layers, and over threes with a depthwise convolution in the middle.
#include <algorithm>
#include <cmath>
#include <map>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/conv_scaling.h"
#include "common/graph/passes.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::StrCat;

constexpr float kSmallWeights = 0.5f;  // pairs whose largest weights sum up to less stay
constexpr float kTiny = 1e-7f;

bool IsLayer(const onnx::NodeProto& node) { return IsOp(node, "Conv") || IsOp(node, "Gemm"); }

// Quark knows the group of a convolution only where the attribute is written out; 0 otherwise.
int64_t WrittenGroup(const onnx::NodeProto& node) { return AttributeInt(node, "group", 0); }

// Weights of a layer as rows, one for each output or each input channel.
class Layer {
 public:
  // nullopt when the weights are not constant float32 that belong to this node alone.
  static std::optional<Layer> Read(const onnx::NodeProto& node, const Model& model,
                                   const GraphIndex& index) {
    Layer layer;
    layer.node_ = &node;
    const auto values = [&](int input) -> std::optional<TensorView> {
      const std::string_view name = InputName(node, input);
      const auto* initializer = name.empty() ? nullptr : index.Initializer(name);
      if (initializer == nullptr || index.OnlyConsumer(name) == nullptr) return std::nullopt;
      auto view = model.Data(*initializer);
      if (!view.ok() || view->dtype() != onnx::TensorProto::FLOAT) return std::nullopt;
      return *std::move(view);
    };
    const auto weight = values(1);
    if (!weight || weight->dims().size() < 2) return std::nullopt;
    layer.dims_ = weight->dims();
    const auto data = weight->As<float>();
    layer.weight_.assign(data.begin(), data.end());
    if (!InputName(node, 2).empty()) {
      const auto bias = values(2);
      if (!bias || bias->dims().size() != 1) return std::nullopt;
      const auto numbers = bias->As<float>();
      layer.bias_.assign(numbers.begin(), numbers.end());
    }
    layer.transposed_ = IsOp(node, "Gemm") && AttributeInt(node, "transB", 0) == 0;
    layer.depthwise_ = IsOp(node, "Conv") && WrittenGroup(node) > 1 && layer.dims_[1] == 1 &&
                       WrittenGroup(node) == layer.dims_[0];
    return layer;
  }

  int64_t outputs() const { return dims_[transposed_ ? 1 : 0]; }
  int64_t inputs() const { return depthwise_ ? dims_[0] : dims_[transposed_ ? 0 : 1]; }
  bool depthwise() const { return depthwise_; }
  const std::vector<float>& bias() const { return bias_; }

  std::vector<std::vector<float>> ByOutput() const { return Rows(true); }
  std::vector<std::vector<float>> ByInput() const { return Rows(false); }

  void ScaleOutputs(const std::vector<float>& factors) {
    for (size_t i = 0; i < weight_.size(); ++i) weight_[i] *= factors[Channel(i, true)];
    for (size_t c = 0; c < bias_.size(); ++c) bias_[c] *= factors[c];
  }
  void ScaleInputs(const std::vector<float>& factors) {
    for (size_t i = 0; i < weight_.size(); ++i) weight_[i] *= factors[Channel(i, false)];
  }

  void Write(Model* model) const {
    const auto store = [&](int input, std::vector<int64_t> dims, const std::vector<float>& values) {
      for (auto& initializer : *model->mutable_graph()->mutable_initializer()) {
        if (initializer.name() == node_->input(input)) {
          model->SetData(FloatTensor(std::move(dims), values), &initializer);
          return;
        }
      }
    };
    store(1, dims_, weight_);
    if (!bias_.empty()) store(2, {static_cast<int64_t>(bias_.size())}, bias_);
  }

 private:
  size_t Channel(size_t element, bool of_output) const {
    int64_t behind = 1;  // elements of one input channel of one output channel
    for (size_t i = 2; i < dims_.size(); ++i) behind *= dims_[i];
    const auto first = static_cast<size_t>(static_cast<int64_t>(element) / (dims_[1] * behind));
    const auto second = static_cast<size_t>(static_cast<int64_t>(element) / behind % dims_[1]);
    if (of_output || depthwise_) return transposed_ && !depthwise_ ? second : first;
    return transposed_ ? first : second;
  }

  std::vector<std::vector<float>> Rows(bool of_output) const {
    std::vector<std::vector<float>> rows(of_output ? outputs() : inputs());
    for (size_t i = 0; i < weight_.size(); ++i) {
      rows[Channel(i, of_output)].push_back(weight_[i]);
    }
    return rows;
  }

  const onnx::NodeProto* node_ = nullptr;
  std::vector<int64_t> dims_;
  std::vector<float> weight_, bias_;
  bool transposed_ = false, depthwise_ = false;
};

float Largest(const std::vector<float>& values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// How much smaller than its neighbours a bias counts, from how it compares with the weights.
float BiasShare(const std::vector<float>& bias, const std::vector<std::vector<float>>& rows) {
  std::vector<float> factors;
  float largest_weight = 0;
  double sum = 0;
  for (size_t c = 0; c < rows.size(); ++c) {
    float least = 0;  // smallest magnitude that is not 0
    for (const float weight : rows[c]) {
      if (weight != 0 && (least == 0 || std::abs(weight) < least)) least = std::abs(weight);
    }
    const float own = least == 0 ? 0 : std::abs(bias[c]);
    for (const float weight : rows[c]) {
      float magnitude = least == 0 ? kTiny : weight == 0 ? least : std::abs(weight);
      magnitude = std::max(magnitude, kTiny);
      largest_weight = std::max(largest_weight, magnitude);
      factors.push_back(own / magnitude);
      sum += static_cast<double>(factors.back());
    }
  }
  const double mean = sum / static_cast<double>(factors.size());
  std::sort(factors.begin(), factors.end());
  const size_t half = factors.size() / 2;
  const float median =
      factors.size() % 2 == 1 ? factors[half] : (factors[half - 1] + factors[half]) / 2;
  const float largest = Largest(bias);
  if (largest < 10 && largest / largest_weight < 20) {
    return median > 100 || mean > 1000 ? 5 : 2;
  }
  if (median > 30 || mean > 500) return 20;
  return median > 15 || mean > 100 ? 10 : 5;
}

// Largest magnitudes of a head's output channels, its bias counted with them.
std::vector<float> Ranges(const Layer& head) {
  const auto rows = head.ByOutput();
  std::vector<float> ranges;
  for (const auto& row : rows) ranges.push_back(Largest(row));
  if (head.bias().empty()) return ranges;
  const float share = BiasShare(head.bias(), rows);
  for (size_t c = 0; c < ranges.size(); ++c) {
    // A channel without weights has no bias here.
    if (ranges[c] != 0) ranges[c] = std::max(ranges[c], std::abs(head.bias()[c]) / share);
  }
  return ranges;
}

std::vector<float> Reciprocals(std::vector<float> factors) {
  for (float& factor : factors) factor = 1 / factor;
  return factors;
}

// Layers that are made alike together, the first one first.
using Group = std::vector<const onnx::NodeProto*>;

class Equalization {
 public:
  Equalization(Model* model, PassReport* report)
      : model_(model), index_(model->graph()), report_(report) {}

  absl::Status Run() {
    for (const Group& group : Ordered(Groups())) {
      const bool done = group.size() == 2 ? Pair(*group[0], *group[1]) : Three(group);
      if (!done) continue;
      ++report_->changed;
      if (report_->details.size() < kMaxPassDetails) {
        report_->details.push_back(StrCat("channels between ", Describe(*group.front()), " and ",
                                          Describe(*group.back()), " were made alike"));
      }
    }
    return absl::OkStatus();
  }

 private:
  // The layer behind `node`, with nothing between but what passes a factor on.
  const onnx::NodeProto* Follow(const onnx::NodeProto& node, bool relu_only) const {
    const onnx::NodeProto* next = index_.OnlyConsumer(OutputName(node, 0));
    while (next != nullptr && (IsOp(*next, "Relu") ||
                               (!relu_only && (IsOp(*next, "ReduceMean") || IsOp(*next, "Pad") ||
                                               IsOp(*next, "LeakyRelu"))))) {
      next = index_.OnlyConsumer(OutputName(*next, 0));
    }
    return next;
  }

  // Convolutions with one group, or one for each channel.
  bool Supports(const onnx::NodeProto& node) const {
    if (IsOp(node, "Gemm") || WrittenGroup(node) == 1) return true;
    const auto shape = index_.StaticShape(InputName(node, 1));
    return shape && shape->size() > 1 && (*shape)[1] == 1 && (*shape)[0] == WrittenGroup(node);
  }

  std::vector<Group> Groups() const {
    std::vector<Group> groups;
    for (const auto& node : index_.graph().node()) {
      if (!IsLayer(node)) continue;
      const onnx::NodeProto* next = Follow(node, false);
      if (next == nullptr || !IsLayer(*next)) continue;
      // Whether the first one is supported is asked only when its turn comes.
      const bool unsaid = IsOp(*next, "Conv") && WrittenGroup(*next) == 0;
      if (unsaid || Supports(*next)) groups.push_back({&node, next});
    }
    for (const auto& node : index_.graph().node()) {
      if (!IsOp(node, "Conv") || WrittenGroup(node) != 1) continue;
      const onnx::NodeProto* middle = Follow(node, true);
      if (middle == nullptr || !IsOp(*middle, "Conv") || WrittenGroup(*middle) <= 1) continue;
      const onnx::NodeProto* last = Follow(*middle, true);
      if (last == nullptr || !IsOp(*last, "Conv") || WrittenGroup(*last) != 1) continue;
      groups.push_back({&node, middle, last});
    }
    return groups;
  }

  // Quark's order: the first group of the graph comes at the front and, until a smaller one is put
  // behind it, once more at the end.
  std::vector<Group> Ordered(const std::vector<Group>& groups) const {
    std::vector<Group> ordered;
    for (const auto& node : index_.graph().node()) {
      for (const Group& group : groups) {
        if (group[0] != &node) continue;
        if (ordered.empty()) ordered.push_back(group);
        ordered.insert(ordered.back().size() > group.size() ? ordered.end() : ordered.end() - 1,
                       group);
      }
    }
    return ordered;
  }

  bool Pair(const onnx::NodeProto& first, const onnx::NodeProto& second) {
    if (!Supports(first) || !Supports(second)) return false;
    auto head = Layer::Read(first, *model_, index_);
    auto tail = Layer::Read(second, *model_, index_);
    if (!head || !tail || head->outputs() != tail->inputs()) return false;
    const std::vector<float> before = Ranges(*head);
    std::vector<float> factors;
    const auto behind = tail->ByInput();
    for (size_t c = 0; c < before.size(); ++c) {
      const float range = Largest(behind[c]);
      const float root = std::sqrt(before[c] * range);
      factors.push_back(root == 0 || before[c] + range < kSmallWeights ? 1 : range / root);
    }
    head->ScaleOutputs(factors);
    tail->ScaleInputs(Reciprocals(factors));
    head->Write(model_);
    tail->Write(model_);
    return true;
  }

  bool Three(const Group& group) {
    std::vector<Layer> layers;
    for (const auto* node : group) {
      auto layer = Layer::Read(*node, *model_, index_);
      if (!layer) return false;
      layers.push_back(*std::move(layer));
    }
    Layer& first = layers[0];
    Layer& middle = layers[1];
    Layer& last = layers[2];
    if (!middle.depthwise() || first.outputs() != middle.outputs() ||
        middle.outputs() != last.inputs()) {
      return false;
    }
    const auto rows = first.ByOutput();
    const auto between = middle.ByOutput();
    const auto behind = last.ByInput();
    std::vector<float> up, down;
    for (size_t c = 0; c < rows.size(); ++c) {
      const float a = Largest(rows[c]), b = Largest(between[c]), d = Largest(behind[c]);
      const float root = std::cbrt(a * b * d);
      const auto sound = [](float factor) {
        return std::isfinite(factor) && factor != 0 ? factor : 1.0f;
      };
      up.push_back(sound(a / root));
      down.push_back(sound(root / d));
    }
    first.ScaleOutputs(Reciprocals(up));
    middle.ScaleInputs(up);
    middle.ScaleOutputs(Reciprocals(down));
    last.ScaleInputs(down);
    for (const Layer& layer : layers) layer.Write(model_);
    return true;
  }

  Model* model_;
  const GraphIndex index_;
  PassReport* report_;
};

class CrossLayerEqualizationPass : public Pass {
 public:
  std::string_view name() const override { return "cross-layer-equalization"; }
  std::string_view summary() const override {
    return "moves factors between layers with nothing but Relu, LeakyRelu, Pad and ReduceMean "
           "between them, so that the largest weights around each channel are alike";
  }

  absl::Status Run(Model* model, PassReport* report,
                   std::map<std::string, std::string>*) const override {
    GQ_RETURN_IF_ERROR(Equalization(model, report).Run());
    model->CompactStore();
    return absl::OkStatus();
  }
};

}  // namespace

const Pass& CrossLayerEqualization() {
  static const CrossLayerEqualizationPass pass;
  return pass;
}

}  // namespace gq::graph
