// What the compiler's log tells: counts, break reasons, kernels, errors (reference: VE2 workflow,
// sections g.2 and g.4).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gq::compile {

struct CompilerLog {
  // `Partition completed with N partition`.
  std::optional<int> partitions;
  // `No. of Operators :` by device, e.g. VAIML 491, VITIS_EP_CPU 2.
  std::map<std::string, int64_t> operators;
  // `No. of Subgraphs :` by kind, e.g. NPU 1, Actually running on NPU 1.
  std::map<std::string, int64_t> subgraphs;
  // `X% of operations will run on AIE`.
  std::optional<double> aie_percent;
  // Messages of `Partition N breaks at: CpuBecause("...")`, each once, with their number.
  std::map<std::string, int> break_reasons;
  // `kernel:NAME (...) -> (...) , N` and `templatedGraph:...`, by text before the number.
  std::map<std::string, int64_t> kernels;
  // Lines `ERROR: [...` and counts `ERROR:N)` above 0: the compile failed whatever its status says.
  std::vector<std::string> errors;
  // The exception of a host without an NPU; no failure.
  bool no_device = false;
};

// Reads lines with or without a prefix of glog. Never fails. At most 1,000 errors are kept.
CompilerLog ParseCompilerLog(std::string_view text);

// Adds what `more` found to `log`.
void Merge(const CompilerLog& more, CompilerLog& log);

}  // namespace gq::compile
