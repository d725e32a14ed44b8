#include "common/quantize/emit.h"

#include <map>
#include <unordered_map>
#include <utility>

#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/quantize/names.h"
#include "common/quantize/quark_json.h"
#include "common/quantize/reduced_precision.h"
#include "common/quantize/value_info.h"

namespace gq::quantize {
namespace {

constexpr int64_t kLeastSharedBytes = 64;

// Only domains that nodes use; the default one stays.
void ImportDomains(QuantizeContext& context) {
  std::map<std::string, bool> used;
  for (const auto& node : context.model.graph().node()) used[node.domain()] = true;
  for (const auto domain : {kMicrosoftDomain, kQuarkDomain}) {
    if (used.contains(std::string(domain)) && context.model.OpsetOf(domain) == 0) {
      context.model.SetOpset(domain, 1);
    }
  }
}

// With pairs on weights Quark leaves the parameters of removed pairs behind.
bool KeepsUnusedInitializers(const Settings& settings) {
  return settings.quark && settings.weight_pairs && settings.path != Path::kExtended &&
         !settings.clip_to_relu && !settings.int16_bias;
}

// Constants of the same type, shape and data become one. Scales and zero points keep their names:
// tools look for them.
void ShareEqualInitializers(QuantizeContext& context) {
  onnx::GraphProto* graph = context.model.mutable_graph();
  std::map<std::string, std::string> first;  // digest -> name
  std::unordered_map<std::string, std::string> same;
  for (const auto& tensor : graph->initializer()) {
    if (context.model.DataBytes(tensor) < kLeastSharedBytes) continue;
    const auto data = context.model.Data(tensor);
    if (!data.ok()) continue;
    std::string key = std::to_string(tensor.data_type());
    for (const int64_t dim : tensor.dims()) key += "," + std::to_string(dim);
    key += ":" + base::Sha256Hex(
                     {reinterpret_cast<const char*>(data->bytes().data()), data->bytes().size()});
    const auto [it, added] = first.emplace(std::move(key), tensor.name());
    if (!added) same.emplace(tensor.name(), it->second);
  }
  graph::ReplaceUses(std::move(same), graph);
  graph::RemoveUnusedInitializers(graph);
}

void SetMetadata(std::string_view key, std::string_view value, onnx::ModelProto* proto) {
  for (auto& entry : *proto->mutable_metadata_props()) {
    if (entry.key() != key) continue;
    entry.set_value(std::string(value));
    return;
  }
  auto* entry = proto->add_metadata_props();
  entry->set_key(std::string(key));
  entry->set_value(std::string(value));
}

void SetProducer(QuantizeContext& context) {
  onnx::ModelProto* proto = context.model.mutable_proto();
  if (context.settings.quark) {
    proto->set_producer_name("quark.onnx");
    proto->set_producer_version("0.13");
    return;
  }
  proto->set_producer_name("gq");
  proto->set_producer_version(GQ_VERSION);
  SetMetadata("gq_version", GQ_VERSION, proto);
  SetMetadata("gq_config_digest", context.config_digest, proto);
  if (!context.config.float_precision.empty()) {
    SetMetadata(kFloatPrecisionKey, context.config.float_precision, proto);
  } else if (context.settings.bf16_weights_only) {
    SetMetadata(kFloatPrecisionKey, "bf16", proto);
  }
}

}  // namespace

absl::Status FinishModel(QuantizeContext& context) {
  onnx::GraphProto* graph = context.model.mutable_graph();
  if (!context.settings.quark) ShareEqualInitializers(context);
  if (!KeepsUnusedInitializers(context.settings)) graph::RemoveUnusedInitializers(graph);
  GQ_RETURN_IF_ERROR(graph::SortTopologically(graph));
  ImportDomains(context);
  if (!context.settings.quark) {
    graph::MakeNodeNamesUnique(graph);
    GQ_RETURN_IF_ERROR(CompleteValueInfo(context));
  }
  context.model.CompactStore();
  SetProducer(context);
  return absl::OkStatus();
}

}  // namespace gq::quantize
