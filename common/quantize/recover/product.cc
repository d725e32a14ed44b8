#include "common/quantize/recover/product.h"

#include <algorithm>
#include <vector>

#include "common/calibrate/processor.h"

#if GQ_HAS_AVX2_TARGET
#include <immintrin.h>
#endif

namespace gq::quantize {
namespace {

using Eigen::Index;

constexpr Index kRows = 4;       // of a tile
constexpr Index kDepth = 256;    // products of one sum in T
constexpr Index kColumns = 512;  // of a packed part of b, which then stays in the cache

// Columns of a tile: two vectors.
template <typename T>
constexpr Index kTile = 64 / sizeof(T);

// c = a * b for one tile: a holds kRows values a step, b kTile<T>.
template <typename T>
void PortableTile(const T* a, const T* b, Index depth, T* c) {
  std::fill_n(c, kRows * kTile<T>, T{0});
  for (Index k = 0; k < depth; ++k, a += kRows, b += kTile<T>) {
    for (Index i = 0; i < kRows; ++i) {
      for (Index j = 0; j < kTile<T>; ++j) c[i * kTile<T> + j] += a[i] * b[j];
    }
  }
}

#if GQ_HAS_AVX2_TARGET
__attribute__((target("avx2,fma"))) void VectorTile(const float* a, const float* b, Index depth,
                                                    float* c) {
  __m256 c00 = _mm256_setzero_ps(), c01 = c00, c10 = c00, c11 = c00;
  __m256 c20 = c00, c21 = c00, c30 = c00, c31 = c00;
  for (Index k = 0; k < depth; ++k, a += 4, b += 16) {
    const __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);
    const __m256 a0 = _mm256_broadcast_ss(a), a1 = _mm256_broadcast_ss(a + 1);
    c00 = _mm256_fmadd_ps(a0, b0, c00);
    c01 = _mm256_fmadd_ps(a0, b1, c01);
    c10 = _mm256_fmadd_ps(a1, b0, c10);
    c11 = _mm256_fmadd_ps(a1, b1, c11);
    const __m256 a2 = _mm256_broadcast_ss(a + 2), a3 = _mm256_broadcast_ss(a + 3);
    c20 = _mm256_fmadd_ps(a2, b0, c20);
    c21 = _mm256_fmadd_ps(a2, b1, c21);
    c30 = _mm256_fmadd_ps(a3, b0, c30);
    c31 = _mm256_fmadd_ps(a3, b1, c31);
  }
  _mm256_storeu_ps(c, c00);
  _mm256_storeu_ps(c + 8, c01);
  _mm256_storeu_ps(c + 16, c10);
  _mm256_storeu_ps(c + 24, c11);
  _mm256_storeu_ps(c + 32, c20);
  _mm256_storeu_ps(c + 40, c21);
  _mm256_storeu_ps(c + 48, c30);
  _mm256_storeu_ps(c + 56, c31);
}

__attribute__((target("avx2,fma"))) void VectorTile(const double* a, const double* b, Index depth,
                                                    double* c) {
  __m256d c00 = _mm256_setzero_pd(), c01 = c00, c10 = c00, c11 = c00;
  __m256d c20 = c00, c21 = c00, c30 = c00, c31 = c00;
  for (Index k = 0; k < depth; ++k, a += 4, b += 8) {
    const __m256d b0 = _mm256_loadu_pd(b), b1 = _mm256_loadu_pd(b + 4);
    const __m256d a0 = _mm256_broadcast_sd(a), a1 = _mm256_broadcast_sd(a + 1);
    c00 = _mm256_fmadd_pd(a0, b0, c00);
    c01 = _mm256_fmadd_pd(a0, b1, c01);
    c10 = _mm256_fmadd_pd(a1, b0, c10);
    c11 = _mm256_fmadd_pd(a1, b1, c11);
    const __m256d a2 = _mm256_broadcast_sd(a + 2), a3 = _mm256_broadcast_sd(a + 3);
    c20 = _mm256_fmadd_pd(a2, b0, c20);
    c21 = _mm256_fmadd_pd(a2, b1, c21);
    c30 = _mm256_fmadd_pd(a3, b0, c30);
    c31 = _mm256_fmadd_pd(a3, b1, c31);
  }
  _mm256_storeu_pd(c, c00);
  _mm256_storeu_pd(c + 4, c01);
  _mm256_storeu_pd(c + 8, c10);
  _mm256_storeu_pd(c + 12, c11);
  _mm256_storeu_pd(c + 16, c20);
  _mm256_storeu_pd(c + 20, c21);
  _mm256_storeu_pd(c + 24, c30);
  _mm256_storeu_pd(c + 28, c31);
}
#endif

template <typename T>
using Tile = void (*)(const T*, const T*, Index, T*);

template <typename T>
Tile<T> TileOfHost() {
#if GQ_HAS_AVX2_TARGET
  if (calibrate::HasAvx2()) return VectorTile;
#endif
  return PortableTile<T>;
}

// Strips of kWidth values a step, the last one filled up with zeros. (outer, step) is at
// data[outer * by_outer + step * by_step].
template <Index kWidth, typename T>
void Pack(const T* data, Index by_outer, Index by_step, Index outer, Index steps,
          std::vector<T>* packed) {
  const Index strips = (outer + kWidth - 1) / kWidth;
  packed->resize(static_cast<size_t>(strips * kWidth * steps));
  T* to = packed->data();
  for (Index strip = 0; strip < strips; ++strip) {
    const Index begin = strip * kWidth, inside = std::min(kWidth, outer - begin);
    const T* from = data + begin * by_outer;
    if (inside == kWidth && by_outer == 1) {
      for (Index step = 0; step < steps; ++step, to += kWidth, from += by_step) {
        std::copy_n(from, kWidth, to);
      }
      continue;
    }
    for (Index step = 0; step < steps; ++step, to += kWidth, from += by_step) {
      for (Index i = 0; i < inside; ++i) to[i] = from[i * by_outer];
      for (Index i = inside; i < kWidth; ++i) to[i] = 0;
    }
  }
}

}  // namespace

template <typename T>
void AddProduct(Operand<T> a, Operand<T> b, Index rows, Index columns, Index depth, double factor,
                double* out, Index stride) {
  static const Tile<T> kKernel = TileOfHost<T>();
  std::vector<T> packed_a, packed_b;
  T tile[kRows * kTile<T>];
  for (Index first = 0; first < depth; first += kDepth) {
    const Index steps = std::min(kDepth, depth - first);
    Pack<kRows>(a.data + first * a.column, a.row, a.column, rows, steps, &packed_a);
    for (Index part = 0; part < columns; part += kColumns) {
      const Index width = std::min(kColumns, columns - part);
      Pack<kTile<T>>(b.data + first * b.row + part * b.column, b.column, b.row, width, steps,
                     &packed_b);
      for (Index row = 0; row < rows; row += kRows) {
        const T* strip = packed_a.data() + row * steps;
        const Index high = std::min(kRows, rows - row);
        for (Index column = 0; column < width; column += kTile<T>) {
          kKernel(strip, packed_b.data() + column * steps, steps, tile);
          const Index wide = std::min(kTile<T>, width - column);
          for (Index i = 0; i < high; ++i) {
            double* to = out + (row + i) * stride + part + column;
            for (Index j = 0; j < wide; ++j) {
              to[j] += factor * static_cast<double>(tile[i * kTile<T> + j]);
            }
          }
        }
      }
    }
  }
}

template void AddProduct(Operand<float>, Operand<float>, Index, Index, Index, double, double*,
                         Index);
template void AddProduct(Operand<double>, Operand<double>, Index, Index, Index, double, double*,
                         Index);

}  // namespace gq::quantize
