// NCCL's entry points for memory: its own allocations, registered buffers, windows, communicators for kernels.
#include "validate/shadow/runtime/nccl_communicator.h"
#include "validate/shadow/runtime/runtime.h"

using namespace gpuplan::shadow;

SHADOW_API int ncclMemAlloc(void** pointer, std::size_t bytes) {
  if (pointer == nullptr) return kNcclInvalidArgument;
  *pointer = allocate_device(current_device(), bytes);
  return *pointer == nullptr ? kNcclUnhandledCudaError : kNcclSuccess;
}
SHADOW_API int ncclMemFree(void* pointer) {
  return pointer == nullptr || free_device(pointer) ? kNcclSuccess : kNcclInvalidArgument;
}

// A registered buffer is its own handle: registering charges no device memory of its own.
SHADOW_API int ncclCommRegister(const Communicator* communicator, void* buffer, std::size_t, void** handle) {
  if (communicator == nullptr || handle == nullptr) return kNcclInvalidArgument;
  *handle = buffer;
  return kNcclSuccess;
}
SHADOW_API int ncclCommDeregister(const Communicator*, void*) { return kNcclSuccess; }
SHADOW_API int ncclCommWindowRegister(Communicator* communicator, void* buffer, std::size_t, void** window, int) {
  if (communicator == nullptr || window == nullptr) return kNcclInvalidArgument;
  *window = buffer;
  return kNcclSuccess;
}
SHADOW_API int ncclCommWindowDeregister(Communicator*, void*) { return kNcclSuccess; }
SHADOW_API int ncclWinGetUserPtr(Communicator*, void* window, void** pointer) {
  if (pointer == nullptr) return kNcclInvalidArgument;
  *pointer = window;
  return kNcclSuccess;
}
SHADOW_API int ncclGetPeerDevicePointer(void*, std::size_t, int, void**) {
  return refuse_nccl(nullptr, "ncclGetPeerDevicePointer");
}
SHADOW_API int ncclGetLsaMultimemDevicePointer(void*, std::size_t, void**) {
  return refuse_nccl(nullptr, "ncclGetLsaMultimemDevicePointer");
}
SHADOW_API int ncclDevCommCreate(Communicator* communicator, const void*, void*) {
  return refuse_nccl(communicator, "ncclDevCommCreate");
}
SHADOW_API int ncclDevCommDestroy(Communicator*, const void*) { return kNcclSuccess; }
