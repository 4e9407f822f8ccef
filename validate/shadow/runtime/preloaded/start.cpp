// Before the program's own constructors, which register its kernels: a CUDA runtime that is linked into it is replaced.
#include "validate/shadow/runtime/linked_runtime.h"

__attribute__((constructor)) static void replace_the_programs_runtime() {
  gpuplan::shadow::replace_linked_runtimes(gpuplan::shadow::Constructors::to_come);
}
