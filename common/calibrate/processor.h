// What the processor can do, asked once. Code for AVX2 is compiled next to portable code and chosen
// at run time, so one binary runs everywhere.
#pragma once

#if defined(__x86_64__)
#define GQ_HAS_AVX2_TARGET 1
#else
#define GQ_HAS_AVX2_TARGET 0
#endif

namespace gq::calibrate {

#if GQ_HAS_AVX2_TARGET
inline bool HasAvx2() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}
#endif

}  // namespace gq::calibrate
