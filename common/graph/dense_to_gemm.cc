#include "common/base/text.h"
#include "common/graph/conv_scaling.h"
#include "common/graph/passes.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::StrCat;

TensorView Transposed(const TensorView& weight) {
  const int64_t rows = weight.dims()[0];
  const int64_t columns = weight.dims()[1];
  const auto values = weight.As<float>();
  std::vector<float> result(values.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) result[c * rows + r] = values[r * columns + c];
  }
  return FloatTensor({columns, rows}, result);
}

// Names as Quark's preprocessing gives them (quark-confirmed 1.3): everything after the tensor
// between the two nodes.
class DenseToGemmPass : public PatternPass {
 public:
  std::string_view name() const override { return "dense-to-gemm"; }
  std::string_view summary() const override {
    return "turns a MatMul by a constant matrix and the Add of a constant vector into a Gemm, "
           "between Reshapes where "
           "the input has more than two dimensions";
  }

  std::optional<PassMatch> Find(int position, const PassView& view) const override {
    const auto& matmul = view.node(position);
    if (!IsOp(matmul, "MatMul") || view.index().IsInitializer(matmul.input(0))) return std::nullopt;
    const auto weight = view.index().Shape(matmul.input(1));
    if (!view.index().IsInitializer(matmul.input(1)) || weight->size() != 2) return std::nullopt;
    if (view.index().ElemType(matmul.input(1)) != onnx::TensorProto::FLOAT) return std::nullopt;
    const auto input = view.index().StaticShape(matmul.input(0));
    if (!input.has_value() || input->size() < 2) return std::nullopt;
    const int add = view.OnlyReader(position);
    if (add < 0 || !IsOp(view.node(add), "Add")) return std::nullopt;
    const auto bias = view.index().Shape(BiasOf(matmul, view.node(add)));
    if (!view.index().IsInitializer(BiasOf(matmul, view.node(add))) || bias->size() != 1 ||
        (*bias)[0] != (*weight)[1]) {
      return std::nullopt;
    }
    if (!view.index().StaticShape(view.node(add).output(0)).has_value()) return std::nullopt;
    return PassMatch{{position, add}};
  }

  absl::StatusOr<PassRewrite> Rewrite(const PassMatch& match, const PassView& view,
                                      NameScope* names) const override {
    const auto& matmul = view.node(match.nodes[0]);
    const auto& add = view.node(match.nodes[1]);
    const TensorView weight = *view.Constant(matmul.input(1));
    const std::string& base = matmul.output(0);
    const std::string weight_name = names->Unique(StrCat(base, "_weight"));
    PassRewrite rewrite;
    rewrite.initializers.emplace_back(weight_name, Transposed(weight));
    rewrite.detail = StrCat(Describe(matmul), " and ", Describe(add), " became a Gemm");

    std::string input = matmul.input(0);
    std::string output = add.output(0);
    const bool reshape = view.index().StaticShape(input)->size() > 2;
    if (reshape) {
      const std::string flat = names->Unique(StrCat(base, "_pre_reshape_out"));
      const std::string shape = names->Unique(StrCat(base, "_pre_reshape_in"));
      const std::vector<int64_t> dims{-1, weight.dims()[0]};
      rewrite.initializers.emplace_back(shape, TensorView::Of<int64_t>({2}, dims));
      rewrite.nodes.push_back(MakeNode("Reshape", names->UniqueNode(StrCat(base, "_pre_reshape")),
                                       {input, shape}, {flat}));
      input = flat;
      output = names->Unique(StrCat(base, "_gemm_out"));
    }
    onnx::NodeProto gemm = MakeNode("Gemm", names->UniqueNode(base),
                                    {input, weight_name, BiasOf(matmul, add)}, {output});
    SetAttribute("alpha", 1.0f, &gemm);
    SetAttribute("beta", 1.0f, &gemm);
    SetAttribute("transA", int64_t{0}, &gemm);
    SetAttribute("transB", int64_t{1}, &gemm);
    rewrite.successor = gemm.name();
    rewrite.nodes.push_back(std::move(gemm));
    if (reshape) {
      const std::string shape = names->Unique(StrCat(base, "_post_reshape_in"));
      const std::vector<int64_t> dims = *view.index().StaticShape(add.output(0));
      rewrite.initializers.emplace_back(
          shape, TensorView::Of<int64_t>({static_cast<int64_t>(dims.size())}, dims));
      rewrite.nodes.push_back(MakeNode("Reshape", names->UniqueNode(StrCat(base, "_post_reshape")),
                                       {output, shape}, {add.output(0)}));
    }
    return rewrite;
  }

 private:
  static const std::string& BiasOf(const onnx::NodeProto& matmul, const onnx::NodeProto& add) {
    return add.input(0) == matmul.output(0) ? add.input(1) : add.input(0);
  }
};

}  // namespace

const Pass& DenseToGemm() {
  static const DenseToGemmPass pass;
  return pass;
}

}  // namespace gq::graph
