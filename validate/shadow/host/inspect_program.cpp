#include "validate/shadow/host/inspect_program.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

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

// A file's bytes, mapped; empty where it cannot be.
class MappedFile {
 public:
  explicit MappedFile(const fs::path& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    struct stat status {};
    if (fstat(file, &status) == 0 && status.st_size > 0) {
      size_ = static_cast<std::size_t>(status.st_size);
      void* const memory = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
      if (memory != MAP_FAILED) data_ = static_cast<const char*>(memory);
    }
    close(file);
  }
  ~MappedFile() {
    if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return data_ == nullptr ? std::string_view() : std::string_view(data_, size_); }

 private:
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

// The structure at `offset`; nothing where the file ends before.
template <typename T>
std::optional<T> at(std::string_view file, std::uint64_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

bool is_elf64(std::string_view file) {
  return file.starts_with(std::string_view(ELFMAG, SELFMAG)) && file.size() > EI_CLASS && file[EI_CLASS] == ELFCLASS64;
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
  const auto header = at<Elf64_Ehdr>(file, 0);
  for (std::uint64_t i = 0; header && i < header->e_shnum; ++i) {
    const auto section = at<Elf64_Shdr>(file, header->e_shoff + i * sizeof(Elf64_Shdr));
    if (section && section->sh_type == SHT_SYMTAB) return true;
  }
  return false;
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
