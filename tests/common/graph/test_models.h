// Tiny models, written as ONNX text, and their outputs.
#pragma once

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/reporter.h"
#include "common/base/status.h"
#include "common/graph/graph_index.h"
#include "common/graph/model.h"
#include "common/runtime/session.h"
#include "gtest/gtest.h"
#include "onnx/defs/parser.h"
#include "tests/temporary_folder.h"

namespace gq::graph {

inline onnx::ModelProto ParseText(const std::string& text) {
  onnx::ModelProto proto;
  const auto status = onnx::OnnxParser::Parse(proto, text.c_str());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return proto;
}

// The model of `graph`, normalized and checked. `graph` is what stands after the header.
inline Model TestModel(const std::string& graph, int opset = 17, int ir_version = 8,
                       const std::string& more_imports = "") {
  const std::string text = "<ir_version: " + std::to_string(ir_version) +
                           ", opset_import: [\"\" : " + std::to_string(opset) + more_imports +
                           "]>\n" + graph;
  auto model = LoadModelFromBytes(text, "test.onnxtxt");
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : Model();
}

inline std::vector<std::string> OpTypes(const Model& model) {
  std::vector<std::string> types;
  for (const auto& node : model.graph().node()) types.push_back(node.op_type());
  return types;
}

inline std::vector<std::string> NodeNames(const Model& model) {
  std::vector<std::string> names;
  for (const auto& node : model.graph().node()) names.push_back(node.name());
  return names;
}

// Float outputs of the model, one after the other, on seeded standard-normal inputs (integers 0 to
// 9).
inline std::vector<float> RunModel(const Model& model) {
  runtime::SessionOptions options;
  options.optimization = runtime::OptimizationLevel::kNone;
  auto session = runtime::Session::Create(model, options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<runtime::Tensor> inputs;
  for (const auto& info : session->inputs()) {
    std::vector<int64_t> shape = info.shape;
    for (auto& dim : shape) dim = dim < 0 ? 1 : dim;
    int64_t size = 1;
    for (const int64_t dim : shape) size *= dim;
    if (info.dtype == onnx::TensorProto::INT64) {
      std::vector<int64_t> values(size);
      for (auto& value : values) value = static_cast<int64_t>(random() % 10);
      inputs.push_back(runtime::Tensor::Of<int64_t>(shape, values));
    } else if (info.dtype == onnx::TensorProto::FLOAT16) {
      std::vector<uint16_t> values(size);
      for (auto& value : values) value = FloatToHalf(normal(random));
      runtime::Tensor tensor(info.dtype, shape);
      std::copy(values.begin(), values.end(), tensor.MutableAs<uint16_t>().begin());
      inputs.push_back(std::move(tensor));
    } else {
      std::vector<float> values(size);
      for (auto& value : values) value = normal(random);
      inputs.push_back(runtime::Tensor::Of<float>(shape, values));
    }
  }
  std::vector<runtime::Tensor> outputs;
  const auto status = session->Run(inputs, &outputs);
  EXPECT_TRUE(status.ok()) << status;
  std::vector<float> result;
  for (const auto& output : outputs) {
    const auto values = output.View().ToFloats();
    if (values.ok()) result.insert(result.end(), values->begin(), values->end());
  }
  return result;
}

inline void ExpectNear(const std::vector<float>& a, const std::vector<float>& b,
                       float tolerance = 1e-5f) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_FALSE(a.empty());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], b[i], tolerance * (1 + std::abs(b[i]))) << "element " << i;
  }
}

// A folder for model files.
class ModelFolder : public tests::TemporaryFolder {
 public:
  std::filesystem::path Write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path() / name, std::ios::binary) << bytes;
    return path() / name;
  }
};

inline base::Reason ReasonOf(const absl::Status& status) {
  EXPECT_FALSE(status.ok());
  return status.ok() ? base::Reason::kInternal : base::GetReason(status);
}

}  // namespace gq::graph
