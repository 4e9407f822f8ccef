#include "validate/cuda/check.h"

#include "estimator/base/error.h"
#include "validate/cuda/kernels/launch.h"

namespace gpuplan::cuda {

void fail(const std::string& message) { throw Error(message, ErrorKind::environment); }

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // one that does not end the context is not to be met again
  fail(std::string(call) + ": " + cudaGetErrorString(status));
}

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(std::string(call) + ": " + cublasLtGetStatusString(status));
}

void check(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) fail(std::string(call) + ": " + cudnnGetErrorString(status));
}

void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

void refuse(const char* why) { throw Error(why, ErrorKind::environment); }

}  // namespace gpuplan::cuda
