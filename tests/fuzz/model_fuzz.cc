// Loads whatever comes, as a binary and as a text model, and does with it what a job does before it
// runs anything: analysis, shape inference, pinning and the passes of the graph optimizer.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/status.h"
#include "common/graph/analysis.h"
#include "common/graph/model.h"
#include "common/graph/optimize.h"

namespace {

// Folding is done by ONNX Runtime, which is not what is tested here.
class NoEvaluator : public gq::graph::ConstantEvaluator {
 public:
  absl::StatusOr<std::vector<gq::graph::TensorView>> Evaluate(const gq::graph::Model&) override {
    return gq::base::MakeError(gq::base::Reason::kRuntimeFailed, "nothing is computed");
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  gq::graph::LoadOptions options;
  options.max_total_bytes = int64_t{64} << 20;
  for (const char* name : {"fuzz.onnx", "fuzz.onnxtxt"}) {
    auto model = gq::graph::LoadModelFromBytes(bytes, name, options);
    if (!model.ok()) continue;
    gq::graph::Analyze(*model);
    NoEvaluator evaluator;
    gq::base::NullReporter reporter;
    (void)gq::graph::OptimizeGraph(*model, {}, evaluator, reporter);
  }
  return 0;
}
