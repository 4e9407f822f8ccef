// Answers of the CUDA libraries as exceptions. What is thrown here says which call failed and why; CudaDevice adds the
// operation, its layer and its shapes.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <string>

namespace gpuplan::cuda {

/// Throws Error (environment).
[[noreturn]] void fail(const std::string& message);

void check(cudaError_t status, const char* call);
void check(cublasStatus_t status, const char* call);
void check(cudnnStatus_t status, const char* call);

}  // namespace gpuplan::cuda
