// Kernels that programs have registered.
#pragma once

#include <string>

#include "validate/shadow/runtime/abi.h"
#include "validate/shadow/runtime/cubin.h"

namespace gpuplan::shadow {

/// The mangled name that `function` (a host stub or a kernel's handle) was registered under; "?" where it was not.
std::string kernel_name(const void* function);

/// Registers a kernel of a module loaded at run time and returns its handle, which is kept for good, as `resources`
/// must be; null where the module's code cannot be read.
const void* register_kernel(const std::string& name, const KernelResources* resources);

/// Launches nothing: checks the configuration as the driver does, counts and records, with the arguments where the
/// kernel's image says how many there are. cudaErrorInvalidConfiguration for a grid or block outside the device's
/// limits, cudaErrorInvalidValue for more shared memory than the kernel may take, and where its image can be
/// read cudaErrorLaunchOutOfResources for a block that its registers do not allow.
cudaError_t launch_kernel(const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                          Stream* stream);

/// What cudaFuncGetAttributes says: from the kernel's image where that can be read, else 32 registers, which leaves
/// every block size that PyTorch uses launchable.
void describe_kernel(const void* function, cudaFuncAttributes& attributes);

/// cudaFuncSetAttribute, cuFuncSetAttribute and cuKernelSetAttribute, whose numbers are the same. False: the value is
/// none that the device allows.
bool set_attribute(const void* function, int attribute, int value);

/// Resident blocks a multiprocessor; at least 1.
int resident_blocks(const void* function, int block_threads, std::size_t dynamic_shared);

}  // namespace gpuplan::shadow
