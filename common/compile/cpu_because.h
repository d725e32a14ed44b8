// Why layers stay on the CPU: found in the compiler's MLIR, sorted by who can do something about it
// (reference: VE2 workflow, section g.5).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gq::compile {

enum class CpuBecauseClass {
  kUser,    // asked for
  kTiling,  // the layer could not be cut to fit
  kFrontEnd,
  kBackEnd,
  kKernelLibrary,
  kUnclassified,  // quoted verbatim
};
// `user`, `tiling`, `fe`, `be`, `mllib`, `unclassified`.
std::string_view CpuBecauseClassName(CpuBecauseClass c);

struct CpuBecause {
  std::string op;
  std::string layer;
  std::string message;
};

// All `attributes {...}` blocks of `text` that have Reason = "CpuBecause". Messages may hold braces
// and quotes; an unfinished block at the end is left out.
std::vector<CpuBecause> ScanCpuBecause(std::string_view text);

// The messages of a log line `Partition N breaks at: CpuBecause("...") / CpuBecause("...")`.
std::vector<std::string> ParseBreakReasons(std::string_view line);

CpuBecauseClass ClassifyCpuBecause(std::string_view message);

// What to do about it; a general advice of the class where the message is not a known one.
std::string RemedyFor(std::string_view message);

}  // namespace gq::compile
