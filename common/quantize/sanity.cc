#include "common/quantize/sanity.h"

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/quantize/names.h"
#include "common/runtime/session.h"

namespace gq::quantize {
namespace {

using base::MakeError;
using base::Reason;

constexpr int64_t kMostCopiedBytes = int64_t{256} << 20;

absl::Status Failed(std::string_view what, const absl::Status& status) {
  return MakeError(
      Reason::kSanityCheckFailed,
      base::StrCat("The quantized model ", what, ": ", base::FromAbsl(status.message())),
      "Report this with the model; --exclude of the named node may help meanwhile.");
}

bool HasQuarkOperators(const graph::Model& model) {
  for (const auto& node : model.graph().node()) {
    if (node.domain() == kQuarkDomain) return true;
  }
  return false;
}

int64_t StoredBytes(const graph::Model& model) {
  int64_t bytes = 0;
  for (const auto& [key, buffer] : model.store().buffers()) {
    bytes += static_cast<int64_t>(buffer.bytes.size());
  }
  return bytes;
}

}  // namespace

absl::StatusOr<nlohmann::json> CheckSanity(const graph::Model& model, runtime::DataSet& data) {
  nlohmann::json report = {{"checked", false}, {"identical", false}, {"ran", false}};
  const bool standard = !HasQuarkOperators(model);
  graph::Model loaded;
  if (StoredBytes(model) < kMostCopiedBytes) {
    GQ_ASSIGN_OR_RETURN(const onnx::ModelProto inline_proto, model.ToInlineProto());
    auto reloaded = graph::LoadModelFromBytes(inline_proto.SerializeAsString(), "quantized model",
                                              {.check = standard, .normalize = false});
    if (!reloaded.ok()) return Failed("is not valid", reloaded.status());
    loaded = *std::move(reloaded);
    report["checked"] = standard;
    report["identical"] = loaded.Digest() == model.Digest();
    if (!report["identical"].get<bool>()) {
      return Failed("differs after it was saved and loaded", absl::OkStatus());
    }
  } else {
    // Too large to hold twice.
    if (standard) {
      if (const absl::Status status = graph::CheckModel(model); !status.ok()) {
        return Failed("is not valid", status);
      }
    }
    report["checked"] = standard;
    loaded = model;
  }
  if (!standard || data.size() == 0) {
    report["not_run"] = data.size() == 0 ? "no sample" : "operators of com.amd.quark";
    return report;
  }
  runtime::SessionOptions options;
  options.optimization = runtime::OptimizationLevel::kBasic;
  const auto session = runtime::Session::Create(loaded, options);
  if (!session.ok()) return Failed("does not load in ONNX Runtime", session.status());
  std::vector<runtime::Tensor> inputs;
  std::vector<runtime::Tensor> outputs;
  GQ_ASSIGN_OR_RETURN(const auto read, data.Read(0, &inputs));
  if (read != runtime::DataSet::ReadResult::kSample) {
    report["not_run"] = "the first sample is left out";
    return report;
  }
  if (const absl::Status status = session->Run(inputs, &outputs); !status.ok()) {
    return Failed("does not run", status);
  }
  bool finite = true;
  for (const auto& output : outputs) finite = finite && runtime::FindNonFinite(output) < 0;
  report["ran"] = true;
  report["finite"] = finite;
  return report;
}

}  // namespace gq::quantize
