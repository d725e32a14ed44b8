#include "common/graph/optimize.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/constant_folding.h"
#include "common/graph/edits.h"
#include "common/graph/float_conversion.h"
#include "common/graph/opset.h"
#include "common/graph/passes.h"
#include "common/graph/pinning.h"
#include "common/graph/shape_inference.h"

namespace gq::graph {
namespace {

using base::Reason;
using base::StrCat;
using Names = std::map<std::string, std::string>;

constexpr char kComponent[] = "Optimize";

// Follows the steps of one pass: a -> b, b -> c becomes a -> c.
std::string Follow(const Names& steps, std::string name) {
  std::set<std::string> seen;
  for (auto it = steps.find(name); it != steps.end() && seen.insert(name).second;
       it = steps.find(name)) {
    name = it->second;
  }
  return name;
}

// Adds the replacements of one more pass to those of all passes before it.
void AddRenames(const Names& steps, Names* total) {
  for (auto& [old, current] : *total) current = Follow(steps, current);
  for (const auto& [old, next] : steps) total->try_emplace(old, Follow(steps, next));
}

class Optimizer {
 public:
  Optimizer(Model& model, const OptimizeOptions& options, ConstantEvaluator& evaluator,
            base::Reporter& reporter)
      : model_(model), options_(options), evaluator_(evaluator), reporter_(reporter) {}

  absl::StatusOr<OptimizeReport> Run() {
    GQ_RETURN_IF_ERROR(CheckDisabled());
    RemoveUnusedInitializers(model_.mutable_graph());
    model_.CompactStore();
    GQ_RETURN_IF_ERROR(UnifyTypes());
    GQ_RETURN_IF_ERROR(RaiseOpset());
    GQ_ASSIGN_OR_RETURN(auto pinned, PinInputs(options_.input_shapes, &model_));
    for (const auto& change : pinned) reporter_.Info(kComponent, change);
    Record({"input-pinning", static_cast<int>(pinned.size()), std::move(pinned)});
    GQ_RETURN_IF_ERROR(Fold());
    bool by_runtime = options_.optimize && options_.by_runtime;
    bool done_by_runtime = false;
    for (const auto& entry : OptimizationPasses()) {
      if (!IsEnabled(entry.group, options_) || IsDisabled(entry.pass->name())) continue;
      if (reporter_.Cancelled()) return base::MakeError(Reason::kCancelled, "cancelled");
      if (entry.group == PassGroup::kOptimize && by_runtime) {
        by_runtime = false;
        GQ_ASSIGN_OR_RETURN(done_by_runtime, OptimizeByRuntime());
      }
      if (entry.group == PassGroup::kOptimize && done_by_runtime) continue;
      GQ_RETURN_IF_ERROR(RunPass(*entry.pass));
    }
    GQ_RETURN_IF_ERROR(Fold());
    GQ_RETURN_IF_ERROR(Finish());
    return std::move(report_);
  }

 private:
  bool IsDisabled(std::string_view name) const {
    return std::find(options_.disabled.begin(), options_.disabled.end(), name) !=
           options_.disabled.end();
  }

  absl::Status CheckDisabled() const {
    std::vector<std::string> names = {"constant-folding"};
    for (const auto& entry : OptimizationPasses()) names.emplace_back(entry.pass->name());
    for (const auto& name : options_.disabled) {
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      const auto closest = base::ClosestNames(name, names);
      return base::MakeError(
          Reason::kInvalidFlag, StrCat("there is no graph optimization pass '", name, "'"),
          closest.empty() ? "" : StrCat("Did you mean ", base::StrJoin(closest, " or "), "?"));
    }
    return absl::OkStatus();
  }

  void Record(PassReport pass) {
    if (pass.changed == 0) return;
    const auto same =
        std::find_if(report_.passes.begin(), report_.passes.end(),
                     [&](const PassReport& other) { return other.name == pass.name; });
    if (same == report_.passes.end()) {
      report_.passes.push_back(std::move(pass));
      return;
    }
    same->changed += pass.changed;
    for (auto& detail : pass.details) {
      if (same->details.size() < kMaxPassDetails) same->details.push_back(std::move(detail));
    }
  }

  absl::Status UnifyTypes() {
    if (!options_.to_float32) return absl::OkStatus();
    GQ_ASSIGN_OR_RETURN(const int converted, ConvertToFloat32(&model_));
    if (converted == 0) return absl::OkStatus();
    report_.warnings.push_back(
        "the model computes in half or double precision; it was converted to float32, inputs and "
        "outputs keep their types");
    Record({"float32-conversion", converted, {StrCat(converted, " tensors became float32")}});
    return InferShapes(InferenceMode::kLenient, &model_);
  }

  absl::Status RaiseOpset() {
    GQ_ASSIGN_OR_RETURN(OpsetChange change, ConvertOpset(options_.min_opset, &model_));
    report_.opset_before = change.before;
    report_.opset_after = change.after;
    if (change.before == change.after) return absl::OkStatus();
    change.details.insert(change.details.begin(),
                          StrCat("opset ", change.before, " became ", change.after));
    reporter_.Info(kComponent, change.details[0]);
    Record({"opset-conversion", std::max(1, static_cast<int>(change.details.size()) - 1),
            std::move(change.details)});
    return absl::OkStatus();
  }

  absl::Status Fold() {
    if (IsDisabled("constant-folding")) return InferShapes(InferenceMode::kLenient, &model_);
    GQ_ASSIGN_OR_RETURN(FoldingReport folding, FoldConstants(evaluator_, reporter_, &model_));
    for (auto& warning : folding.warnings) report_.warnings.push_back(std::move(warning));
    const int changed = folding.folded_nodes + folding.shapes + folding.branches;
    PassReport pass{"constant-folding", changed, {}};
    if (changed > 0) {
      pass.details.push_back(StrCat(folding.folded_nodes, " constant nodes, ", folding.shapes,
                                    " shapes, ", folding.branches, " branches"));
    }
    Record(std::move(pass));
    return absl::OkStatus();
  }

  absl::Status RunPass(const Pass& pass) {
    PassReport changes{std::string(pass.name()), 0, {}};
    Names renamed;
    GQ_RETURN_IF_ERROR(pass.Run(&model_, &changes, &renamed));
    AddRenames(renamed, &report_.renamed_nodes);
    Record(std::move(changes));
    return absl::OkStatus();
  }

  // False where ONNX Runtime cannot take the model.
  absl::StatusOr<bool> OptimizeByRuntime() {
    absl::StatusOr<Model> optimized = evaluator_.OptimizeBasic(model_);
    if (!optimized.ok()) {
      report_.warnings.push_back(StrCat("ONNX Runtime could not optimize the model (",
                                        base::FromAbsl(optimized.status().message()),
                                        "); own passes took its place"));
      return false;
    }
    const int before = model_.graph().node_size();
    model_ = *std::move(optimized);
    Record({"runtime-optimization",
            1,
            {StrCat(before, " nodes became ", model_.graph().node_size())}});
    GQ_RETURN_IF_ERROR(InferShapes(InferenceMode::kLenient, &model_));
    return true;
  }

  absl::Status Finish() {
    auto* graph = model_.mutable_graph();
    RemoveDeadNodes(graph);
    RemoveUnusedInitializers(graph);
    GQ_RETURN_IF_ERROR(SortTopologically(graph));
    if (!options_.by_runtime) MakeNodeNamesUnique(graph);
    model_.CompactStore();
    GQ_RETURN_IF_ERROR(InferShapes(
        options_.require_static ? InferenceMode::kStrict : InferenceMode::kLenient, &model_));
    if (!options_.require_static) return absl::OkStatus();
    GQ_RETURN_IF_ERROR(RequireStaticInputs(model_));
    WarnOfOpenTensors();
    return CheckModel(model_);
  }

  void WarnOfOpenTensors() {
    constexpr size_t kListed = 4;
    std::vector<std::string> open = OpenTensors(model_);
    if (open.empty()) return;
    const size_t count = open.size();
    open.resize(std::min(count, kListed));
    report_.warnings.push_back(
        StrCat("the shape of ", count, count == 1 ? " tensor depends" : " tensors depends",
               " on the data or is not known; the nodes that make them stay float: ",
               base::StrJoin(open, "; "), count > kListed ? "; ..." : ""));
  }

  Model& model_;
  const OptimizeOptions& options_;
  ConstantEvaluator& evaluator_;
  base::Reporter& reporter_;
  OptimizeReport report_;
};

}  // namespace

const std::string& OptimizeReport::CurrentName(const std::string& node) const {
  const auto it = renamed_nodes.find(node);
  return it == renamed_nodes.end() ? node : it->second;
}

absl::StatusOr<OptimizeReport> OptimizeGraph(Model& model, const OptimizeOptions& options,
                                             ConstantEvaluator& evaluator,
                                             base::Reporter& reporter) {
  return Optimizer(model, options, evaluator, reporter).Run();
}

}  // namespace gq::graph
