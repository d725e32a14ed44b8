// What only Quark's own preparation does to a model; each is asked for by its configuration.
#include <algorithm>
#include <cmath>
#include <map>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/passes.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::StrCat;

class BiasCopiesPass : public Pass {
 public:
  std::string_view name() const override { return "bias-copies"; }
  std::string_view summary() const override {
    return "gives every Conv, ConvTranspose and Gemm a bias of its own, named after the shared one "
           "and the number of the copy";
  }

  absl::Status Run(Model* model, PassReport* report,
                   std::map<std::string, std::string>*) const override {
    std::map<std::string, int> readers;
    NameScope names(model->graph());
    for (int i = 0; i < model->graph().node_size(); ++i) {
      const auto& node = model->graph().node(i);
      if (!IsOp(node, "Conv") && !IsOp(node, "ConvTranspose") && !IsOp(node, "Gemm")) continue;
      const std::string bias(InputName(node, 2));
      const auto* initializer = bias.empty() ? nullptr : model->FindInitializer(bias);
      if (initializer == nullptr || ++readers[bias] == 1) continue;
      GQ_ASSIGN_OR_RETURN(const TensorView values, model->Data(*initializer));
      const std::string copy = names.Unique(StrCat("duplicated", bias, readers[bias]));
      model->AddInitializer(copy, values);
      model->mutable_graph()->mutable_node(i)->set_input(2, copy);
      ++report->changed;
      if (report->details.size() < kMaxPassDetails) {
        report->details.push_back(StrCat(Describe(node), " has a copy of the bias ", bias));
      }
    }
    return absl::OkStatus();
  }
};

class ClipSixToReluPass : public PatternPass {
 public:
  std::string_view name() const override { return "clip6-to-relu"; }
  std::string_view summary() const override {
    return "turns a Clip from 0 to 6 into a Relu; what lies above 6 is no longer cut";
  }

  std::optional<PassMatch> Find(int position, const PassView& view) const override {
    const auto& node = view.node(position);
    if (!IsOp(node, "Clip")) return std::nullopt;
    const auto low = view.Scalar(InputName(node, 1));
    const auto high = view.Scalar(InputName(node, 2));
    if (!low || !high || std::abs(*low) > 1e-8 || std::abs(*high - 6) > 6e-5) return std::nullopt;
    return PassMatch{{position}};
  }

  absl::StatusOr<PassRewrite> Rewrite(const PassMatch& match, const PassView& view,
                                      NameScope*) const override {
    const auto& node = view.node(match.nodes[0]);
    PassRewrite rewrite;
    rewrite.nodes.push_back(MakeNode("Relu", node.name(), {node.input(0)}, {node.output(0)}));
    rewrite.detail = StrCat(Describe(node), " became a Relu");
    return rewrite;
  }
};

}  // namespace

const Pass& BiasCopies() {
  static const BiasCopiesPass pass;
  return pass;
}

const Pass& ClipSixToRelu() {
  static const ClipSixToReluPass pass;
  return pass;
}

}  // namespace gq::graph
