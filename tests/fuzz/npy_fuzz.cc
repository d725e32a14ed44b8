// Any bytes as .npy give an array or an error.
#include "common/runtime/npy.h"
#include "tests/fuzz/fuzz_data.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  (void)gq::runtime::ParseNpyHeader(std::as_bytes(std::span(bytes, size)), "data.npy");
  gq::fuzz::ReadAsData({bytes, size}, "data.npy");
  return 0;
}
