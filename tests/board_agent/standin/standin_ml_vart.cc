// Stands in for `ml_vart`: runs the compiled model of an app configuration, which the stand-in
// compiler made a copy of the ONNX file, on the CPU, and leaves files and lines as documented.
//
// GQ_STANDIN_VART tells how it behaves: empty, `fail` (ends with status 1), `hang`, `bf16` (outputs
// in bfloat16), `wrong` (outputs are zero).
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/runtime/session.h"

namespace {

namespace fs = std::filesystem;

bool Behaves(const char* how) {
  const char* value = std::getenv("GQ_STANDIN_VART");
  return value != nullptr && std::strcmp(value, how) == 0;
}

int Fail(const std::string& message) {
  std::fprintf(stderr, "ml_vart: %s\n", message.c_str());
  return 1;
}

void WriteOutput(const fs::path& folder, size_t index, const std::string& name,
                 const gq::runtime::Tensor& tensor) {
  std::string shape;
  for (const int64_t dim : tensor.shape()) {
    shape += (shape.empty() ? "" : "x") + std::to_string(dim);
  }
  std::string bytes(reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes().size());
  if (Behaves("wrong")) bytes.assign(bytes.size(), '\0');
  std::string type = "float32";
  if (Behaves("bf16")) {  // the upper half of each float
    type = "bf16";
    std::string half;
    for (size_t i = 0; i + 4 <= bytes.size(); i += 4) half += bytes.substr(i + 2, 2);
    bytes = half;
  }
  std::ofstream(folder / ("infer_out" + std::to_string(index) + "-" + type + "_" + shape + "_" +
                          name + ".bin"),
                std::ios::binary)
      << bytes;
}

}  // namespace

int main(int argc, char** argv) {
  std::string config;
  int runs = 1;
  bool benchmark = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--app-config") == 0 && i + 1 < argc) config = argv[++i];
    if (std::strcmp(argv[i], "--runs") == 0 && i + 1 < argc) runs = std::atoi(argv[++i]);
    if (std::strcmp(argv[i], "--benchmark") == 0) benchmark = true;
  }
  if (Behaves("fail")) return Fail("no partition could be created");
  if (Behaves("hang")) {
    std::printf("hanging\n");
    std::fflush(stdout);
    for (;;) ::pause();
  }
  const auto text = gq::base::ReadFile(config);
  if (!text.ok()) return Fail("no app config");
  const auto app = nlohmann::json::parse(*text, nullptr, false);
  if (!app.is_object()) return Fail("app config is no JSON");
  const auto session = gq::runtime::Session::CreateFromFile(
      app.at("inference-config").at("model-file").get<std::string>());
  if (!session.ok()) return Fail(std::string(session.status().message()));
  std::vector<gq::runtime::Tensor> inputs;
  for (const auto& info : session->inputs()) {
    for (const auto& entry : app.at("ifms-config")) {
      if (entry.at("name") != info.name) continue;
      const auto bytes = gq::base::ReadFile(entry.at("file").get<std::string>());
      auto tensor = gq::runtime::Tensor::Allocate(info.dtype, info.shape);
      if (!bytes.ok() || !tensor.ok() || tensor->bytes().size() != bytes->size()) {
        return Fail("input " + info.name + " has the wrong size");
      }
      std::memcpy(tensor->mutable_bytes().data(), bytes->data(), bytes->size());
      inputs.push_back(*std::move(tensor));
    }
  }
  std::vector<gq::runtime::Tensor> outputs;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < runs; ++i) {
    if (const auto status = session->Run(inputs, &outputs); !status.ok()) {
      return Fail(std::string(status.message()));
    }
  }
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  const fs::path folder = app.at("ofms-dir").get<std::string>();
  for (size_t i = 0; i < outputs.size(); ++i) {
    WriteOutput(folder, i, session->outputs()[i].name, outputs[i]);
  }
  if (benchmark) {
    const double mean = elapsed.count() / runs;
    std::printf("Average inference time: %.4f ms/inference (dp_size=1)\n", mean);
    std::printf("Average throughput: %.2f FPS\n", 1000 / mean);
  }
  std::printf("Run completed successfully.\n");
  return 0;
}
