// A rewrite of the graph that keeps what the model computes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"
#include "common/graph/model.h"
#include "common/graph/optimize.h"
#include "common/graph/tensor_view.h"

namespace gq::graph {

// The model as a pass sees it while it looks for matches.
class PassView {
 public:
  PassView(const Model& model, const GraphIndex& index) : model_(model), index_(index) {}

  const GraphIndex& index() const { return index_; }
  const onnx::NodeProto& node(int position) const { return index_.node(position); }
  int64_t opset() const { return model_.Opset(); }

  // The value of an initializer; nullopt when the tensor is none (or holds strings).
  std::optional<TensorView> Constant(std::string_view tensor) const;
  std::optional<std::vector<float>> Floats(std::string_view tensor) const;
  std::optional<std::vector<int64_t>> Ints(std::string_view tensor) const;
  // The value of an initializer with one element.
  std::optional<double> Scalar(std::string_view tensor) const;

  // Position of the only reader of the node's first output, which has no other use; -1 otherwise.
  int OnlyReader(int position) const;

  // Whether readers of `from` can read `to` instead: always, unless `from` is a graph output, whose
  // name must then move to the node that makes `to`.
  bool CanReplace(std::string_view from, std::string_view to) const;

 private:
  const Model& model_;
  const GraphIndex& index_;
};

// Nodes that a pass takes together, the one that does the work first.
struct PassMatch {
  std::vector<int> nodes;
};

// What takes the place of the nodes of a match, which all go.
struct PassRewrite {
  std::vector<onnx::NodeProto> nodes;
  std::vector<std::pair<std::string, TensorView>> initializers;
  // Readers of the first tensor read the second from then on.
  std::vector<std::pair<std::string, std::string>> replaced;
  // The new node that continues the removed ones; empty when nothing does.
  std::string successor;
  std::string detail;  // one sentence
};

// Stateless; the table of passes holds one object of each.
class Pass {
 public:
  virtual ~Pass() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;  // what it matches and what it makes of it

  // Applies the pass until it finds nothing more. Fills `report`; adds removed nodes with their
  // successor to `renamed`.
  virtual absl::Status Run(Model* model, PassReport* report,
                           std::map<std::string, std::string>* renamed) const = 0;
};

// A pass that looks at one node after the other. All matches that do not touch each other are
// rewritten together.
class PatternPass : public Pass {
 public:
  // A match whose first node stands at `position`.
  virtual std::optional<PassMatch> Find(int position, const PassView& view) const = 0;
  virtual absl::StatusOr<PassRewrite> Rewrite(const PassMatch& match, const PassView& view,
                                              NameScope* names) const = 0;

  absl::Status Run(Model* model, PassReport* report,
                   std::map<std::string, std::string>* renamed) const final;
};

// Most sentences that a report keeps for a pass.
inline constexpr size_t kMaxPassDetails = 100;

}  // namespace gq::graph
