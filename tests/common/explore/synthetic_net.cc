#include "tests/common/explore/synthetic_net.h"

#include <random>

#include "common/graph/shape_inference.h"

namespace gq::explore {
namespace {

constexpr int kChannels = 8;

void AddTensor(const std::string& name, const std::vector<int64_t>& dims,
               const std::vector<float>& values, onnx::GraphProto* graph) {
  auto* tensor = graph->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t dim : dims) tensor->add_dims(dim);
  for (const float value : values) tensor->add_float_data(value);
}

void AddValue(const std::string& name, onnx::ValueInfoProto* value) {
  value->set_name(name);
  auto* type = value->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  for (const int64_t dim : {1, kChannels, 4, 4}) {
    type->mutable_shape()->add_dim()->set_dim_value(dim);
  }
}

// The last channel is zero everywhere: its row of weights and its bias are.
std::vector<float> Weights(bool spoiled, float factor, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-0.5f, 0.7f);
  std::vector<float> weights;
  for (int out = 0; out < kChannels; ++out) {
    for (int in = 0; in < kChannels; ++in) {
      float value = uniform(random) * factor;
      if (out == kChannels - 1) value = 0;
      if (in == kChannels - 1 && out == 0 && spoiled) value = 100 * factor;
      weights.push_back(value);
    }
  }
  return weights;
}

std::unique_ptr<runtime::DataSet> Samples(const graph::Model& model, int count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(0, 1);
  std::vector<std::vector<runtime::Tensor>> samples;
  for (int i = 0; i < count; ++i) {
    std::vector<float> values(kChannels * 16);
    for (size_t k = 0; k < values.size(); ++k) {
      values[k] = k < (kChannels - 1) * 16 ? uniform(random) : 0.0f;
    }
    samples.push_back({runtime::Tensor::Of<float>({1, kChannels, 4, 4}, values)});
  }
  const auto specs = runtime::InputSpecs(model);
  EXPECT_TRUE(specs.ok()) << specs.status();
  auto data = runtime::DataSet::FromSamples(std::move(samples), *specs);
  EXPECT_TRUE(data.ok()) << data.status();
  return *std::move(data);
}

}  // namespace

SyntheticNet::SyntheticNet(int layers, const std::set<int>& spoiled, const std::set<int>& loud) {
  onnx::ModelProto proto;
  proto.set_ir_version(8);
  proto.add_opset_import()->set_version(17);
  onnx::GraphProto* graph = proto.mutable_graph();
  graph->set_name("chain");
  AddValue("x", graph->add_input());
  AddValue("y", graph->add_output());
  std::mt19937 random(7);
  std::string input = "x";
  float loudness = 1;
  for (int i = 0; i < layers; ++i) {
    const std::string number = std::to_string(i);
    const float wanted = loud.contains(i) ? 16.0f : 1.0f;
    AddTensor("w" + number, {kChannels, kChannels, 1, 1},
              Weights(spoiled.contains(i), wanted / loudness, random), graph);
    loudness = wanted;
    auto* conv = graph->add_node();
    conv->set_op_type("Conv");
    conv->set_name("conv" + number);
    conv->add_input(input);
    conv->add_input("w" + number);
    conv->add_output("c" + number);
    auto* relu = graph->add_node();
    relu->set_op_type("Relu");
    relu->set_name("relu" + number);
    relu->add_input("c" + number);
    input = i + 1 == layers ? "y" : "r" + number;
    relu->add_output(input);
  }
  auto loaded = graph::LoadModelFromBytes(proto.SerializeAsString(), "chain");
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  model = *std::move(loaded);
  const auto inferred = graph::InferShapes(graph::InferenceMode::kStrict, &model);
  EXPECT_TRUE(inferred.ok()) << inferred;
  config = *quantize::ConfigOfScheme("vint8");
  calibration = Samples(model, 8, 1);
  evaluation = Samples(model, 16, 2);
  base::NullReporter quiet;
  auto made = quantize::Quantize(model, config, *calibration, quiet);
  EXPECT_TRUE(made.ok()) << made.status();
  start = *std::move(made);
}

Problem SyntheticNet::MakeProblem(const std::vector<std::string>& targets, const Limits& limits) {
  accuracy::EvaluateOptions options;
  options.targets = *accuracy::ParseTargets(targets);
  return {.float_model = model,
          .config = config,
          .recover = recover,
          .origin = nullptr,
          .start = start.model,
          .source = model,
          .source_config = config,
          .start_report = start.report,
          .calibration = *calibration,
          .evaluation = *evaluation,
          .evaluate = options,
          .limits = limits};
}

}  // namespace gq::explore
