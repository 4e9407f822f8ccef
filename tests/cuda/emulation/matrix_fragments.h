// nvcuda::wmma for cuda_language.h ("CUDA C++ Programming Guide", warp matrix functions): a warp's matrices, a part
// with each lane. Which part is not documented, and differs here from what any GPU does: kernels that count on one
// show.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tests/cuda/emulation/warp.h"

namespace nvcuda::wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int m, int n, int k, class T, class Layout = void>
struct fragment {
  static constexpr int kRows = std::is_same_v<Use, matrix_b> ? k : m;
  static constexpr int kColumns = std::is_same_v<Use, matrix_a> ? k : n;
  static constexpr int num_elements = kRows * kColumns / 32;
  T x[num_elements];
};

namespace details {

// Element i of a lane, in the order of rows.
inline int number_of(int i, int lane) { return i * 32 + lane; }

template <class F>
auto element(const F& of_lane_0, const F* const (&lanes)[32], int row, int column) {
  (void)of_lane_0;
  const int number = row * F::kColumns + column;
  return lanes[number % 32]->x[number / 32];
}

// The guide's conditions for matrices in memory.
template <class T>
void check_memory(const T* data, unsigned pitch, gpuplan::emulation::Place where) {
  if (reinterpret_cast<std::uintptr_t>(data) % 32 != 0) gpuplan::emulation::fail("a matrix that is not aligned", where);
  if (pitch * sizeof(T) % 16 != 0) gpuplan::emulation::fail("a matrix whose rows are not aligned", where);
}

template <class F>
auto offset_in(int number, unsigned pitch, bool columns_first) {
  const auto row = static_cast<std::size_t>(number / F::kColumns),
             column = static_cast<std::size_t>(number % F::kColumns);
  return columns_first ? column * pitch + row : row * pitch + column;
}

}  // namespace details

template <class Use, int m, int n, int k, class T, class Layout>
void fill_fragment(fragment<Use, m, n, k, T, Layout>& f, std::type_identity_t<T> value) {
  for (T& x : f.x) x = value;
}

template <class Use, int m, int n, int k, class T, class Layout>
void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& f, const T* data, unsigned pitch,
                      gpuplan::emulation::Place where = {__builtin_FILE(), __builtin_LINE()}) {
  using F = fragment<Use, m, n, k, T, Layout>;
  details::check_memory(data, pitch, where);
  gpuplan::emulation::meet(where);
  const int lane = gpuplan::emulation::lane();
  for (int i = 0; i < F::num_elements; ++i)
    f.x[i] = data[details::offset_in<F>(details::number_of(i, lane), pitch, std::is_same_v<Layout, col_major>)];
}

template <int m, int n, int k, class T>
void load_matrix_sync(fragment<accumulator, m, n, k, T>& f, const T* data, unsigned pitch, layout_t layout,
                      gpuplan::emulation::Place where = {__builtin_FILE(), __builtin_LINE()}) {
  using F = fragment<accumulator, m, n, k, T>;
  details::check_memory(data, pitch, where);
  gpuplan::emulation::meet(where);
  const int lane = gpuplan::emulation::lane();
  for (int i = 0; i < F::num_elements; ++i)
    f.x[i] = data[details::offset_in<F>(details::number_of(i, lane), pitch, layout == mem_col_major)];
}

template <int m, int n, int k, class T>
void store_matrix_sync(T* data, const fragment<accumulator, m, n, k, T>& f, unsigned pitch, layout_t layout,
                       gpuplan::emulation::Place where = {__builtin_FILE(), __builtin_LINE()}) {
  using F = fragment<accumulator, m, n, k, T>;
  details::check_memory(data, pitch, where);
  gpuplan::emulation::meet(where);
  const int lane = gpuplan::emulation::lane();
  for (int i = 0; i < F::num_elements; ++i)
    data[details::offset_in<F>(details::number_of(i, lane), pitch, layout == mem_col_major)] = f.x[i];
}

/// d = a b + c, products exact and sums in fp32.
template <int m, int n, int k, class T, class LayoutA, class LayoutB>
void mma_sync(fragment<accumulator, m, n, k, float>& d, const fragment<matrix_a, m, n, k, T, LayoutA>& a,
              const fragment<matrix_b, m, n, k, T, LayoutB>& b, const fragment<accumulator, m, n, k, float>& c,
              gpuplan::emulation::Place where = {__builtin_FILE(), __builtin_LINE()}) {
  using A = fragment<matrix_a, m, n, k, T, LayoutA>;
  using B = fragment<matrix_b, m, n, k, T, LayoutB>;
  using D = fragment<accumulator, m, n, k, float>;
  const A* left[32];
  const B* right[32];
  gpuplan::emulation::gather(&a, left, where);
  gpuplan::emulation::gather(&b, right, where);
  float sums[D::num_elements];
  for (int i = 0; i < D::num_elements; ++i) {
    const int number = details::number_of(i, gpuplan::emulation::lane());
    const int row = number / D::kColumns, column = number % D::kColumns;
    sums[i] = c.x[i];
    for (int j = 0; j < k; ++j)
      sums[i] += static_cast<float>(details::element(a, left, row, j)) *
                 static_cast<float>(details::element(b, right, j, column));
  }
  gpuplan::emulation::meet(where);  // all have read what others hold
  for (int i = 0; i < D::num_elements; ++i) d.x[i] = sums[i];
}

}  // namespace nvcuda::wmma
