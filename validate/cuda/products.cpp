#include "validate/cuda/products.h"

#include <algorithm>
#include <utility>

#include "validate/cuda/check.h"

namespace gpuplan::cuda {
namespace {

cudaDataType_t data_type(DType t) {
  switch (t) {
    case DType::fp64: return CUDA_R_64F;
    case DType::fp16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
  }
}

cublasComputeType_t compute_type(const Product& p) {
  if (p.out.dtype == DType::fp64) return CUBLAS_COMPUTE_64F;
  return p.out.dtype == DType::fp32 && p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// The largest power of two, up to what cuBLASLt asks about, that divides the address.
std::uint32_t alignment(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(address & (~address + 1), 256));
}

struct Steps {
  std::int64_t row, column;
};

// The matrix, or its transposition, whose element (i, j) is row * i + column * j elements from the beginning.
bool describe(Matrix& m, Steps s) {
  if (m.rows == 1) s.row = 1, s.column = std::max<std::int64_t>(s.column, m.columns == 1 ? 1 : 0);
  if (m.columns == 1 && s.row != 1) s.column = 1;
  m.transposed = s.row != 1 || (s.column < m.rows && m.columns > 1);
  if (m.transposed && s.column != 1) return false;
  const std::int64_t least = m.transposed ? m.columns : m.rows;
  m.leading = m.transposed ? s.row : s.column;
  const bool single = (m.transposed ? m.rows : m.columns) == 1;
  if (single) m.leading = std::max(m.leading, least);
  return m.leading >= least;
}

bool matrix(const KernelTensor& t, bool swapped, Matrix& m) {
  const int row = t.rank - 2, column = t.rank - 1;
  m.data = t.data;
  m.rows = t.sizes[swapped ? column : row];
  m.columns = t.sizes[swapped ? row : column];
  m.batch_stride = t.rank > 2 ? t.strides[0] : 0;
  return describe(m, {t.strides[swapped ? column : row], t.strides[swapped ? row : column]});
}

template <class T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
}

template <class T>
void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
  check(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof value), "cublasLtMatrixLayoutSetAttribute");
}

template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

cublasLtMatrixLayout_t layout_of(DType type, const Matrix& m, std::int64_t batch) {
  cublasLtMatrixLayout_t layout = nullptr;
  const auto rows = static_cast<std::uint64_t>(m.transposed ? m.columns : m.rows);
  const auto columns = static_cast<std::uint64_t>(m.transposed ? m.rows : m.columns);
  check(cublasLtMatrixLayoutCreate(&layout, data_type(type), rows, columns, m.leading), "cublasLtMatrixLayoutCreate");
  if (batch > 1) {
    set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
    set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, m.batch_stride);
  }
  return layout;
}

}  // namespace

bool needs_copy(const KernelTensor& t) {
  Matrix m;
  return t.rank < 2 || !matrix(t, false, m);
}

Products::Products() {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "cublasLtCreate");
  handle_.reset(handle);
}

const Products::Plan& Products::plan(const Key& key, const Product& product, const Matrix& x, const Matrix& y,
                                     const Matrix& out, std::int64_t batch, std::int64_t workspace_bytes) {
  const auto known = plans_.find(key);
  if (known != plans_.end()) return known->second;
  Plan plan;
  const DType type = product.out.dtype;
  cublasLtMatmulDesc_t operation = nullptr;
  check(cublasLtMatmulDescCreate(&operation, compute_type(product), type == DType::fp64 ? CUDA_R_64F : CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  plan.operation.reset(operation);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, x.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, y.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (product.bias.data != nullptr) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias.data);  // set again for each call
  }
  plan.x.reset(layout_of(type, x, batch));
  plan.y.reset(layout_of(type, y, batch));
  plan.out.reset(layout_of(type, out, batch));

  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> owner(preference);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes));
  // Partial sums of one product are added in fp32: in bf16 they cost digits that the result's own rounding does not.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(x.data));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(y.data));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(out.data));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(out.data));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle_.get(), operation, plan.x.get(), plan.y.get(), plan.out.get(),
                                       plan.out.get(), preference, 1, &found, &count),
        "cublasLtMatmulAlgoGetHeuristic");
  if (count == 0) fail("cuBLASLt has no algorithm for this product");
  check(found.state, "cublasLtMatmulAlgoGetHeuristic");
  plan.algorithm = found.algo;
  return plans_.emplace(key, std::move(plan)).first->second;
}

void Products::run(const LaunchContext& launch, const Product& product, Workspace workspace) {
  // cuBLASLt's result is column-major: a row-major one is the transposed product of the transposed operands.
  const int last = product.out.rank - 1;
  const bool swapped = product.out.strides[last] == 1 || product.out.sizes[last] == 1;
  Matrix x, y, out;
  if (!matrix(swapped ? product.b : product.a, swapped, x) || !matrix(swapped ? product.a : product.b, swapped, y) ||
      !matrix(product.out, swapped, out) || out.transposed)
    fail("an operand of the product is neither row-major nor column-major");
  const std::int64_t batch = product.out.rank > 2 ? product.out.sizes[0] : 1;
  if (out.rows == 0 || out.columns == 0 || batch == 0) return;
  const Key key{static_cast<std::int64_t>(product.out.dtype),
                static_cast<std::int64_t>(compute_type(product)),
                product.bias.data != nullptr ? alignment(product.bias.data) : 0,
                product.adds_to_out,
                batch,
                workspace.bytes,
                out.rows,
                out.columns,
                x.columns,
                x.transposed,
                y.transposed,
                x.leading,
                y.leading,
                out.leading,
                x.batch_stride,
                y.batch_stride,
                out.batch_stride,
                alignment(x.data),
                alignment(y.data),
                alignment(out.data)};
  const Plan& plan = this->plan(key, product, x, y, out, batch, workspace.bytes);
  if (product.bias.data != nullptr) set(plan.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias.data);
  const float one = 1, single_beta = product.adds_to_out ? 1 : 0;
  const double double_one = 1, double_beta = product.adds_to_out ? 1 : 0;
  const bool wide = product.out.dtype == DType::fp64;
  const void* alpha = wide ? static_cast<const void*>(&double_one) : &one;
  const void* beta = wide ? static_cast<const void*>(&double_beta) : &single_beta;
  check(cublasLtMatmul(handle_.get(), plan.operation.get(), alpha, x.data, plan.x.get(), y.data, plan.y.get(), beta,
                       out.data, plan.out.get(), out.data, plan.out.get(), &plan.algorithm, workspace.data,
                       static_cast<std::size_t>(workspace.bytes), launch.stream),
        "cublasLtMatmul");
}

}  // namespace gpuplan::cuda
