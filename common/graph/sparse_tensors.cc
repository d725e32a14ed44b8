#include "common/graph/sparse_tensors.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/graph_index.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::Reason;
using base::StrCat;

absl::Status Invalid(const onnx::SparseTensorProto& sparse, std::string_view why) {
  return base::MakeError(Reason::kModelInvalid,
                         StrCat("the sparse ", Describe(sparse.values()), ": ", why));
}

// Positions of the values in the dense tensor, from indices of the form [n] or [n, rank].
absl::StatusOr<std::vector<int64_t>> Positions(const onnx::SparseTensorProto& sparse,
                                               const std::vector<int64_t>& dims, int64_t elements,
                                               int64_t count) {
  if (sparse.indices().data_type() != onnx::TensorProto::INT64) {
    return Invalid(sparse, "its indices are not int64");
  }
  GQ_ASSIGN_OR_RETURN(const TensorView view, ReadInlineData(sparse.indices()));
  const auto values = view.As<int64_t>();
  const auto rank = static_cast<int64_t>(dims.size());
  const bool linear = view.dims().size() == 1 && view.dims()[0] == count;
  const bool by_axis = view.dims().size() == 2 && view.dims()[0] == count && view.dims()[1] == rank;
  if (!linear && !by_axis) return Invalid(sparse, "its indices do not fit its values");
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < count; ++i) {
    int64_t position = linear ? values[static_cast<size_t>(i)] : 0;
    for (int64_t axis = 0; by_axis && axis < rank; ++axis) {
      const int64_t index = values[static_cast<size_t>(i * rank + axis)];
      const int64_t dim = dims[static_cast<size_t>(axis)];
      if (index < 0 || index >= dim) return Invalid(sparse, "an index is out of its dimensions");
      position = position * dim + index;
    }
    if (position < 0 || position >= elements) {
      return Invalid(sparse, "an index is out of its dimensions");
    }
    positions.push_back(position);
  }
  return positions;
}

}  // namespace

absl::StatusOr<onnx::TensorProto> MakeDense(const onnx::SparseTensorProto& sparse,
                                            int64_t* budget) {
  const std::vector<int64_t> dims(sparse.dims().begin(), sparse.dims().end());
  const int32_t type = sparse.values().data_type();
  const int bits = BitsPerElement(type);
  if (bits < 8) {
    return base::MakeError(
        Reason::kModelUnsupported,
        StrCat("the sparse ", Describe(sparse.values()), " holds ", DTypeName(type)),
        "Export the model with dense constants.");
  }
  GQ_ASSIGN_OR_RETURN(const int64_t elements, ElementCount(dims));
  GQ_ASSIGN_OR_RETURN(const int64_t bytes, ByteSize(type, elements));
  if (bytes > *budget) {
    return base::MakeError(
        Reason::kModelTooLarge,
        StrCat("the sparse ", Describe(sparse.values()), " has ", bytes,
               " bytes as a dense one; all together may have ", kMostDenseBytes));
  }
  *budget -= bytes;
  if (sparse.values().data_location() == onnx::TensorProto::EXTERNAL ||
      sparse.indices().data_location() == onnx::TensorProto::EXTERNAL) {
    return base::MakeError(
        Reason::kModelUnsupported,
        StrCat("the sparse ", Describe(sparse.values()), " lies in another file"),
        "Export the model with dense constants.");
  }
  GQ_ASSIGN_OR_RETURN(const TensorView values, ReadInlineData(sparse.values()));
  GQ_ASSIGN_OR_RETURN(const auto positions, Positions(sparse, dims, elements, values.size()));
  const auto step = static_cast<size_t>(bits / 8);
  std::string data(static_cast<size_t>(bytes), '\0');
  for (size_t i = 0; i < positions.size(); ++i) {
    std::memcpy(data.data() + static_cast<size_t>(positions[i]) * step,
                values.bytes().data() + i * step, step);
  }
  onnx::TensorProto dense;
  dense.set_name(sparse.values().name());
  dense.set_data_type(type);
  *dense.mutable_dims() = sparse.dims();
  dense.set_raw_data(std::move(data));
  return dense;
}

absl::Status MakeInitializersDense(onnx::GraphProto* graph, int64_t* budget, int* made) {
  for (const auto& sparse : graph->sparse_initializer()) {
    GQ_ASSIGN_OR_RETURN(*graph->add_initializer(), MakeDense(sparse, budget));
    ++*made;
  }
  graph->clear_sparse_initializer();
  absl::Status status;
  for (auto& node : *graph->mutable_node()) {
    ForEachMutableSubgraph(&node, [&](auto* inner) {
      if (status.ok()) status = MakeInitializersDense(inner, budget, made);
    });
  }
  return status;
}

}  // namespace gq::graph
