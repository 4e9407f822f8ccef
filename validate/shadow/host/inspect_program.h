// What can be said of a program before it starts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gpuplan::shadow {

struct FoundProgram {
  std::filesystem::path path;  // empty: there is none
  bool executable = false;     // false with a path: a file that cannot be run
};

/// As a shell finds it: `name` itself where it has a slash, else the first executable in the folders of `path`
/// (colons between them).
FoundProgram find_program(const std::string& name, const std::string& path);
/// Every executable's name in these folders, for a suggestion.
std::vector<std::string> program_names(const std::string& path);

enum class Linkage : std::uint8_t {
  replaceable,     // a script, a program without CUDA, or one that loads libcudart.so
  static_cudart,   // libcudart_static is linked in, and stripped of the names by which its functions are replaced
  static_program,  // no dynamic linker, which LD_PRELOAD needs
};
/// Reads the program's ELF headers, and its text for what libcudart_static leaves there. Files that cannot be read
/// are replaceable: whoever starts them will say why not.
Linkage linkage_of(const std::filesystem::path& program);

}  // namespace gpuplan::shadow
