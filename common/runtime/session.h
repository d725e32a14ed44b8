// A model that is ready to run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/graph/model.h"
#include "common/runtime/ort_library.h"
#include "common/runtime/tensor.h"

namespace gq::runtime {

enum class OptimizationLevel { kNone, kBasic, kExtended, kAll };

// What executes nodes instead of the CPU, where it can; the CPU takes what it leaves.
struct ExecutionProvider {
  std::string name;  // as SessionOptionsAppendExecutionProvider takes it: `VitisAI`, `XNNPACK`
  std::vector<std::pair<std::string, std::string>> options;
};

struct SessionOptions {
  OptimizationLevel optimization = OptimizationLevel::kAll;
  int threads = 1;  // intra-op; the caller's thread is one of them
  // Keeps Q/DQ pairs in float arithmetic (session.disable_quant_qdq), so that results do not depend
  // on integer kernels of the host.
  bool disable_quant_qdq = true;
  // Lets ONNX Runtime keep an arena; without it memory goes back after each run.
  bool arena = true;
  // Lets idle pool threads spin; off for sessions that share cores.
  bool spinning = true;
  // Where ONNX Runtime writes the graph that it optimized; empty for nowhere.
  std::filesystem::path optimized_model;
  // A model whose weights take so many bytes as float32 is run lean: ONNX Runtime makes no packed
  // or dequantized copies of them for the life of the session, each of which may be as large as all
  // weights together. Runs are slower, since weights are then prepared whenever a layer runs.
  int64_t lean_bytes = int64_t{1} << 30;
  // Further session configuration entries (onnxruntime_session_options_config_keys.h).
  std::vector<std::pair<std::string, std::string>> config;
  // In order of preference.
  std::vector<ExecutionProvider> providers;
  // Custom operators; not owned, must outlive the session.
  std::vector<OrtCustomOpDomain*> custom_op_domains;
};

// Thread-safe: several threads may run one session.
class Session {
 public:
  // Builds a session over the bytes of the model's store without copying them; the session keeps
  // them alive. RUNTIME_MISSING, RUNTIME_FAILED (with ONNX Runtime's message).
  static absl::StatusOr<Session> Create(const graph::Model& model,
                                        const SessionOptions& options = {});
  // From a file, external data beside it.
  static absl::StatusOr<Session> CreateFromFile(const std::filesystem::path& path,
                                                const SessionOptions& options = {});

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  const std::vector<TensorInfo>& inputs() const;
  // Without those that hold strings or are no tensors, which a Tensor cannot hold.
  const std::vector<TensorInfo>& outputs() const;
  int OutputIndex(std::string_view name) const;  // -1 when there is no such output

  // Runs the model once. `inputs` stand in the order of inputs(). `outputs` gets all outputs in the
  // order of outputs(); a tensor that already has the right type and shape is written in place, so
  // that a loop allocates nothing. RUNTIME_FAILED; DATA_SHAPE_MISMATCH when the number of inputs is
  // wrong.
  absl::Status Run(std::span<const Tensor> inputs, std::vector<Tensor>* outputs) const;

  // The same for the outputs at `wanted`, in that order.
  absl::Status Run(std::span<const Tensor> inputs, std::span<const int> wanted,
                   std::vector<Tensor>* outputs) const;

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gq::runtime
