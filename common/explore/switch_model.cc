#include "common/explore/switch_model.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/explore/rounded_form.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"
#include "common/quantize/qdq_nodes.h"

namespace gq::explore {
namespace {

using calibrate::Rounding;
using graph::GraphIndex;

constexpr std::string_view kQuantizedSuffix = "_quantized";

Rounding PrecisionRounding(int32_t precision) {
  Rounding rounding;
  if (precision == onnx::TensorProto::FLOAT16) rounding.kind = Rounding::Kind::kFloat16;
  if (precision == onnx::TensorProto::BFLOAT16) rounding.kind = Rounding::Kind::kBfloat16;
  return rounding;
}

}  // namespace

class SwitchModelBuilder {
 public:
  SwitchModelBuilder(const graph::Model& float_model, const graph::Model& quantized,
                     const std::vector<Region>& regions, const std::set<std::string>& in_float,
                     int32_t precision)
      : float_model_(float_model),
        float_index_(float_model.graph()),
        quantized_(quantized),
        index_(quantized.graph()),
        in_float_(in_float),
        result_(quantized),
        names_(quantized.graph()),
        made_(new SwitchModel()) {
    made_->promoted_ = PrecisionRounding(precision);
    made_->switchable_.assign(regions.size(), false);
    made_->nodes_.resize(regions.size());
    for (size_t i = 0; i < regions.size(); ++i) {
      for (const std::string& node : regions[i].nodes) regions_of_[node].push_back(i);
    }
    for (const auto& input : quantized.graph().input()) {
      if (!index_.IsInitializer(input.name())) ++made_->data_inputs_;
    }
  }

  absl::StatusOr<std::unique_ptr<SwitchModel>> Build(const std::vector<Region>& regions,
                                                     int threads) && {
    std::vector<onnx::NodeProto> nodes;
    for (const onnx::NodeProto& node : quantized_.graph().node()) {
      onnx::NodeProto replaced = node;
      if (quantize::IsDequantizeNode(node)) {
        GQ_ASSIGN_OR_RETURN(const bool gone, Replace(node, &replaced));
        if (gone) continue;
        for (onnx::NodeProto& copy : copies_) nodes.push_back(std::move(copy));
        copies_.clear();
      }
      nodes.push_back(std::move(replaced));
    }
    onnx::GraphProto* graph = result_.mutable_graph();
    graph->clear_node();
    for (onnx::NodeProto& node : nodes) *graph->add_node() = std::move(node);
    ReadCopies(graph);
    graph::RemoveDeadNodes(graph);
    graph::RemoveUnusedInitializers(graph);
    RemoveInputsFromValueInfo(graph);
    result_.CompactStore();
    CollectNodes(regions);

    std::vector<std::string> tensors;
    for (const auto& rounding : made_->roundings_) tensors.push_back(rounding.tensor);
    runtime::SessionOptions options;
    options.optimization = runtime::OptimizationLevel::kExtended;
    options.threads = std::max(1, threads);
    options.spinning = false;
    GQ_ASSIGN_OR_RETURN(made_->model_, calibrate::SwitchedModel::Create(result_, tensors, options));
    made_->inputs_.resize(made_->data_inputs_ + made_->constants_.size());
    made_->Promote(std::vector<bool>(regions.size(), false));
    return std::move(made_);
  }

 private:
  static void RemoveInputsFromValueInfo(onnx::GraphProto* graph) {
    std::set<std::string_view> inputs;
    for (const auto& input : graph->input()) inputs.insert(input.name());
    auto* infos = graph->mutable_value_info();
    infos->erase(
        std::remove_if(infos->begin(), infos->end(),
                       [&inputs](const auto& info) { return inputs.contains(info.name()); }),
        infos->end());
  }

  using Owners = SwitchModel::Owners;

  // A node that the quantizer added (a factor of the NPU) belongs to what it reads.
  Owners OwnersOf(const onnx::NodeProto& node) const {
    const onnx::NodeProto* at = &node;
    for (int hops = 0; at != nullptr && hops < 8; ++hops) {
      if (in_float_.contains(at->name())) return {.regions = {}, .in_float = true};
      if (const auto found = regions_of_.find(at->name()); found != regions_of_.end()) {
        return {.regions = found->second, .in_float = false};
      }
      if (float_index_.FindNode(at->name()) != nullptr) break;  // in no region
      at = at->input_size() == 0 ? nullptr : index_.Producer(at->input(0));
    }
    return {};
  }

  void MarkSwitchable(const Owners& owners) {
    for (const size_t region : owners.regions) made_->switchable_[region] = true;
  }

  // True when the node is to be left out, else `replaced` and copies_ are what takes its place.
  absl::StatusOr<bool> Replace(const onnx::NodeProto& node, onnx::NodeProto* replaced) {
    const std::string& output = node.output(0);
    if (const auto* constant = index_.Initializer(node.input(0)); constant != nullptr) {
      return ReplaceConstant(node, *constant);
    }
    const onnx::NodeProto* quantize = index_.Producer(node.input(0));
    if (quantize == nullptr || !quantize::IsQuantizeNode(*quantize)) return false;
    const auto rounding = RoundingOf(*quantize, quantized_, index_);
    if (!rounding) return false;
    const std::string& source = quantize->input(0);
    *replaced = graph::MakeNode("Identity", node.name(), {source}, {output});
    SwitchModel::Rounded point{.tensor = output, .rounding = *rounding};
    const onnx::NodeProto* producer = index_.Producer(source);
    if (producer != nullptr) point.producer = OwnersOf(*producer);
    for (const graph::TensorUse& use : index_.Uses(output)) {
      point.readers.push_back(OwnersOf(index_.node(use.node)));
    }
    AddCopies(source, std::move(point));
    return false;
  }

  // One copy of the tensor for the readers that are promoted together.
  void AddCopies(const std::string& source, SwitchModel::Rounded point) {
    const std::string output = point.tensor;
    std::vector<Owners> done;
    if (point.producer) MarkSwitchable(*point.producer);
    if (index_.IsGraphOutput(output) || point.readers.empty()) {
      point.reader = point.producer.value_or(Owners{});
      done.push_back(point.reader);
      made_->roundings_.push_back(point);
    }
    for (const graph::TensorUse& use : index_.Uses(output)) {
      const Owners owners = OwnersOf(index_.node(use.node));
      MarkSwitchable(owners);
      size_t copy = 0;
      while (copy < done.size() && !(done[copy] == owners)) ++copy;
      if (copy == done.size()) {
        done.push_back(owners);
        point.reader = owners;
        if (copy > 0) {
          point.tensor = names_.Unique(output + "_copy");
          copies_.push_back(graph::MakeNode("Identity", names_.UniqueNode(point.tensor), {source},
                                            {point.tensor}));
          copied_.push_back({output, point.tensor, owners});
        }
        made_->roundings_.push_back(point);
      }
    }
  }

  // Readers get the copies that belong to them.
  void ReadCopies(onnx::GraphProto* graph) const {
    for (const Copied& copied : copied_) {
      if (const auto shape = index_.StaticShape(copied.tensor)) {
        graph::SetValueInfo(copied.copy, onnx::TensorProto::FLOAT, *shape, graph);
      }
    }
    for (onnx::NodeProto& node : *graph->mutable_node()) {
      if (node.op_type() == "Identity" && index_.FindNode(node.name()) == nullptr) continue;
      for (std::string& input : *node.mutable_input()) {
        for (const Copied& copied : copied_) {
          if (input != copied.tensor) continue;
          if (!(OwnersOf(node) == copied.owners)) continue;
          input = copied.copy;
          break;
        }
      }
    }
  }

  absl::StatusOr<bool> ReplaceConstant(const onnx::NodeProto& node,
                                       const onnx::TensorProto& constant) {
    const std::string& output = node.output(0);
    if (index_.IsGraphOutput(output) || node.input_size() < 2) return false;
    std::vector<Owners> readers;
    for (const graph::TensorUse& use : index_.Uses(output)) {
      readers.push_back(OwnersOf(index_.node(use.node)));
    }
    const bool switchable = std::all_of(readers.begin(), readers.end(), [](const Owners& owners) {
      return owners.in_float || !owners.regions.empty();
    });
    if (readers.empty() || !switchable) return false;
    GQ_ASSIGN_OR_RETURN(const graph::TensorView integers, quantized_.Data(constant));
    GQ_ASSIGN_OR_RETURN(const std::optional<std::vector<float>> values,
                        Dequantized(node, integers));
    if (!values) return false;
    SwitchModel::Exchanged exchanged;
    exchanged.readers = readers;
    exchanged.quantized = runtime::Tensor::Of<float>(integers.dims(), *values);
    exchanged.promoted = exchanged.quantized;
    if (const auto original = FloatValues(node.input(0), integers.size())) {
      std::vector<float> rounded(original->size());
      calibrate::Round(made_->promoted_, *original, rounded);
      exchanged.promoted = runtime::Tensor::Of<float>(integers.dims(), rounded);
    }
    exchanged.input = made_->data_inputs_ + made_->constants_.size();
    for (const Owners& owners : readers) MarkSwitchable(owners);
    made_->constants_.push_back(std::move(exchanged));

    onnx::ValueInfoProto* input = result_.mutable_graph()->add_input();
    input->set_name(output);
    auto* type = input->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    type->mutable_shape();
    for (const int64_t dim : integers.dims()) type->mutable_shape()->add_dim()->set_dim_value(dim);
    return true;
  }

  absl::StatusOr<std::optional<std::vector<float>>> Dequantized(
      const onnx::NodeProto& node, const graph::TensorView& integers) const {
    const auto* scale = index_.Initializer(node.input(1));
    if (scale == nullptr || graph::FindAttribute(node, "block_size") != nullptr) {
      return std::nullopt;
    }
    GQ_ASSIGN_OR_RETURN(const graph::TensorView scales, quantized_.Data(*scale));
    GQ_ASSIGN_OR_RETURN(std::vector<float> values, integers.ToFloats());
    std::optional<graph::TensorView> zero_points;
    if (node.input_size() > 2 && !node.input(2).empty()) {
      const auto* zero_point = index_.Initializer(node.input(2));
      if (zero_point == nullptr) return std::nullopt;
      GQ_ASSIGN_OR_RETURN(zero_points, quantized_.Data(*zero_point));
    }
    const int64_t channels = scales.size();
    int64_t inner = 1;
    if (channels > 1) {
      auto axis = graph::AttributeInt(node, "axis", 1);
      const auto rank = static_cast<int64_t>(integers.dims().size());
      if (axis < 0) axis += rank;
      if (axis < 0 || axis >= rank || integers.dims()[static_cast<size_t>(axis)] != channels) {
        return std::nullopt;
      }
      for (auto i = static_cast<size_t>(axis) + 1; i < integers.dims().size(); ++i) {
        inner *= integers.dims()[i];
      }
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t channel = (static_cast<int64_t>(i) / inner) % channels;
      const double zero = !zero_points               ? 0
                          : zero_points->size() == 1 ? zero_points->At(0)
                                                     : zero_points->At(channel);
      values[i] = (values[i] - static_cast<float>(zero)) * static_cast<float>(scales.At(channel));
    }
    return values;
  }

  // The float model's values of what is stored as integers under `name`.
  std::optional<std::vector<float>> FloatValues(const std::string& name, int64_t size) const {
    const size_t at = name.rfind(kQuantizedSuffix);
    if (at == std::string::npos) return std::nullopt;
    const auto* original = float_index_.Initializer(std::string_view(name).substr(0, at));
    if (original == nullptr) return std::nullopt;
    const auto view = float_model_.Data(*original);
    if (!view.ok() || view->size() != size) return std::nullopt;
    auto values = view->ToFloats();
    if (!values.ok()) return std::nullopt;
    return *std::move(values);
  }

  // The nodes of each region that a promotion has to name.
  void CollectNodes(const std::vector<Region>& regions) {
    std::set<std::string> touched;
    for (const onnx::NodeProto& node : quantized_.graph().node()) {
      if (!quantize::IsQdqNode(node)) continue;
      for (const std::string& output : node.output()) {
        for (const graph::TensorUse& use : index_.Uses(output)) {
          touched.insert(index_.node(use.node).name());
        }
      }
      if (const onnx::NodeProto* producer = index_.Producer(node.input(0))) {
        touched.insert(producer->name());
      }
    }
    for (size_t i = 0; i < regions.size(); ++i) {
      for (const std::string& node : regions[i].nodes) {
        if (node == regions[i].layer || touched.contains(node)) made_->nodes_[i].push_back(node);
      }
    }
  }

  const graph::Model& float_model_;
  const GraphIndex float_index_;
  struct Copied {
    std::string tensor;
    std::string copy;
    Owners owners;
  };

  const graph::Model& quantized_;
  const GraphIndex index_;
  const std::set<std::string>& in_float_;
  graph::Model result_;
  graph::NameScope names_;
  std::vector<onnx::NodeProto> copies_;  // of the tensor at hand
  std::vector<Copied> copied_;
  std::unique_ptr<SwitchModel> made_;
  std::map<std::string, std::vector<size_t>, std::less<>> regions_of_;
};

absl::StatusOr<std::unique_ptr<SwitchModel>> SwitchModel::Create(
    const graph::Model& float_model, const graph::Model& quantized,
    const std::vector<Region>& regions, const std::set<std::string>& in_float, int32_t precision,
    int threads) {
  return SwitchModelBuilder(float_model, quantized, regions, in_float, precision)
      .Build(regions, threads);
}

bool SwitchModel::Promoted(const Owners& node, const std::vector<bool>& regions) {
  return node.in_float || std::any_of(node.regions.begin(), node.regions.end(),
                                      [&](size_t region) { return regions[region]; });
}

bool SwitchModel::All(const std::vector<Owners>& nodes, const std::vector<bool>& regions) {
  return !nodes.empty() && std::all_of(nodes.begin(), nodes.end(),
                                       [&](const Owners& node) { return Promoted(node, regions); });
}

bool SwitchModel::Promoted(const Rounded& point, const std::vector<bool>& regions) {
  if (!point.producer) return All(point.readers, regions);
  return Promoted(*point.producer, regions) && Promoted(point.reader, regions);
}

void SwitchModel::Promote(const std::vector<bool>& regions) {
  for (const Rounded& point : roundings_) {
    model_->Set(point.tensor, Promoted(point, regions) ? promoted_ : point.rounding);
  }
  for (const Exchanged& constant : constants_) {
    inputs_[constant.input] =
        All(constant.readers, regions) ? constant.promoted : constant.quantized;
  }
}

absl::Status SwitchModel::Run(const std::vector<runtime::Tensor>& sample,
                              std::vector<runtime::Tensor>* outputs) {
  if (sample.size() != data_inputs_) {
    return base::MakeError(base::Reason::kInternal, "a sample has another number of inputs");
  }
  std::copy(sample.begin(), sample.end(), inputs_.begin());
  return model_->session().Run(inputs_, outputs);
}

}  // namespace gq::explore
