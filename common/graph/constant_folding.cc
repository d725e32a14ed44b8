#include "common/graph/constant_folding.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/branch_inlining.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"
#include "common/graph/shape_inference.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::Reason;
using base::StrCat;

constexpr int kMaxRounds = 50;
constexpr int64_t kLargeResult = int64_t{16} << 20;

// Operators whose results can be much larger than their inputs.
const std::set<std::string, std::less<>> kExpanding = {
    "ConstantOfShape", "Expand", "Tile", "Range", "Resize", "Upsample", "Pad", "OneHot", "EyeLike"};

const std::set<std::string, std::less<>> kNeverFolded = {"RandomNormal",
                                                         "RandomNormalLike",
                                                         "RandomUniform",
                                                         "RandomUniformLike",
                                                         "Multinomial",
                                                         "Bernoulli",
                                                         "QuantizeLinear",
                                                         "DequantizeLinear",
                                                         "If",
                                                         "Loop",
                                                         "Scan",
                                                         "DynamicQuantizeLinear"};

bool IsDefaultDomain(const onnx::NodeProto& node) {
  return node.domain().empty() || node.domain() == "ai.onnx";
}

class Folder {
 public:
  Folder(ConstantEvaluator& evaluator, base::Reporter& reporter, Model* model)
      : evaluator_(evaluator), reporter_(reporter), model_(model) {}

  absl::StatusOr<FoldingReport> Run() {
    for (report_.rounds = 0; report_.rounds < kMaxRounds; ++report_.rounds) {
      if (reporter_.Cancelled()) return base::MakeError(Reason::kCancelled, "cancelled");
      GQ_RETURN_IF_ERROR(InferShapes(InferenceMode::kLenient, model_));
      const int shapes = FoldShapes();
      GQ_ASSIGN_OR_RETURN(const int branches, InlineConstantBranches(model_));
      GQ_ASSIGN_OR_RETURN(const int nodes, FoldNodes());
      report_.shapes += shapes;
      report_.branches += branches;
      report_.folded_nodes += nodes;
      if (shapes + branches + nodes == 0) break;
      RemoveDeadNodes(model_->mutable_graph());
      RemoveUnusedInitializers(model_->mutable_graph());
      model_->CompactStore();
    }
    return report_;
  }

 private:
  // Replaces the nodes at `positions` by initializers of their first outputs.
  void Replace(std::vector<int> positions, std::vector<std::pair<std::string, TensorView>> values) {
    RemoveNodes(std::move(positions), model_->mutable_graph());
    for (const auto& [name, value] : values) model_->AddInitializer(name, value);
  }

  int FoldShapes() {
    const GraphIndex index(model_->graph());
    std::vector<int> gone;
    std::vector<std::pair<std::string, TensorView>> values;
    for (int i = 0; i < model_->graph().node_size(); ++i) {
      const auto& node = model_->graph().node(i);
      const bool is_shape = IsOp(node, "Shape");
      if ((!is_shape && !IsOp(node, "Size")) || index.IsGraphOutput(node.output(0))) continue;
      const auto shape = index.StaticShape(node.input(0));
      if (!shape.has_value()) continue;
      const auto elements = ElementCount(*shape);
      if (!elements.ok()) continue;
      const std::vector<int64_t> value =
          is_shape ? SlicedShape(node, *shape) : std::vector<int64_t>{*elements};
      std::vector<int64_t> dims;
      if (is_shape) dims.push_back(static_cast<int64_t>(value.size()));
      values.emplace_back(node.output(0), TensorView::Of<int64_t>(dims, value));
      gone.push_back(i);
    }
    const int count = static_cast<int>(gone.size());
    if (count > 0) Replace(std::move(gone), std::move(values));
    return count;
  }

  static std::vector<int64_t> SlicedShape(const onnx::NodeProto& node,
                                          const std::vector<int64_t>& shape) {
    const auto rank = static_cast<int64_t>(shape.size());
    const auto clamp = [&](int64_t axis) {
      return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
    };
    const int64_t start = clamp(AttributeInt(node, "start", 0));
    const int64_t end = clamp(AttributeInt(node, "end", rank));
    if (start >= end) return {};
    return {shape.begin() + start, shape.begin() + end};
  }

  // Bytes of a tensor by its inferred type and shape, -1 when they are not known.
  static int64_t KnownBytes(const GraphIndex& index, const std::string& tensor) {
    const auto shape = index.StaticShape(tensor);
    if (!shape.has_value()) return -1;
    const auto count = ElementCount(*shape);
    if (!count.ok()) return -1;
    const auto bytes = ByteSize(index.ElemType(tensor), *count);
    return bytes.ok() ? *bytes : -1;
  }

  bool MayFold(const onnx::NodeProto& node, const GraphIndex& index) const {
    if (node.output_size() == 0 || failed_.contains(node.name())) return false;
    if (IsDefaultDomain(node)) {
      if (kNeverFolded.contains(node.op_type())) return false;
    } else if (node.op_type().find("Quantize") != std::string::npos ||
               node.domain() != "com.microsoft") {
      return false;
    }
    int64_t input_bytes = 0;
    for (const auto& input : node.input()) {
      input_bytes += std::max<int64_t>(0, KnownBytes(index, input));
    }
    for (const auto& output : node.output()) {
      if (output.empty()) continue;
      // A graph output stays the output of a node.
      if (index.IsGraphOutput(output)) return false;
      const auto* type = index.Type(output);
      if (type != nullptr && !type->has_tensor_type()) return false;
      if (index.ElemType(output) == onnx::TensorProto::STRING) return false;
      const int64_t bytes = KnownBytes(index, output);
      if (bytes < 0 && IsDefaultDomain(node) && kExpanding.contains(node.op_type())) return false;
      if (bytes > kLargeResult && bytes > 2 * input_bytes) return false;
    }
    return true;
  }

  // Positions of nodes that depend on constants alone.
  std::vector<int> FindConstantNodes(const GraphIndex& index) const {
    std::unordered_set<std::string_view> constant;
    for (const auto& initializer : model_->graph().initializer()) {
      if (initializer.data_type() != onnx::TensorProto::STRING) constant.insert(initializer.name());
    }
    std::vector<int> found;
    for (int i = 0; i < model_->graph().node_size(); ++i) {
      const auto& node = model_->graph().node(i);
      if (!std::all_of(node.input().begin(), node.input().end(), [&](const auto& input) {
            return input.empty() || constant.contains(input);
          })) {
        continue;
      }
      if (!MayFold(node, index)) continue;
      found.push_back(i);
      for (const auto& output : node.output()) constant.insert(output);
    }
    return found;
  }

  absl::StatusOr<int> FoldNodes() {
    const GraphIndex index(model_->graph());
    std::vector<int> positions = FindConstantNodes(index);
    if (positions.empty()) return 0;
    if (Evaluate(index, positions)) return static_cast<int>(positions.size());
    // One node that the evaluator does not take must not keep the others from being folded.
    int folded = 0;
    for (size_t done = 0; done < positions.size(); ++done) {
      const GraphIndex fresh(model_->graph());
      std::vector<int> left = FindConstantNodes(fresh);
      if (left.empty()) break;
      const auto& node = model_->graph().node(left[0]);
      const std::string name = node.name();
      if (Evaluate(fresh, {left[0]})) {
        ++folded;
        continue;
      }
      failed_.insert(name);
      report_.warnings.push_back(
          StrCat("the constant ", node.op_type(), " node '", name, "' could not be computed"));
    }
    return folded;
  }

  // Folds the nodes at `positions`; false, with the graph unchanged, when they cannot be computed.
  bool Evaluate(const GraphIndex& index, const std::vector<int>& positions) {
    const std::set<int> chosen(positions.begin(), positions.end());
    onnx::ModelProto part;
    part.set_ir_version(model_->proto().ir_version());
    *part.mutable_opset_import() = model_->proto().opset_import();
    auto* graph = part.mutable_graph();
    graph->set_name("constants");
    std::set<std::string> inputs;
    std::vector<std::string> wanted;
    for (const int position : positions) {
      const auto& node = model_->graph().node(position);
      *graph->add_node() = node;
      for (const auto& input : node.input()) {
        if (index.IsInitializer(input)) inputs.insert(input);
      }
      for (const auto& output : node.output()) {
        if (output.empty() || !IsNeeded(index, output, chosen)) continue;
        wanted.push_back(output);
        auto* info = graph->add_output();
        info->set_name(output);
        const int32_t type = index.ElemType(output);
        if (type != 0) info->mutable_type()->mutable_tensor_type()->set_elem_type(type);
      }
    }
    if (wanted.empty()) {
      RemoveNodes(positions, model_->mutable_graph());
      return true;
    }
    auto model = Model::FromProto(std::move(part));
    if (!model.ok()) return false;
    for (const auto& input : inputs) {
      const auto data = model_->Data(*index.Initializer(input));
      if (!data.ok()) return false;
      model->AddInitializer(input, *data);
    }
    const auto values = evaluator_.Evaluate(*model);
    if (!values.ok() || values->size() != wanted.size()) {
      if (!values.ok()) {
        reporter_.Log(base::LogLevel::kDebug, "Optimize",
                      base::FromAbsl(values.status().message()));
      }
      return false;
    }
    RemoveNodes(positions, model_->mutable_graph());
    for (size_t i = 0; i < wanted.size(); ++i) model_->AddInitializer(wanted[i], (*values)[i]);
    return true;
  }

  static bool IsNeeded(const GraphIndex& index, const std::string& tensor,
                       const std::set<int>& chosen) {
    const auto uses = index.Uses(tensor);
    return std::any_of(uses.begin(), uses.end(),
                       [&](const TensorUse& use) { return !chosen.contains(use.node); });
  }

  ConstantEvaluator& evaluator_;
  base::Reporter& reporter_;
  Model* model_;
  FoldingReport report_;
  std::unordered_set<std::string> failed_;
};

}  // namespace

absl::StatusOr<FoldingReport> FoldConstants(ConstantEvaluator& evaluator, base::Reporter& reporter,
                                            Model* model) {
  return Folder(evaluator, reporter, model).Run();
}

}  // namespace gq::graph
