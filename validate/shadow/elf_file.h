// ELF files of 64 bits, as the program and the runtime read them: what is linked into a program, and under which names.
#pragma once

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

namespace gpuplan::shadow {

/// A file's bytes, mapped; empty where it cannot be.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path) {
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

/// The structure at `offset` of a file's bytes; nothing where the file ends before.
template <typename T>
std::optional<T> at(std::string_view file, std::uint64_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

inline bool is_elf64(std::string_view file) {
  return file.starts_with(std::string_view(ELFMAG, SELFMAG)) && file.size() > EI_CLASS && file[EI_CLASS] == ELFCLASS64;
}

/// Calls visit(header) for each section header, in order; for none where the file has none.
template <typename F>
void each_section(std::string_view file, F&& visit) {
  const auto header = is_elf64(file) ? at<Elf64_Ehdr>(file, 0) : std::nullopt;
  for (std::uint64_t i = 0; header && i < header->e_shnum; ++i)
    if (const auto section = at<Elf64_Shdr>(file, header->e_shoff + i * sizeof(Elf64_Shdr))) visit(*section);
}

}  // namespace gpuplan::shadow
