#include "common/quantize/emit.h"

#include "common/base/status.h"
#include "common/quantize/names.h"

namespace gq::quantize {
namespace {

void ImportDomains(QuantizeContext& context) {
  for (const auto& node : context.model.graph().node()) {
    const std::string& domain = node.domain();
    if (domain != kMicrosoftDomain && domain != kQuarkDomain) continue;
    if (context.model.OpsetOf(domain) == 0) context.model.SetOpset(domain, 1);
  }
}

// With pairs on weights Quark leaves the parameters of removed pairs behind.
bool KeepsUnusedInitializers(const Settings& settings) {
  return settings.quark && settings.weight_pairs && settings.path != Path::kExtended &&
         !settings.clip_to_relu && !settings.int16_bias;
}

}  // namespace

absl::Status FinishModel(QuantizeContext& context) {
  if (!KeepsUnusedInitializers(context.settings)) {
    graph::RemoveUnusedInitializers(context.model.mutable_graph());
  }
  GQ_RETURN_IF_ERROR(graph::SortTopologically(context.model.mutable_graph()));
  ImportDomains(context);
  context.model.CompactStore();
  onnx::ModelProto* proto = context.model.mutable_proto();
  proto->set_producer_name(context.settings.quark ? "quark.onnx" : "gq");
  proto->set_producer_version(context.settings.quark ? "0.13" : GQ_VERSION);
  return absl::OkStatus();
}

}  // namespace gq::quantize
