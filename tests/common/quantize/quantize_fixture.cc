#include "tests/common/quantize/quantize_fixture.h"

#include <cmath>

#include "common/base/status.h"
#include "common/graph/shape_inference.h"
#include "common/runtime/session.h"
#include "onnx/defs/parser.h"

namespace gq::quantize {

graph::Model ParseModel(const std::string& text, const std::map<std::string, Constant>& constants) {
  onnx::ModelProto proto;
  onnx::OnnxParser parser(text.c_str());
  const auto parsed = parser.Parse(proto);
  EXPECT_TRUE(parsed.IsOK()) << parsed.ErrorMessage();
  for (const auto& [name, constant] : constants) {
    auto* tensor = proto.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    for (const int64_t dim : constant.dims) tensor->add_dims(dim);
    for (const float value : constant.values) tensor->add_float_data(value);
  }
  auto model = graph::LoadModelFromBytes(proto.SerializeAsString(), "test");
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return {};
  const auto inferred = graph::InferShapes(graph::InferenceMode::kStrict, &*model);
  EXPECT_TRUE(inferred.ok()) << inferred;
  return *std::move(model);
}

std::filesystem::path VectorFolder() {
  const std::filesystem::path folder = "../shared/vectors/quark";
  return std::filesystem::exists(folder / "index.json") ? folder : std::filesystem::path();
}

absl::StatusOr<VectorCase> LoadCase(const std::string& name, const std::string& prepared) {
  const auto folder = VectorFolder() / name;
  VectorCase vectors;
  GQ_ASSIGN_OR_RETURN(vectors.model, graph::LoadModel(folder / "model.onnx"));
  GQ_ASSIGN_OR_RETURN(vectors.prepared, graph::LoadModel(folder / prepared));
  vectors.calibration = folder / "calib.npz";
  vectors.evaluation = folder / "eval.npz";
  return vectors;
}

absl::StatusOr<std::unique_ptr<runtime::DataSet>> Samples(const graph::Model& model,
                                                          const std::filesystem::path& path) {
  GQ_ASSIGN_OR_RETURN(const auto specs, runtime::InputSpecs(model));
  if (path.empty()) return runtime::DataSet::Random(specs, {.num_samples = 4});
  return runtime::DataSet::Open(std::span(&path, 1), specs);
}

absl::StatusOr<QuantizeResult> QuantizeWith(const graph::Model& model, const QuantizeConfig& config,
                                            const std::filesystem::path& samples,
                                            const QuantizeInputs& inputs) {
  GQ_ASSIGN_OR_RETURN(const auto data, Samples(model, samples));
  base::NullReporter reporter;
  return Quantize(model, config, *data, reporter, inputs);
}

absl::StatusOr<Outputs> RunModel(const graph::Model& model, const std::filesystem::path& samples) {
  GQ_ASSIGN_OR_RETURN(const auto data, Samples(model, samples));
  GQ_ASSIGN_OR_RETURN(
      const auto session,
      runtime::Session::Create(model, {.optimization = runtime::OptimizationLevel::kBasic}));
  Outputs outputs;
  for (int64_t i = 0; i < data->size(); ++i) {
    std::vector<runtime::Tensor> inputs;
    std::vector<runtime::Tensor> results;
    GQ_RETURN_IF_ERROR(data->Read(i, &inputs).status());
    GQ_RETURN_IF_ERROR(session.Run(inputs, &results));
    for (size_t o = 0; o < results.size(); ++o) {
      if (results[o].dtype() != onnx::TensorProto::FLOAT) continue;
      const auto values = results[o].As<float>();
      auto& all = outputs[session.outputs()[o].name];
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return outputs;
}

double SignalToNoise(const Outputs& reference, const Outputs& actual) {
  double signal = 0;
  double noise = 0;
  for (const auto& [name, values] : reference) {
    const auto& other = actual.at(name);
    for (size_t i = 0; i < values.size(); ++i) {
      const double difference = static_cast<double>(values[i]) - other[i];
      signal += static_cast<double>(values[i]) * values[i];
      noise += difference * difference;
    }
  }
  return noise == 0 ? 200 : 10 * std::log10(signal / noise);
}

double SignalToNoiseOf(const VectorCase& vectors, const QuantizeConfig& config) {
  const auto result = QuantizeWith(vectors.prepared, config, vectors.calibration);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return 0;
  const auto reference = RunModel(vectors.model, vectors.evaluation);
  const auto actual = RunModel(result->model, vectors.evaluation);
  EXPECT_TRUE(reference.ok() && actual.ok()) << actual.status();
  return reference.ok() && actual.ok() ? SignalToNoise(*reference, *actual) : 0;
}

const onnx::NodeProto* FindNode(const graph::Model& model, const std::string& name) {
  for (const auto& node : model.graph().node()) {
    if (node.name() == name) return &node;
  }
  return nullptr;
}

const onnx::NodeProto* ProducerOf(const graph::Model& model, const std::string& tensor) {
  for (const auto& node : model.graph().node()) {
    for (const auto& output : node.output()) {
      if (output == tensor) return &node;
    }
  }
  return nullptr;
}

int CountNodes(const graph::Model& model, const std::string& op_type) {
  int count = 0;
  for (const auto& node : model.graph().node()) count += node.op_type() == op_type ? 1 : 0;
  return count;
}

}  // namespace gq::quantize
