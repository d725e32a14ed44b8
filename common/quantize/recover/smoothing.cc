#include "common/quantize/recover/smoothing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"
#include "common/quantize/min_mse.h"
#include "common/quantize/qdq_nodes.h"
#include "common/quantize/recover/float_nodes.h"
#include "common/quantize/recover/layer.h"
#include "common/quantize/recover/scaling.h"
#include "common/quantize/recover/staged_run.h"

namespace gq::quantize {
namespace {

using Eigen::Index;
using Eigen::RowVectorXf;
using graph::GraphIndex;

constexpr int64_t kRows = 192;  // positions of all samples together
constexpr double kStrengths[] = {0.25, 0.5, 0.75, 1};
constexpr double kWorthwhile = 0.9;  // of the error without

FloatRows ToInt8(const FloatRows& values) {
  const QuantParams params = MinMseParams({values.data(), static_cast<size_t>(values.size())},
                                          onnx::TensorProto::INT8, true);
  const float scale = params.scale;
  return (values / scale).unaryExpr([scale](float value) {
    return scale * std::clamp(std::nearbyint(value), -128.0f, 127.0f);
  });
}

RowVectorXf Largest(const FloatRows& rows) { return rows.cwiseAbs().colwise().maxCoeff(); }

// Where a factor can be put in front of a layer: the float tensor, and the node that reads it on
// the way to the layer.
struct Entry {
  std::string tensor;
  int reader = 0;
  int input = 0;
};

class Smoother {
 public:
  Smoother(const RecoveryData& data, RecoveryState& state)
      : data_(data),
        state_(state),
        source_(state.source),
        index_(source_.graph()),
        quantized_(state.result.model.graph()) {}

  absl::StatusOr<int> Run() {
    GQ_ASSIGN_OR_RETURN(const auto found, FindLayers(source_, state_.result.model));
    for (const Layer& layer : found) {
      if (layer.shape.kind != LayerKind::kDense || !layer.channel_scales.empty()) continue;
      if (EntryOf(layer) || ExitOf(layer)) layers_.push_back(layer);
    }
    StagedRun floats(source_, data_.inputs, data_.samples, data_.threads);
    for (const Layer& layer : layers_) {
      if (data_.reporter.Cancelled()) {
        return base::MakeError(base::Reason::kCancelled, "The quantization was cancelled");
      }
      GQ_ASSIGN_OR_RETURN(const auto inputs, floats.Compute(layer.float_input));
      Choose(layer, RowsOf(inputs, layer.shape.inputs));
    }
    for (const auto& [tensor, divide] : divides_) Divide(tensor, divide);
    for (const auto& [layer, multiply] : multiplies_) Multiply(*layer, multiply);
    const int changed = static_cast<int>(divides_.size() + multiplies_.size());
    if (changed == 0) return 0;
    GQ_RETURN_IF_ERROR(graph::SortTopologically(state_.source.mutable_graph()));
    graph::RemoveUnusedInitializers(state_.source.mutable_graph());
    state_.source.CompactStore();
    KeepFloat(added_, data_, state_);
    state_.table = {};
    state_.stale = true;
    state_.rewritten = true;
    return changed;
  }

 private:
  bool IsFloatInside(const std::string& tensor) const {
    const auto uses = quantized_.Uses(tensor);
    return !uses.empty() && std::none_of(uses.begin(), uses.end(), [&](const auto& use) {
      return IsQuantizeNode(quantized_.node(use.node));
    });
  }

  bool EndsWith(const std::string& tensor, int64_t size) const {
    const auto shape = index_.StaticShape(tensor);
    return shape && !shape->empty() && shape->back() == size;
  }

  // The first float tensor before the layer, through Reshapes that keep the last axis.
  std::optional<Entry> EntryOf(const Layer& layer) const {
    const onnx::NodeProto* node = index_.FindNode(layer.name);
    int input = 0;
    for (int step = 0; node != nullptr && step < 4; ++step) {
      const std::string& tensor = node->input(input);
      if (!EndsWith(tensor, layer.shape.inputs)) return std::nullopt;
      const onnx::NodeProto* producer = index_.Producer(tensor);
      if (producer == nullptr) return std::nullopt;
      if (!graph::IsOp(*producer, "Reshape")) {
        if (!IsFloatInside(tensor)) return std::nullopt;
        return Entry{tensor, index_.PositionOf(*node), input};
      }
      if (index_.OnlyConsumer(tensor) == nullptr) return std::nullopt;
      node = producer;
    }
    return std::nullopt;
  }

  // The float Add behind the layer, through Reshapes that keep the last axis.
  std::optional<Entry> ExitOf(const Layer& layer) const {
    const onnx::NodeProto* node = index_.FindNode(layer.name);
    for (int step = 0; node != nullptr && step < 4; ++step) {
      const std::string tensor = node->output(0);
      if (!EndsWith(tensor, layer.shape.outputs)) return std::nullopt;
      const onnx::NodeProto* reader = index_.OnlyConsumer(tensor);
      if (reader == nullptr) return std::nullopt;
      if (graph::IsOp(*reader, "Add") && IsFloatInside(reader->output(0))) {
        return Entry{tensor, index_.PositionOf(*reader), reader->input(0) == tensor ? 0 : 1};
      }
      if (!graph::IsOp(*reader, "Reshape")) return std::nullopt;
      node = reader;
    }
    return std::nullopt;
  }

  static FloatRows RowsOf(const std::vector<runtime::Tensor>& samples, int64_t inputs) {
    int64_t total = 0;
    for (const auto& sample : samples) total += sample.size() / inputs;
    const int64_t wanted = std::min(kRows, total);
    FloatRows rows(wanted, inputs);
    int64_t before = 0, row = 0;
    for (const auto& sample : samples) {
      const int64_t count = sample.size() / inputs;
      for (; row < wanted && row * total / wanted < before + count; ++row) {
        const int64_t place = row * total / wanted - before;
        std::copy_n(sample.As<float>().data() + place * inputs, inputs, rows.row(row).data());
      }
      before += count;
    }
    return rows;
  }

  DenseProblem ProblemOf(const Layer& layer) const {
    DenseProblem problem;
    problem.weight = ToMatrices(layer.shape, layer.float_weight)[0].cast<float>();
    problem.bias = RowVectorXf::Zero(layer.shape.outputs);
    const onnx::NodeProto* node = index_.FindNode(layer.name);
    const auto values = ConstantReader(source_, index_).Values(graph::InputName(*node, 2));
    for (size_t m = 0;
         m < values.size() && values.size() == static_cast<size_t>(problem.bias.size()); ++m) {
      problem.bias[static_cast<Index>(m)] = values[m];
    }
    return problem;
  }

  // Strength, by the errors of all layers that read the same tensor; then what lies behind.
  void Choose(const Layer& layer, const FloatRows& x) {
    RowVectorXf divide = RowVectorXf::Ones(layer.shape.inputs);
    if (const auto entry = EntryOf(layer)) {
      const auto chosen = divides_.find(entry->tensor);
      if (chosen != divides_.end()) {
        divide = chosen->second;
      } else if (seen_.insert(entry->tensor).second) {
        divide = ChooseDivide(entry->tensor, x);
        if ((divide.array() != 1).any()) divides_.emplace(entry->tensor, divide);
      }
    }
    if (!ExitOf(layer)) return;
    const DenseProblem problem = ProblemOf(layer);
    const RowVectorXf ones = RowVectorXf::Ones(layer.shape.outputs);
    const FloatRows y = (x * problem.weight.transpose()).rowwise() + problem.bias;
    double least = kWorthwhile * SmoothedError(x, problem, divide, ones);
    RowVectorXf best = ones;
    for (const double strength : kStrengths) {
      const RowVectorXf multiply =
          SmoothingFactors(Largest(y), RowVectorXf::Ones(layer.shape.outputs), strength);
      const double error = SmoothedError(x, problem, divide, multiply);
      if (error >= least) continue;
      least = error;
      best = multiply;
    }
    if ((best.array() != 1).any()) multiplies_.emplace_back(&layer, best);
  }

  RowVectorXf ChooseDivide(const std::string& tensor, const FloatRows& x) const {
    std::vector<DenseProblem> problems;
    RowVectorXf weights = RowVectorXf::Zero(x.cols());
    for (const Layer& layer : layers_) {
      const auto entry = EntryOf(layer);
      if (!entry || entry->tensor != tensor) continue;
      problems.push_back(ProblemOf(layer));
      weights = weights.cwiseMax(Largest(problems.back().weight));
    }
    const auto error_of = [&](const RowVectorXf& divide) {
      double error = 0;
      for (const auto& problem : problems) {
        error += SmoothedError(x, problem, divide, RowVectorXf::Ones(problem.weight.rows()));
      }
      return error;
    };
    RowVectorXf best = RowVectorXf::Ones(x.cols());
    double least = kWorthwhile * error_of(best);
    for (const double strength : kStrengths) {
      const RowVectorXf divide = SmoothingFactors(Largest(x), weights, strength);
      const double error = error_of(divide);
      if (error >= least) continue;
      least = error;
      best = divide;
    }
    return best;
  }

  // A float Mul of `tensor` by `factors`; returns the tensor it makes.
  std::string AddMul(const std::string& tensor, const RowVectorXf& factors) {
    onnx::GraphProto* graph = state_.source.mutable_graph();
    graph::NameScope names(*graph);
    const std::string constant = names.Unique(base::StrCat(tensor, "_smoothing"));
    const std::string output = names.Unique(base::StrCat(tensor, "_smooth"));
    const std::string node = names.UniqueNode(output);
    const std::vector<float> values(factors.data(), factors.data() + factors.size());
    state_.source.AddInitializer(
        constant, graph::TensorView::Of<float>({static_cast<int64_t>(values.size())}, values));
    *graph->add_node() = graph::MakeNode("Mul", node, {tensor, constant}, {output});
    const auto shape = index_.StaticShape(tensor);
    if (shape) graph::SetValueInfo(output, onnx::TensorProto::FLOAT, *shape, graph);
    added_.push_back(node);
    return output;
  }

  void Divide(const std::string& tensor, const RowVectorXf& divide) {
    const std::string smooth = AddMul(tensor, divide.cwiseInverse());
    for (const Layer& layer : layers_) {
      const auto entry = EntryOf(layer);
      if (!entry || entry->tensor != tensor) continue;
      state_.source.mutable_graph()->mutable_node(entry->reader)->set_input(entry->input, smooth);
      ScaleWeight(layer, divide, RowVectorXf::Ones(layer.shape.outputs));
    }
  }

  void Multiply(const Layer& layer, const RowVectorXf& multiply) {
    const Entry exit = *ExitOf(layer);
    const std::string smooth = AddMul(exit.tensor, multiply);
    state_.source.mutable_graph()->mutable_node(exit.reader)->set_input(exit.input, smooth);
    ScaleWeight(layer, RowVectorXf::Ones(layer.shape.inputs), multiply.cwiseInverse());
  }

  // Weights by input and output, the bias by output. Positions of nodes are those of index_: nodes
  // are only appended.
  void ScaleWeight(const Layer& layer, const RowVectorXf& inputs, const RowVectorXf& outputs) {
    const int position = index_.PositionOf(*index_.FindNode(layer.name));
    const GraphIndex now(state_.source.graph());
    const ConstantReader constants(state_.source, now);
    std::vector<RowMatrix> weight =
        ToMatrices(layer.shape, constants.Values(now.node(position).input(1)));
    weight[0] = weight[0] * inputs.cast<double>().asDiagonal();
    weight[0] = outputs.cast<double>().asDiagonal() * weight[0];
    std::vector<float> bias = constants.Values(graph::InputName(now.node(position), 2));
    ReplaceConstant(position, 1, ToFloats(layer.shape, weight), &state_.source);
    if (bias.size() != static_cast<size_t>(outputs.size())) return;
    for (size_t m = 0; m < bias.size(); ++m) bias[m] *= outputs[static_cast<Index>(m)];
    ReplaceConstant(position, 2, bias, &state_.source);
  }

  const RecoveryData& data_;
  RecoveryState& state_;
  const graph::Model source_;  // as it was
  const GraphIndex index_;
  const GraphIndex quantized_;
  std::vector<Layer> layers_;
  std::set<std::string> seen_;
  std::map<std::string, RowVectorXf> divides_;  // by float tensor
  std::vector<std::pair<const Layer*, RowVectorXf>> multiplies_;
  std::vector<std::string> added_;
};

}  // namespace

double SmoothedError(const FloatRows& x, const DenseProblem& layer, const RowVectorXf& divide,
                     const RowVectorXf& multiply) {
  const RowVectorXf reciprocal = divide.cwiseInverse(), shrink = multiply.cwiseInverse();
  const FloatRows inputs = ToInt8(x * reciprocal.asDiagonal());
  const FloatRows weight = ToInt8(shrink.asDiagonal() * layer.weight * divide.asDiagonal());
  const RowVectorXf bias = layer.bias.cwiseProduct(shrink);
  const FloatRows outputs = ToInt8((inputs * weight.transpose()).rowwise() + bias);
  const FloatRows wanted = (x * layer.weight.transpose()).rowwise() + layer.bias;
  const double power = static_cast<double>(wanted.squaredNorm());
  const double error =
      static_cast<double>((outputs * multiply.asDiagonal() - wanted).squaredNorm());
  return power > 0 ? error / power : 0;
}

RowVectorXf SmoothingFactors(const RowVectorXf& largest, const RowVectorXf& weights,
                             double strength) {
  const auto logarithms = [](const RowVectorXf& values) {
    float smallest = 0;
    for (const float value : values) {
      if (value > 0 && (smallest == 0 || value < smallest)) smallest = value;
    }
    if (smallest == 0) smallest = 1;
    return Eigen::RowVectorXd(values.cast<double>().unaryExpr([smallest](double value) {
      return std::log2(std::max(value, static_cast<double>(smallest)));
    }));
  };
  Eigen::RowVectorXd exponents =
      strength * logarithms(largest) - (1 - strength) * logarithms(weights);
  exponents.array() -= exponents.mean();
  return exponents.unaryExpr([](double value) { return std::exp2(std::nearbyint(value)); })
      .cast<float>();
}

absl::StatusOr<int> SmoothChannels::Run(const RecoveryData& data, RecoveryState& state) const {
  if (state.config.activation.scale_type != ScaleType::kPowerOfTwo) return 0;
  return Smoother(data, state).Run();
}

}  // namespace gq::quantize
