#include "tests/common/explore/residual_net.h"

#include <random>
#include <string>
#include <vector>

#include "common/graph/shape_inference.h"
#include "common/quantize/scheme.h"
#include "gtest/gtest.h"

namespace gq::explore {
namespace {

constexpr int kChannels = 6;
constexpr int kSide = 5;

void AddValue(const std::string& name, onnx::ValueInfoProto* value) {
  value->set_name(name);
  auto* type = value->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  for (const int64_t dim : {1, kChannels, kSide, kSide}) {
    type->mutable_shape()->add_dim()->set_dim_value(dim);
  }
}

onnx::NodeProto* AddNode(const char* type, const std::string& name,
                         const std::vector<std::string>& inputs, const std::string& output,
                         onnx::GraphProto* graph) {
  auto* node = graph->add_node();
  node->set_op_type(type);
  node->set_name(name);
  for (const std::string& input : inputs) node->add_input(input);
  node->add_output(output);
  return node;
}

void AddConv(const std::string& name, const std::string& input, const std::string& output,
             std::mt19937& random, onnx::GraphProto* graph) {
  std::normal_distribution<float> normal(0, 0.35f);
  auto* weight = graph->add_initializer();
  weight->set_name(name + "_w");
  weight->set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t dim : {kChannels, kChannels, 1, 1}) weight->add_dims(dim);
  for (int i = 0; i < kChannels * kChannels; ++i) weight->add_float_data(normal(random));
  AddNode("Conv", name, {input, name + "_w"}, output, graph);
}

}  // namespace

ResidualNet::ResidualNet(int blocks) {
  onnx::ModelProto proto;
  proto.set_ir_version(8);
  proto.add_opset_import()->set_version(17);
  onnx::GraphProto* graph = proto.mutable_graph();
  graph->set_name("residual");
  AddValue("x", graph->add_input());
  AddValue("y", graph->add_output());
  std::mt19937 random(3);
  AddConv("stem", "x", "s", random, graph);
  AddNode("Relu", "stem_relu", {"s"}, "stream", graph);
  std::string stream = "stream";
  for (int b = 0; b < blocks; ++b) {
    const std::string number = std::to_string(b);
    AddConv("conv" + number + "a", stream, "a" + number, random, graph);
    AddNode("Relu", "relu" + number, {"a" + number}, "r" + number, graph);
    AddConv("conv" + number + "b", "r" + number, "b" + number, random, graph);
    const std::string sum = b + 1 == blocks ? "y" : "stream" + number;
    AddNode("Add", "add" + number, {"b" + number, stream}, sum, graph);
    stream = sum;
  }
  auto loaded = graph::LoadModelFromBytes(proto.SerializeAsString(), "residual");
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  model = *std::move(loaded);
  const auto inferred = graph::InferShapes(graph::InferenceMode::kStrict, &model);
  EXPECT_TRUE(inferred.ok()) << inferred;
  std::vector<std::vector<runtime::Tensor>> samples;
  std::normal_distribution<float> normal(0, 1);
  for (int i = 0; i < 10; ++i) {
    std::vector<float> values(kChannels * kSide * kSide);
    for (float& value : values) value = normal(random);
    samples.push_back({runtime::Tensor::Of<float>({1, kChannels, kSide, kSide}, values)});
  }
  const auto specs = runtime::InputSpecs(model);
  EXPECT_TRUE(specs.ok()) << specs.status();
  auto opened = runtime::DataSet::FromSamples(std::move(samples), *specs);
  EXPECT_TRUE(opened.ok()) << opened.status();
  data = *std::move(opened);
  config = *quantize::ConfigOfScheme("vint8");
  base::NullReporter quiet;
  auto made = quantize::Quantize(model, config, *data, quiet);
  EXPECT_TRUE(made.ok()) << made.status();
  start = *std::move(made);
}

Problem ResidualNet::MakeProblem() const {
  accuracy::EvaluateOptions options;
  options.targets = *accuracy::ParseTargets({"psnr>=120"});
  options.parallel_samples = 2;
  return {.float_model = model,
          .config = config,
          .recover = recover,
          .origin = nullptr,
          .start = start.model,
          .source = model,
          .source_config = config,
          .start_report = start.report,
          .calibration = *data,
          .evaluation = *data,
          .evaluate = options,
          .limits = {}};
}

}  // namespace gq::explore
