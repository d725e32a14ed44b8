// Any text as a Quark configuration gives a configuration or an error; what was read is the same
// after it was written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/quantize/quark_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  for (const bool quark : {false, true}) {
    const auto parsed = gq::quantize::ParseQuarkJson(text, "fuzz.json", quark);
    if (!parsed.ok()) continue;
    const std::string written = gq::quantize::WriteQuarkJson(parsed->config);
    const auto again = gq::quantize::ParseQuarkJson(written, "written.json", quark);
    if (!again.ok() || gq::quantize::WriteQuarkJson(again->config) != written) std::abort();
  }
  return 0;
}
