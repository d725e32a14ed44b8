// Any bytes as .npz give arrays or an error.
#include "tests/fuzz/fuzz_data.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  gq::fuzz::ReadAsData({bytes, size}, "data.npz");
  return 0;
}
