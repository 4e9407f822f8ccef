#include "validate/shadow/runtime/math_library.h"

#include <cstring>
#include <string>

#include "validate/shadow/runtime/written.h"

namespace gpuplan::shadow {

std::size_t data_type_bytes(int type) {
  switch (type) {
    case 0: return 4;  // CUDA_R_32F
    case 1: return 8;  // CUDA_R_64F
    case 2: return 2;  // CUDA_R_16F
    case 3:
    case 8: return 1;   // CUDA_R_8I, CUDA_R_8U
    case 4: return 8;   // CUDA_C_32F
    case 5: return 16;  // CUDA_C_64F
    case 6: return 4;   // CUDA_C_16F
    case 7:
    case 9: return 2;  // CUDA_C_8I, CUDA_C_8U
    case 10:
    case 12: return 4;  // CUDA_R_32I, CUDA_R_32U
    case 11:
    case 13: return 8;  // CUDA_C_32I, CUDA_C_32U
    case 14: return 2;  // CUDA_R_16BF
    case 15: return 4;  // CUDA_C_16BF
    case 20:
    case 22: return 2;  // CUDA_R_16I, CUDA_R_16U
    case 24:
    case 26: return 8;  // CUDA_R_64I, CUDA_R_64U
    case 28:
    case 29: return 1;  // CUDA_R_8F_E4M3, CUDA_R_8F_E5M2
    default: return 0;
  }
}

void write_success(void* info, std::int64_t count) {
  if (info == nullptr || count <= 0) return;
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(int);
  if (device_of(info) >= 0) {
    forget_written(info, bytes);
  } else {
    std::memset(info, 0, bytes);
  }
}

void note_workspace(const char* function, const char* taken_as) {
  note_unknown(std::string(function) + ": workspace not documented, taken as " + taken_as);
}

bool library_property(const char* prefix, const char* get, int type, int* value) {
  using Get = int (*)(int, int*);
  if (const auto real = reinterpret_cast<Get>(real_symbol(prefix, get))) return real(type, value) == 0;
  if (type < 0 || type > 2) return false;
  const int version = toolkit_version();
  *value = type == 0 ? version / 1000 : type == 1 ? version % 1000 / 10 : 0;
  return true;
}

}  // namespace gpuplan::shadow
