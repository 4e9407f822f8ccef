#include "validate/shadow/host/inspect_program.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "validate/shadow/elf_file.h"

namespace gpuplan::shadow {
namespace {

namespace fs = std::filesystem;

bool runs(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && access(file.c_str(), X_OK) == 0;
}

std::vector<std::string> folders_of(const std::string& path) {
  std::vector<std::string> folders;
  for (std::size_t from = 0; from <= path.size();) {
    const std::size_t colon = std::min(path.find(':', from), path.size());
    folders.push_back(colon == from ? "." : path.substr(from, colon - from));
    from = colon + 1;
  }
  return folders;
}

// Calls visit(header) for each program header.
template <typename F>
void each_segment(std::string_view file, F&& visit) {
  const auto header = at<Elf64_Ehdr>(file, 0);
  if (!header) return;
  for (std::uint64_t i = 0; i < header->e_phnum; ++i)
    if (const auto segment = at<Elf64_Phdr>(file, header->e_phoff + i * sizeof(Elf64_Phdr))) visit(*segment);
}

// libcudart_static has the runtime's own strings in the program: the name of its shared memory (12.4 and later, and
// 12.0's), and of an error that nothing else spells out. Backwards here: this program has no runtime inside, and must
// not look as if it had.
bool has_runtime_inside(std::string_view file) {
  const auto contains = [&](std::string_view backwards) {
    const std::string text(backwards.rbegin(), backwards.rend());
    return memmem(file.data(), file.size(), text.data(), text.size()) != nullptr;
  };
  return contains(".mhs.traduc/") && contains("gnidaolnUtraduCrorrEaduc");
}

// By whose names runtime/linked_runtime.h replaces it.
bool has_symbols(std::string_view file) {
  bool found = false;
  each_section(file, [&](const Elf64_Shdr& section) { found |= section.sh_type == SHT_SYMTAB; });
  return found;
}

}  // namespace

FoundProgram find_program(const std::string& name, const std::string& path) {
  std::error_code ignored;
  if (name.find('/') != std::string::npos) {
    if (!fs::exists(name, ignored)) return {};
    return {.path = name, .executable = runs(name)};
  }
  FoundProgram found;
  for (const std::string& folder : folders_of(path)) {
    const fs::path file = fs::path(folder) / name;
    if (runs(file)) return {.path = file, .executable = true};
    if (found.path.empty() && fs::is_regular_file(file, ignored)) found.path = file;
  }
  return found;
}

std::vector<std::string> program_names(const std::string& path) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const std::string& folder : folders_of(path))
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
      names.push_back(entry.path().filename().string());
  return names;
}

Linkage linkage_of(const fs::path& program) {
  const MappedFile mapped(program);
  const std::string_view file = mapped.bytes();
  if (!is_elf64(file)) return Linkage::replaceable;
  bool linker = false, dynamic = false;
  each_segment(file, [&](const Elf64_Phdr& segment) {
    linker |= segment.p_type == PT_INTERP;
    dynamic |= segment.p_type == PT_DYNAMIC;
  });
  // A static program may be position-independent, with a dynamic section of its own, but it names no linker.
  if (!linker) return Linkage::static_program;
  return dynamic && has_runtime_inside(file) && !has_symbols(file) ? Linkage::static_cudart : Linkage::replaceable;
}

}  // namespace gpuplan::shadow
