// Small models, the golden vectors beside the source tree, and runs of a model.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/model.h"
#include "common/quantize/quantize.h"
#include "common/runtime/data_set.h"
#include "common/runtime/tensor.h"
#include "gtest/gtest.h"

namespace gq::quantize {

struct Constant {
  std::vector<int64_t> dims;
  std::vector<float> values;
};
// A model in ONNX's text format with further float initializers, shapes inferred; fails the test
// when it does not parse.
graph::Model ParseModel(const std::string& text,
                        const std::map<std::string, Constant>& constants = {});

// One folder of the golden vectors, and the same models prepared by this product.
struct VectorCase {
  graph::Model model;     // model.onnx as it is
  graph::Model prepared;  // pre_N.onnx
  std::filesystem::path calibration;
  std::filesystem::path evaluation;
};
// ../shared/vectors/quark; empty when it is not there.
std::filesystem::path VectorFolder();
absl::StatusOr<VectorCase> LoadCase(const std::string& name, const std::string& prepared);

// Quantizes with `samples` (a .npz, or empty for random data).
absl::StatusOr<QuantizeResult> QuantizeWith(const graph::Model& model, const QuantizeConfig& config,
                                            const std::filesystem::path& samples = {},
                                            const QuantizeInputs& inputs = {});

// Outputs of all samples of a .npz (or of 4 random ones), one after the other, by name.
using Outputs = std::map<std::string, std::vector<float>>;
absl::StatusOr<Outputs> RunModel(const graph::Model& model,
                                 const std::filesystem::path& samples = {});

// 10 log10(sum r^2 / sum (r - a)^2) over all outputs.
double SignalToNoise(const Outputs& reference, const Outputs& actual);

// The same of a quantized case against its float model on the evaluation samples.
double SignalToNoiseOf(const VectorCase& vectors, const QuantizeConfig& config);

const onnx::NodeProto* FindNode(const graph::Model& model, const std::string& name);
const onnx::NodeProto* ProducerOf(const graph::Model& model, const std::string& tensor);
int CountNodes(const graph::Model& model, const std::string& op_type);

}  // namespace gq::quantize

// Leaves a test out where the vectors are not beside the source tree.
#define GQ_NEED_VECTORS()                                                                       \
  if (gq::quantize::VectorFolder().empty()) {                                                   \
    GTEST_SKIP() << "../shared/vectors/quark is not there: the golden vectors are not shipped"; \
  }
