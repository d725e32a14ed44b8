// Custom operators of this process: float tensors in, one float tensor of the first input's shape
// out, computed by a function of ours inside ONNX Runtime's graph and, where it can, in the same
// memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/ort_library.h"
#include "common/runtime/parallel_loop.h"

namespace gq::runtime {

// The domain of these operators, and the attribute that tells nodes of one operator apart.
inline constexpr char kOperatorDomain[] = "gq";
inline constexpr char kNodeIdAttribute[] = "id";

// One call of a kernel.
struct FloatCall {
  int64_t id;  // kNodeIdAttribute of the node
  std::span<const std::span<const float>> inputs;
  std::span<float> output;  // as long as inputs[0], often the same memory
  ParallelLoop& loop;       // over the session's intra-op threads
};

struct FloatOperatorDefinition {
  enum class Memory {
    // The output is input 0, unchanged: they share memory, or it was copied before the call.
    kPassThrough,
    // The function writes the output; it may lie over input 0, which nobody else reads then.
    kInPlace,
  };
  std::string name;
  int inputs = 1;
  Memory memory = Memory::kPassThrough;
  // Exceptions end the run with RUNTIME_FAILED.
  std::function<void(const FloatCall&)> compute;
};

// A set of operators for the sessions that get its domain (SessionOptions::custom_op_domains). Must
// outlive them. `threads` is those sessions' number of intra-op threads.
class FloatOperators {
 public:
  static absl::StatusOr<std::unique_ptr<FloatOperators>> Create(
      const OrtLibrary& library, std::vector<FloatOperatorDefinition> definitions, int threads);
  virtual ~FloatOperators() = default;

  virtual OrtCustomOpDomain* domain() = 0;
};

}  // namespace gq::runtime
