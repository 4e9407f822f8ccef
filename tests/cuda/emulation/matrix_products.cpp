// The functions of cuBLASLt that products.cpp calls, by the definition and in double: D = alpha op(A) op(B) + beta C,
// matrices stored column by column ("cuBLAS Library", cublasLtMatmul()).
#include <cublasLt.h>

#include <cstdint>
#include <cstring>

#include "tests/host_device/elements.h"

namespace {

struct Operation {
  std::int32_t transposes_a = CUBLAS_OP_N, transposes_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};

struct Layout {
  cudaDataType type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, leading = 0, batch_step = 0;
  std::int32_t batch = 1;
};

const Operation& of(cublasLtMatmulDesc_t o) { return *reinterpret_cast<const Operation*>(o); }
const Layout& of(cublasLtMatrixLayout_t l) { return *reinterpret_cast<const Layout*>(l); }

struct Scalars {
  double alpha, beta;
};

gpuplan::DType dtype_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_64F: return gpuplan::DType::fp64;
    case CUDA_R_16F: return gpuplan::DType::fp16;
    case CUDA_R_16BF: return gpuplan::DType::bf16;
    default: return gpuplan::DType::fp32;
  }
}

// [batch, row, column] of op(matrix), for elements.h.
gpuplan::KernelTensor tensor(const void* data, const Layout& l, bool transposed) {
  gpuplan::KernelTensor t;
  t.data = const_cast<void*>(data);
  t.dtype = dtype_of(l.type);
  t.rank = 3;
  t.sizes[0] = l.batch;
  t.sizes[1] = transposed ? l.columns : l.rows;
  t.sizes[2] = transposed ? l.rows : l.columns;
  t.strides[0] = l.batch_step;
  t.strides[1] = transposed ? l.leading : 1;
  t.strides[2] = transposed ? 1 : l.leading;
  return t;
}

bool fits(const Layout& l) { return l.leading >= l.rows && l.rows > 0 && l.columns > 0; }

cublasStatus_t multiply(const Operation& o, Scalars s, const gpuplan::KernelTensor& a, const gpuplan::KernelTensor& b,
                        const gpuplan::KernelTensor& c, const gpuplan::KernelTensor& d) {
  using gpuplan::host::load;
  if (a.sizes[2] != b.sizes[1] || a.sizes[1] != d.sizes[1] || b.sizes[2] != d.sizes[2])
    return CUBLAS_STATUS_INVALID_VALUE;
  gpuplan::KernelTensor bias = d;
  bias.data = const_cast<void*>(o.bias);
  for (std::int64_t n = 0; n < d.sizes[0]; ++n)
    for (std::int64_t j = 0; j < d.sizes[2]; ++j)
      for (std::int64_t i = 0; i < d.sizes[1]; ++i) {
        double sum = 0;
        for (std::int64_t k = 0; k < a.sizes[2]; ++k)
          sum += load(a, n * a.strides[0] + i * a.strides[1] + k * a.strides[2]) *
                 load(b, n * b.strides[0] + k * b.strides[1] + j * b.strides[2]);
        const std::int64_t at = n * d.strides[0] + i * d.strides[1] + j * d.strides[2];
        sum *= s.alpha;
        if (s.beta != 0) sum += s.beta * load(c, at);
        if (o.epilogue == CUBLASLT_EPILOGUE_BIAS) sum += load(bias, i);  // one number a row
        gpuplan::host::store(d, at, sum);
      }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new char);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<char*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusString(cublasStatus_t) { return "an operand that does not fit"; }
std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* o, cublasComputeType_t, cudaDataType_t) {
  *o = reinterpret_cast<cublasLtMatmulDesc_t>(new Operation);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t o) {
  delete reinterpret_cast<Operation*>(o);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t opaque, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  auto& o = *reinterpret_cast<Operation*>(opaque);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: std::memcpy(&o.transposes_a, value, bytes); break;
    case CUBLASLT_MATMUL_DESC_TRANSB: std::memcpy(&o.transposes_b, value, bytes); break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE: std::memcpy(&o.epilogue, value, bytes); break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: std::memcpy(&o.bias, value, bytes); break;
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const bool known = o.epilogue == CUBLASLT_EPILOGUE_DEFAULT || o.epilogue == CUBLASLT_EPILOGUE_BIAS;
  return known ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* l, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t leading) {
  auto* const made =
      new Layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading, 0, 1};
  *l = reinterpret_cast<cublasLtMatrixLayout_t>(made);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  delete reinterpret_cast<Layout*>(l);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t opaque,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t bytes) {
  auto& l = *reinterpret_cast<Layout*>(opaque);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: std::memcpy(&l.batch, value, bytes); break;
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: std::memcpy(&l.batch_step, value, bytes); break;
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new char);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<char*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t, int,
                                              cublasLtMatmulHeuristicResult_t* results, int* count) {
  *count = fits(of(a)) && fits(of(b)) && fits(of(c)) && fits(of(d)) ? 1 : 0;
  results->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t layout_a, const void* b, cublasLtMatrixLayout_t layout_b,
                              const void* beta, const void* c, cublasLtMatrixLayout_t layout_c, void* d,
                              cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t*, void*, std::size_t,
                              cudaStream_t) {
  const Operation& o = of(operation);
  const bool wide = of(layout_d).type == CUDA_R_64F;
  const auto scalar = [&](const void* s) {
    return wide ? *static_cast<const double*>(s) : static_cast<double>(*static_cast<const float*>(s));
  };
  return multiply(o, {scalar(alpha), scalar(beta)}, tensor(a, of(layout_a), o.transposes_a == CUBLAS_OP_T),
                  tensor(b, of(layout_b), o.transposes_b == CUBLAS_OP_T), tensor(c, of(layout_c), false),
                  tensor(d, of(layout_d), false));
}
}
