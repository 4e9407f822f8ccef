// Matrix products by cuBLASLt.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "validate/cuda/kernels/launch.h"
#include "validate/executor/kernel_tensor.h"

namespace gpuplan::cuda {

/// A matrix in memory that cuBLASLt can read: column-major, or row-major when `transposed`.
struct Matrix {
  void* data = nullptr;
  bool transposed = false;
  std::int64_t rows = 0, columns = 0;  // as the product sees it
  std::int64_t leading = 0;            // elements from one column to the next, or from row to row
  std::int64_t batch_stride = 0;
};

struct Product {
  KernelTensor a, b, out;  // [m, k], [k, n], [m, n], or each with a leading dimension
  KernelTensor bias;       // [n], added by cuBLASLt; data null: none
  bool adds_to_out = false;
  bool tf32 = false;
};

struct Workspace {
  void* data = nullptr;
  std::int64_t bytes = 0;
};

/// Whether neither its rows nor its columns lie next to each other, so that a product needs a copy.
bool needs_copy(const KernelTensor& matrix);

class Products {
 public:
  Products();

  /// Throws Error where cuBLASLt has no algorithm.
  void run(const LaunchContext& launch, const Product& product, Workspace workspace);

 private:
  template <auto destroy>
  struct Destroy {
    template <class T>
    void operator()(T* p) const {
      (void)destroy(p);
    }
  };
  template <class T, auto destroy>
  using Handle = std::unique_ptr<std::remove_pointer_t<T>, Destroy<destroy>>;

  struct Plan {
    Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> operation;
    Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> x, y, out;
    cublasLtMatmulAlgo_t algorithm{};
  };
  // Types, sizes, strides, alignments and the workspace: what an algorithm is chosen by.
  using Key = std::array<std::int64_t, 24>;

  const Plan& plan(const Key& key, const Product& product, const Matrix& x, const Matrix& y, const Matrix& out,
                   std::int64_t batch, std::int64_t workspace_bytes);

  Handle<cublasLtHandle_t, cublasLtDestroy> handle_;
  std::map<Key, Plan> plans_;
};

}  // namespace gpuplan::cuda
