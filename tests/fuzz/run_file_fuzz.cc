// Any text as run.yaml, or as run.detail.yaml beside the short one, gives a job or an error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/job/run_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  constexpr std::string_view kShort =
      "steps:\n- graph_optimize: null\n- graph_quantize:\n  - scheme: W8-A8\n";
  for (const bool detail : {false, true}) {
    const auto file = gq::job::ParseRunFile(detail ? kShort : text, "run.yaml", text,
                                            detail ? "run.detail.yaml" : "", "");
    if (!file.ok()) continue;
    gq::job::JobRequest request;
    (void)gq::job::ApplyRunFile(
        *file, [](std::string_view) { return false; }, request);
  }
  return 0;
}
