#include "common/calibrate/switched_rounding.h"

#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/calibrate/processor.h"
#include "common/calibrate/tapped_graph.h"
#include "common/graph/tensor_view.h"
#include "common/runtime/float_operator.h"

#if GQ_HAS_AVX2_TARGET
#include <immintrin.h>
#endif

namespace gq::calibrate {
namespace {

constexpr char kRoundOperator[] = "Round";
constexpr size_t kPiece = 32768;

float RoundOne(const Rounding& rounding, float value) {
  switch (rounding.kind) {
    case Rounding::Kind::kNone:
      return value;
    case Rounding::Kind::kInteger: {
      const float integer = std::nearbyint(value / rounding.scale) + rounding.zero_point;
      return (std::clamp(integer, rounding.qmin, rounding.qmax) - rounding.zero_point) *
             rounding.scale;
    }
    case Rounding::Kind::kBfloat16:
      return graph::BFloat16ToFloat(graph::FloatToBFloat16(value));
    case Rounding::Kind::kFloat16:
      return graph::HalfToFloat(graph::FloatToHalf(value));
  }
  return value;
}

#if GQ_HAS_AVX2_TARGET
__attribute__((target("avx2"))) size_t RoundIntegersAvx2(const Rounding& rounding,
                                                         std::span<const float> from,
                                                         std::span<float> to) {
  const __m256 scale = _mm256_set1_ps(rounding.scale);
  const __m256 zero_point = _mm256_set1_ps(rounding.zero_point);
  const __m256 low = _mm256_set1_ps(rounding.qmin);
  const __m256 high = _mm256_set1_ps(rounding.qmax);
  size_t i = 0;
  for (; i + 8 <= from.size(); i += 8) {
    __m256 q = _mm256_div_ps(_mm256_loadu_ps(from.data() + i), scale);
    q = _mm256_round_ps(q, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    q = _mm256_max_ps(low, _mm256_min_ps(high, _mm256_add_ps(q, zero_point)));
    _mm256_storeu_ps(to.data() + i, _mm256_mul_ps(_mm256_sub_ps(q, zero_point), scale));
  }
  return i;
}

__attribute__((target("avx2"))) size_t RoundBfloat16Avx2(std::span<const float> from,
                                                         std::span<float> to) {
  const __m256i half = _mm256_set1_epi32(0x7fff);
  const __m256i one = _mm256_set1_epi32(1);
  const __m256i keep = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  size_t i = 0;
  for (; i + 8 <= from.size(); i += 8) {
    const __m256 value = _mm256_loadu_ps(from.data() + i);
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);
    const __m256i rounded =
        _mm256_and_si256(_mm256_add_epi32(_mm256_add_epi32(bits, half), odd), keep);
    // The carry would turn some NaN into infinity.
    const __m256 nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
    _mm256_storeu_ps(to.data() + i, _mm256_blendv_ps(_mm256_castsi256_ps(rounded), value, nan));
  }
  return i;
}
#endif

// How many leading values were rounded.
size_t RoundFast([[maybe_unused]] const Rounding& rounding,
                 [[maybe_unused]] std::span<const float> from,
                 [[maybe_unused]] std::span<float> to) {
#if GQ_HAS_AVX2_TARGET
  if (HasAvx2()) {
    if (rounding.kind == Rounding::Kind::kInteger) return RoundIntegersAvx2(rounding, from, to);
    if (rounding.kind == Rounding::Kind::kBfloat16) return RoundBfloat16Avx2(from, to);
  }
#endif
  return 0;
}

class SwitchedSession : public SwitchedModel {
 public:
  absl::Status Start(const graph::Model& model, std::span<const std::string> tensors,
                     runtime::SessionOptions options) {
    GQ_ASSIGN_OR_RETURN(const runtime::OrtLibrary* library, runtime::OrtLibrary::Get());
    runtime::FloatOperatorDefinition definition{
        .name = kRoundOperator,
        .inputs = 1,
        .memory = runtime::FloatOperatorDefinition::Memory::kInPlace,
        .compute = [this](const runtime::FloatCall& call) { RoundCall(call); }};
    GQ_ASSIGN_OR_RETURN(operators_, runtime::FloatOperators::Create(
                                        *library, {std::move(definition)}, options.threads));
    TappedGraph graph = InsertTaps(model, tensors, {.op_type = kRoundOperator, .skip_ends = false},
                                   [this](const std::string& tensor) {
                                     const auto id = static_cast<int64_t>(roundings_.size());
                                     roundings_.emplace_back();
                                     numbers_[tensor] = id;
                                     return id;
                                   });
    left_out_ = std::move(graph.left_out);
    options.custom_op_domains.push_back(operators_->domain());
    GQ_ASSIGN_OR_RETURN(runtime::Session session, runtime::Session::Create(graph.model, options));
    session_ = std::make_unique<runtime::Session>(std::move(session));
    return absl::OkStatus();
  }

  bool Set(std::string_view tensor, const Rounding& rounding) override {
    const auto found = numbers_.find(tensor);
    if (found == numbers_.end()) return false;
    roundings_[static_cast<size_t>(found->second)] = rounding;
    return true;
  }
  void ClearAll() override { std::fill(roundings_.begin(), roundings_.end(), Rounding{}); }
  const runtime::Session& session() const override { return *session_; }
  const std::map<std::string, std::string, std::less<>>& left_out() const override {
    return left_out_;
  }

 private:
  void RoundCall(const runtime::FloatCall& call) const {
    const Rounding& rounding = roundings_[static_cast<size_t>(call.id)];
    const std::span<const float> from = call.inputs[0];
    if (rounding.kind == Rounding::Kind::kNone && from.data() == call.output.data()) return;
    const size_t pieces = (from.size() + kPiece - 1) / kPiece;
    call.loop.For(pieces, [&](size_t piece) {
      const size_t begin = piece * kPiece;
      const size_t count = std::min(kPiece, from.size() - begin);
      Round(rounding, from.subspan(begin, count), call.output.subspan(begin, count));
    });
  }

  std::vector<Rounding> roundings_;
  std::map<std::string, int64_t, std::less<>> numbers_;
  std::map<std::string, std::string, std::less<>> left_out_;
  std::unique_ptr<runtime::FloatOperators> operators_;
  std::unique_ptr<runtime::Session> session_;  // goes before the operators
};

}  // namespace

void Round(const Rounding& rounding, std::span<const float> from, std::span<float> to) {
  if (rounding.kind == Rounding::Kind::kNone) {
    if (from.data() != to.data()) std::copy(from.begin(), from.end(), to.begin());
    return;
  }
  for (size_t i = RoundFast(rounding, from, to); i < from.size(); ++i) {
    to[i] = RoundOne(rounding, from[i]);
  }
}

absl::StatusOr<std::unique_ptr<SwitchedModel>> SwitchedModel::Create(
    const graph::Model& model, std::span<const std::string> tensors,
    const runtime::SessionOptions& options) {
  auto made = std::make_unique<SwitchedSession>();
  GQ_RETURN_IF_ERROR(made->Start(model, tensors, options));
  return made;
}

}  // namespace gq::calibrate
