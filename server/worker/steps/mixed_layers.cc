#include "server/worker/steps/mixed_layers.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/quantize/mixed_precision.h"
#include "common/quantize/reduced_precision.h"

namespace gq::worker {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;
using onnx::TensorProto;

constexpr std::string_view kHeadTail = "vint8_bf16_head_tail";

bool HasHeadAndTail(const gq::v1::JobSpec& spec) {
  std::string_view name = spec.config_name();
  if (name.ends_with(".json")) name.remove_suffix(5);
  return name == kHeadTail;
}

bool IsMixedScheme(std::string_view scheme) {
  return scheme == "vint8+bf16" || scheme == "vint8+fp16";
}

std::string Listed(const std::vector<std::string>& names) {
  constexpr size_t kShown = 12;
  std::vector<std::string> shown(names.begin(),
                                 names.begin() + static_cast<long>(std::min(names.size(), kShown)));
  std::string text = base::StrJoin(shown, ", ");
  if (names.size() > kShown) base::StrAppend(&text, " and ", names.size() - kShown, " more");
  return text;
}

// Nodes of these types, in the user's model and, as they became, in the optimized one.
absl::StatusOr<std::vector<std::string>> NodesOfTypes(const gq::v1::JobSpec& spec,
                                                      const graph::Model& user_model,
                                                      const graph::Model* float_model) {
  std::set<std::string> present;
  std::vector<std::string> names;
  std::set<std::string> wanted(spec.fp_op_types().begin(), spec.fp_op_types().end());
  std::set<std::string> found;
  const auto collect = [&](const onnx::GraphProto& graph) {
    for (const onnx::NodeProto& node : graph.node()) {
      present.insert(node.op_type());
      if (!wanted.contains(node.op_type())) continue;
      found.insert(node.op_type());
      if (std::find(names.begin(), names.end(), node.name()) == names.end()) {
        names.push_back(node.name());
      }
    }
  };
  collect(user_model.graph());
  if (float_model != nullptr) collect(float_model->graph());
  for (const std::string& type : wanted) {
    if (found.contains(type) || spec.allow_unmatched()) continue;
    return MakeError(Reason::kPatternUnmatched,
                     StrCat("--fp-op-types ", type, ": the model has no node of this type"),
                     StrCat("it has ", base::StrJoin(present, ", "),
                            "; --allow-unmatched makes this a warning"));
  }
  return names;
}

// Layers of another precision belong among int8 ones with power-of-two scales.
absl::Status CheckBase(const quantize::QuantizeConfig& config, std::string_view flag) {
  const bool int8 =
      config.activation.type == TensorProto::INT8 || config.activation.type == TensorProto::UINT8;
  if (int8 && config.dynamic == quantize::DynamicForm::kNone &&
      config.activation.scale_type == quantize::ScaleType::kPowerOfTwo) {
    return absl::OkStatus();
  }
  return MakeError(Reason::kInvalidFlag,
                   StrCat(flag, " keeps layers in bfloat16 or float16 among int8 ones with ",
                          "power-of-two scales; the scheme ", config.scheme, " has no such layers"),
                   "use it with vint8, xint8, vint8+bf16 or vint8+fp16; --exclude keeps nodes of "
                   "the other schemes in float32");
}

absl::Status CheckCounts(const gq::v1::JobSpec& spec) {
  if (HasHeadAndTail(spec) || (!spec.has_head() && !spec.has_tail())) return absl::OkStatus();
  return MakeError(Reason::kInvalidFlag,
                   StrCat(spec.has_head() ? "--head" : "--tail", " counts layers of ", kHeadTail),
                   StrCat("add --config ", kHeadTail, ", or name the layers with --fp-nodes"));
}

absl::Status KeepHeadAndTail(const gq::v1::JobSpec& spec, const graph::Model& float_model,
                             quantize::ElementType precision, quantize::MixedForm form,
                             Strategy& strategy) {
  const int head = spec.has_head() ? spec.head() : 1;
  const int tail = spec.has_tail() ? spec.tail() : 1;
  GQ_ASSIGN_OR_RETURN(const quantize::HeadAndTail found,
                      quantize::FindHeadAndTail(float_model.graph(), head, tail));
  const std::string_view name = quantize::PrecisionName(precision);
  strategy.sentences.push_back(StrCat("head in ", name, " (", found.head.size(), " nodes, ", head,
                                      " compute layers a path): ", Listed(found.head)));
  strategy.sentences.push_back(StrCat("tail in ", name, " (", found.tail.size(), " nodes, ", tail,
                                      " compute layers a path): ", Listed(found.tail)));
  std::vector<std::string> both = found.head;
  both.insert(both.end(), found.tail.begin(), found.tail.end());
  quantize::PromoteNodes(both, precision, form, &strategy.config);
  return absl::OkStatus();
}

// Why the options of a mixed configuration are what they are.
void ExplainForm(quantize::MixedForm form, quantize::ElementType precision, Strategy& strategy) {
  const std::string_view name = quantize::PrecisionName(precision);
  strategy.sentences.push_back(
      form == quantize::MixedForm::kFloat
          ? StrCat("mixed form float: those layers are float32 in the file and the compiler makes ",
                   name,
                   " of them; DedicatedQDQPair, because the compiler wants a pair for each "
                   "reader")
          : StrCat("mixed form cast: Cast pairs to ", name,
                   " (BF16QDQToCast), both pairs where a "
                   "tensor changes its type (EnableDualQuantNodePairs), int8 biases "
                   "(Int32Bias false), Split as Slice (ConvertSplitToSlice)"));
}

}  // namespace

absl::StatusOr<quantize::ElementType> PrecisionOfLayers(const gq::v1::JobSpec& spec) {
  const bool fp16_scheme = spec.scheme() == "vint8+fp16";
  if (spec.fp_precision().empty())
    return fp16_scheme ? TensorProto::FLOAT16 : TensorProto::BFLOAT16;
  const bool fp16 = spec.fp_precision() == "fp16";
  if (IsMixedScheme(spec.scheme()) && fp16 != fp16_scheme) {
    return MakeError(
        Reason::kInvalidFlag,
        StrCat("--fp-precision ", spec.fp_precision(), " contradicts --scheme ", spec.scheme()),
        "leave one of the two out");
  }
  return fp16 ? TensorProto::FLOAT16 : TensorProto::BFLOAT16;
}

absl::StatusOr<quantize::MixedForm> MixedFormOf(const gq::v1::JobSpec& spec) {
  if (spec.mixed_form().empty() || spec.mixed_form() == "float") return quantize::MixedForm::kFloat;
  if (spec.mixed_form() == "cast") return quantize::MixedForm::kCast;
  return MakeError(Reason::kInvalidFlag,
                   StrCat("--mixed-form '", spec.mixed_form(), "': expected float or cast"));
}

absl::Status KeepNamedLayers(const gq::v1::JobSpec& spec, const graph::Model& user_model,
                             const graph::Model* float_model, Strategy& strategy) {
  GQ_ASSIGN_OR_RETURN(const quantize::ElementType precision, PrecisionOfLayers(spec));
  GQ_ASSIGN_OR_RETURN(const quantize::MixedForm form, MixedFormOf(spec));
  GQ_RETURN_IF_ERROR(CheckCounts(spec));
  const bool named = spec.fp_nodes_size() > 0 || spec.fp_op_types_size() > 0;
  if (!named && !HasHeadAndTail(spec)) {
    const bool searched = spec.explore() || IsMixedScheme(spec.scheme());
    if (!spec.fp_precision().empty() && !searched) {
      return MakeError(Reason::kInvalidFlag, "--fp-precision names no layers",
                       "add --fp-nodes or --fp-op-types");
    }
    if (!spec.mixed_form().empty() && !searched) {
      return MakeError(Reason::kInvalidFlag, "--mixed-form: no layer has another precision",
                       "add --fp-nodes, --fp-op-types, --config vint8_bf16_head_tail or --explore");
    }
    return absl::OkStatus();
  }
  GQ_RETURN_IF_ERROR(CheckBase(strategy.config, spec.fp_nodes_size() > 0 ? "--fp-nodes"
                                                : named                  ? "--fp-op-types"
                                                        : "--config vint8_bf16_head_tail"));
  std::vector<std::string> names(spec.fp_nodes().begin(), spec.fp_nodes().end());
  if (spec.fp_op_types_size() > 0) {
    GQ_ASSIGN_OR_RETURN(const std::vector<std::string> more,
                        NodesOfTypes(spec, user_model, float_model));
    for (const std::string& name : more) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  if (!names.empty()) {
    quantize::PromoteNodes(names, precision, form, &strategy.config);
    strategy.sentences.push_back(
        StrCat("in ", quantize::PrecisionName(precision), " on request: ", Listed(names)));
  }
  if (HasHeadAndTail(spec) && float_model != nullptr) {
    GQ_RETURN_IF_ERROR(KeepHeadAndTail(spec, *float_model, precision, form, strategy));
  }
  ExplainForm(form, precision, strategy);
  const std::string mixed = precision == TensorProto::FLOAT16 ? "vint8+fp16" : "vint8+bf16";
  if (strategy.config.scheme == "vint8" || IsMixedScheme(strategy.config.scheme)) {
    strategy.config.scheme = mixed;
  }
  return absl::OkStatus();
}

}  // namespace gq::worker
