#include "common/quantize/dequantize/grid.h"

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::quantize {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;
using onnx::TensorProto;

absl::Status Misfit(const std::string& name, std::string_view what) {
  return MakeError(Reason::kModelInvalid,
                   StrCat("the quantization parameters of '", name, "' do not fit it: ", what),
                   "write the quantized model again");
}

}  // namespace

absl::StatusOr<std::vector<float>> RealValues(const graph::TensorView& integers,
                                              const GridValues& grid, const std::string& name) {
  GQ_ASSIGN_OR_RETURN(std::vector<double> values, integers.ToDoubles());
  const std::vector<int64_t>& dims = integers.dims();
  const auto scales = static_cast<int64_t>(grid.scale.size());
  const auto zeros = static_cast<int64_t>(grid.zero_point.size());
  if (scales == 0) return Misfit(name, "there is no scale");
  if (zeros > 1 && zeros != scales) {
    return Misfit(name, StrCat(scales, " scales, but ", zeros, " zero points"));
  }
  int64_t outer = 1, length = 1, inner = 1, rows = 1;
  if (scales > 1 || grid.block_size > 0) {
    const auto rank = static_cast<int64_t>(dims.size());
    const int64_t axis = grid.axis < 0 ? grid.axis + rank : grid.axis;
    if (axis < 0 || axis >= rank) {
      return Misfit(name, StrCat("axis ", grid.axis, " of rank ", rank));
    }
    for (int64_t i = 0; i < rank; ++i) (i < axis ? outer : inner) *= i == axis ? 1 : dims[i];
    length = dims[axis];
    rows = grid.block_size > 0 ? (length + grid.block_size - 1) / grid.block_size : length;
    const int64_t expected = grid.block_size > 0 ? outer * rows * inner : rows;
    if (scales != expected) {
      return Misfit(name, StrCat(scales, " scales, ", expected, " are needed"));
    }
  }
  std::vector<float> reals(values.size());
  const bool blocks = grid.block_size > 0;
  const bool single = scales == 1 && !blocks;
  for (int64_t at = 0; at < static_cast<int64_t>(values.size()); ++at) {
    int64_t parameter = 0;
    if (!single) {
      const int64_t along = (at / inner) % length;
      parameter =
          blocks ? (at / (inner * length) * rows + along / grid.block_size) * inner + at % inner
                 : along;
    }
    const double zero = zeros == 0 ? 0 : grid.zero_point[zeros == 1 ? 0 : parameter];
    reals[at] = static_cast<float>(values[at] - zero) * grid.scale[single ? 0 : parameter];
  }
  return reals;
}

IntegerLimits LimitsOf(int32_t dtype) {
  const int bits = graph::BitsPerElement(dtype);
  switch (dtype) {
    case TensorProto::INT4:
    case TensorProto::INT8:
    case TensorProto::INT16:
    case TensorProto::INT32: {
      const double half = static_cast<double>(int64_t{1} << (bits - 1));
      return {-half, half - 1};
    }
    case TensorProto::UINT4:
    case TensorProto::UINT8:
    case TensorProto::UINT16:
    case TensorProto::UINT32:
      return {0, static_cast<double>((int64_t{1} << bits) - 1)};
    default:
      return {};
  }
}

}  // namespace gq::quantize
