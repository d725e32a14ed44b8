#include <algorithm>
#include <unordered_map>

#include "common/base/text.h"
#include "common/graph/passes.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::StrCat;

// Shapes, axes and indices. Float constants stay apart: each may get its own scale.
class ConstantMergingPass : public Pass {
 public:
  std::string_view name() const override { return "constant-merging"; }
  std::string_view summary() const override {
    return "lets equal small integer constants be one, the one that is read first";
  }

  absl::Status Run(Model* model, PassReport* report,
                   std::map<std::string, std::string>*) const override {
    std::unordered_map<std::string, std::string> first;
    std::unordered_map<std::string, std::string> merged;
    const GraphIndex index(model->graph());
    for (const auto& node : model->graph().node()) {
      for (const auto& input : node.input()) {
        const auto* initializer = index.Initializer(input);
        if (initializer == nullptr || !StoreKey(*initializer).empty() ||
            index.IsGraphOutput(input) ||
            (initializer->data_type() != onnx::TensorProto::INT64 &&
             initializer->data_type() != onnx::TensorProto::INT32)) {
          continue;
        }
        onnx::TensorProto bare = *initializer;
        bare.clear_name();
        bare.clear_doc_string();
        const auto [known, added] = first.try_emplace(bare.SerializeAsString(), input);
        if (!added && known->second != input) merged[input] = known->second;
      }
    }
    for (const auto& [from, to] : merged) {
      report->details.push_back(StrCat("constant '", from, "' equals '", to, "'"));
    }
    std::sort(report->details.begin(), report->details.end());
    ReplaceUses(std::move(merged), model->mutable_graph());
    report->changed += RemoveUnusedInitializers(model->mutable_graph());
    return absl::OkStatus();
  }
};

}  // namespace

const Pass& ConstantMerging() {
  static const ConstantMergingPass pass;
  return pass;
}

}  // namespace gq::graph
