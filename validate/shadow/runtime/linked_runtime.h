// The CUDA runtime that nvcc links into programs by default (libcudart_static), and CuPy into its modules. Its calls
// reach no other library, and it asks NVIDIA's driver for tables that are not documented; so its functions are replaced
// where they lie, by the names in the file's symbol table. A file that was stripped of that has no names:
// export_tables.cpp says so at its first call.
#pragma once

namespace gpuplan::shadow {

/// Whether the constructors of what is loaded have run: what they have registered with the other runtime is then
/// registered again, with ours.
enum class Constructors { to_come, done };

/// Writes a jump to our function of the same name at the start of each function of a linked-in runtime, in every object
/// that was loaded since the last call. Before the program's first call of CUDA; x86-64 only. A few hundred nanoseconds
/// where nothing was loaded.
void replace_linked_runtimes(Constructors constructors);

}  // namespace gpuplan::shadow
