// Functions of CUDA's libraries that a loaded program calls and the shadow runtime does not have. Left alone, such a
// call would reach NVIDIA's own library, which knows nothing of our handles and pointers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan::shadow {

/// Finds them in the relocations of every loaded object that is neither NVIDIA's nor ours, and points each reference at
/// code that names the function once on stderr and in the session's `unknown`, and answers that it is not supported.
/// Cheap where nothing was loaded since the last call. Any thread; while one checks, others wait, but at most 100 ms.
/// On processors other than x86-64 they are only listed. GPUPLAN_SHADOW_DEBUG=1 lists all on stderr, called or not.
void check_loaded_libraries();

struct MissingFunction {
  std::string function;
  std::string object;  // the file that refers to it: libtorch_cuda.so
  std::string wheel;   // the Python package that the object belongs to: "torch 2.15.0+cu132"; empty where there is none
  std::string text() const;  // what is said at its first call
};

/// Those found so far.
std::vector<MissingFunction> missing_functions();

/// The library family of a CUDA function by its name ("cublas" for cublasLtMatmul too); empty for other names.
std::string_view cuda_family(std::string_view function);
/// What `function` returns to say that it is not supported, by its family's header, as the register that returns it.
std::uintptr_t not_supported(std::string_view function);
/// Whether a file is one of NVIDIA's libraries, by its name ("libcublas.so.13", "libcudart-1a2b3c4d.so.12").
bool is_cuda_library(std::string_view file_name);
/// "NAME VERSION" of the Python package that `path` lies in, from a version.py beside it or one or two directories
/// above; empty where there is none.
std::string wheel_of(std::string_view path);

}  // namespace gpuplan::shadow
