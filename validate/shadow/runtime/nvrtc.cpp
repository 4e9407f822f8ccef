// NVRTC is the wheel's own: it compiles on the CPU and needs no GPU. From CUDA 13 on it asks the driver for private
// tables first and, without a driver, goes on; a driver that has none must say so.
#include "validate/shadow/runtime/runtime.h"

/// Private tables of NVIDIA's driver, by UUID: none.
SHADOW_API int cuGetExportTable(const void** table, const void* /*uuid*/) {
  if (table != nullptr) *table = nullptr;
  return 500;  // CUDA_ERROR_NOT_FOUND
}
