// Kernels that programs have registered.
#pragma once

#include <string>

#include "validate/shadow/runtime/abi.h"

namespace gpuplan::shadow {

/// The mangled name that `function` (a host stub or a kernel's handle) was registered under; "?" where it was not.
std::string kernel_name(const void* function);

/// Registers a kernel by its name alone (of a module loaded at run time) and returns its handle, which is kept for
/// good.
const void* register_kernel(const std::string& name);

/// Launches nothing: checks the configuration as the driver does, counts and records. cudaErrorInvalidConfiguration for
/// a grid or block outside the device's limits, cudaErrorInvalidValue for too much shared memory.
cudaError_t launch_kernel(const void* function, dim3 grid, dim3 block, std::size_t shared, Stream* stream);

/// What cudaFuncGetAttributes says of every kernel: registers are not read from the binaries; 32 leaves every block
/// size that PyTorch uses launchable.
void describe_kernel(cudaFuncAttributes& attributes);

/// Resident blocks a multiprocessor, from threads, blocks and shared memory; registers are taken not to bind.
int resident_blocks(int block_threads, std::size_t shared);

}  // namespace gpuplan::shadow
