#include "board_agent/backends/vitisai/vart_files.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "onnx/onnx_pb.h"

namespace gq::agent {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;
using onnx::TensorProto;

constexpr std::string_view kOutputPrefix = "infer_out";
constexpr size_t kMaxOutputBytes = size_t{4} << 30;

int32_t TypeOf(std::string_view name) {
  static const std::map<std::string_view, int32_t> kTypes = {
      {"float32", TensorProto::FLOAT},     {"fp32", TensorProto::FLOAT},
      {"float", TensorProto::FLOAT},       {"bf16", TensorProto::BFLOAT16},
      {"bfloat16", TensorProto::BFLOAT16}, {"fp16", TensorProto::FLOAT16},
      {"float16", TensorProto::FLOAT16},   {"int8", TensorProto::INT8},
      {"uint8", TensorProto::UINT8},       {"int16", TensorProto::INT16},
      {"int32", TensorProto::INT32},       {"int64", TensorProto::INT64}};
  const auto found = kTypes.find(name);
  return found != kTypes.end() ? found->second : static_cast<int32_t>(TensorProto::UNDEFINED);
}

// `infer_out0-float32_1x10_y.bin`
struct OutputName {
  size_t index = 0;
  std::string type;
};

std::optional<OutputName> ParseOutputName(std::string_view name) {
  if (!name.starts_with(kOutputPrefix) || !name.ends_with(".bin")) return std::nullopt;
  name.remove_prefix(kOutputPrefix.size());
  OutputName result;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), result.index);
  if (error != std::errc() || end == name.data() + name.size() || *end != '-') return std::nullopt;
  name.remove_prefix(static_cast<size_t>(end - name.data()) + 1);
  result.type = std::string(name.substr(0, name.find('_')));
  return result;
}

absl::StatusOr<runtime::Tensor> ToTensor(const std::string& bytes, const std::string& type,
                                         const runtime::TensorInfo& info) {
  const int32_t dtype = TypeOf(type);
  const bool narrow = dtype == TensorProto::BFLOAT16 || dtype == TensorProto::FLOAT16;
  if (dtype != info.dtype && !(narrow && info.dtype == TensorProto::FLOAT)) {
    return MakeError(Reason::kBoardFailed,
                     StrCat("output ", info.name, " came back as '", type, "', expected ",
                            runtime::Describe(info.dtype, info.shape)),
                     "Set the output tensor type to CPU.");
  }
  GQ_ASSIGN_OR_RETURN(runtime::Tensor tensor, runtime::Tensor::Allocate(dtype, info.shape));
  if (tensor.bytes().size() != bytes.size()) {
    return MakeError(Reason::kBoardFailed, StrCat("output ", info.name, " has ", bytes.size(),
                                                  " bytes, expected ", tensor.bytes().size()));
  }
  std::memcpy(tensor.mutable_bytes().data(), bytes.data(), bytes.size());
  if (!narrow || dtype == info.dtype) return tensor;
  GQ_ASSIGN_OR_RETURN(const std::vector<float> values, tensor.View().ToFloats());
  return runtime::Tensor::Of<float>(info.shape, values);
}

}  // namespace

absl::Status WriteVartFiles(const fs::path& folder, std::string_view key,
                            const std::vector<std::string>& input_names,
                            const std::vector<runtime::Tensor>& inputs) {
  using Json = nlohmann::ordered_json;
  GQ_RETURN_IF_ERROR(base::MakeFolder(folder / "inputs"));
  GQ_RETURN_IF_ERROR(base::MakeFolder(folder / "results" / "outputs"));
  Json ifms = Json::array();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string file = StrCat("inputs/", i, ".bin");
    const auto bytes = inputs[i].bytes();
    GQ_RETURN_IF_ERROR(base::WriteFileAtomically(
        folder / file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    ifms.push_back({{"name", input_names.at(i)}, {"file", file}});
  }
  const Json app = {{"inference-config",
                     {{"model-file", StrCat("model/", key, ".rai")},
                      {"runner-options",
                       {{"log-level", "INFO"},
                        {"input-tensor-type", "CPU"},
                        {"output-tensor-type", "CPU"},
                        {"name", key}}}}},
                    {"ifms-config", ifms},
                    {"ofms-dir", "results/outputs"}};
  return base::WriteFileAtomically(folder / "app.json", app.dump(2) + "\n");
}

absl::StatusOr<std::vector<runtime::Tensor>> ReadVartOutputs(
    const fs::path& folder, const std::vector<runtime::TensorInfo>& expected) {
  const fs::path outputs_folder = folder / "results" / "outputs";
  std::vector<runtime::Tensor> outputs(expected.size());
  std::vector<bool> seen(expected.size());
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(outputs_folder, error)) {
    const auto name = ParseOutputName(entry.path().filename().string());
    if (!name || name->index >= expected.size()) continue;
    GQ_ASSIGN_OR_RETURN(const std::string bytes, base::ReadFile(entry.path(), kMaxOutputBytes));
    GQ_ASSIGN_OR_RETURN(outputs[name->index], ToTensor(bytes, name->type, expected[name->index]));
    seen[name->index] = true;
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (seen[i]) continue;
    return MakeError(Reason::kBoardFailed,
                     StrCat("ml_vart left no file for output ", expected[i].name));
  }
  return outputs;
}

std::optional<double> ParseVartTime(std::string_view line) {
  const size_t unit = line.find("ms/inference");
  if (unit == std::string_view::npos) return std::nullopt;
  size_t end = unit;
  while (end > 0 && line[end - 1] == ' ') --end;
  size_t begin = end;
  while (begin > 0 &&
         (std::isdigit(static_cast<unsigned char>(line[begin - 1])) || line[begin - 1] == '.')) {
    --begin;
  }
  double value = 0;
  const auto [stop, failed] = std::from_chars(line.data() + begin, line.data() + end, value);
  if (failed != std::errc() || begin == end) return std::nullopt;
  return value;
}

}  // namespace gq::agent
