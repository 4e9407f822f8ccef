#include "validate/shadow/runtime/linked_runtime.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "validate/shadow/runtime/missing.h"
#include "validate/shadow/runtime/relocations.h"
#include "validate/shadow/runtime/runtime.h"

#if defined(__x86_64__)

namespace gpuplan::shadow {
namespace {

/// A file's bytes, mapped; empty where it cannot be read.
class File {
 public:
  explicit File(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat about {};
    if (file >= 0 && fstat(file, &about) == 0 && about.st_size > 0) {
      void* const at = mmap(nullptr, static_cast<std::size_t>(about.st_size), PROT_READ, MAP_PRIVATE, file, 0);
      if (at != MAP_FAILED) bytes_ = {static_cast<const char*>(at), static_cast<std::size_t>(about.st_size)};
    }
    if (file >= 0) close(file);
  }
  ~File() {
    if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// `bytes` of them from `offset` on; empty where the file ends before.
  std::string_view part(std::uint64_t offset, std::uint64_t bytes) const {
    return offset <= bytes_.size() && bytes <= bytes_.size() - offset ? bytes_.substr(offset, bytes)
                                                                      : std::string_view();
  }
  template <typename T>
  T at(std::uint64_t offset) const {
    T value{};
    if (const std::string_view found = part(offset, sizeof(T)); !found.empty())
      std::memcpy(&value, found.data(), sizeof(T));
    return value;
  }

 private:
  std::string_view bytes_;
};

struct Function {
  std::string name;
  std::uintptr_t offset = 0;  // from the object's base
  std::uint64_t bytes = 0;
};

/// The functions of the symbol table (not of the dynamic one, which has those that others call) that begin with "cuda",
/// or register what nvcc has compiled.
std::vector<Function> named_functions(const File& file) {
  std::vector<Function> found;
  const auto header = file.at<Elf64_Ehdr>(0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return found;
  const auto section = [&](std::uint64_t i) { return file.at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)); };
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr table = section(i);
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= header.e_shnum) continue;
    const Elf64_Shdr names = section(table.sh_link);
    const std::string_view strings = file.part(names.sh_offset, names.sh_size);
    for (std::uint64_t s = 0; s + sizeof(Elf64_Sym) <= table.sh_size; s += sizeof(Elf64_Sym)) {
      const auto symbol = file.at<Elf64_Sym>(table.sh_offset + s);
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) continue;
      if (symbol.st_name >= strings.size()) continue;
      std::string_view name = strings.substr(symbol.st_name);
      name = name.substr(0, name.find('\0'));
      if (name.starts_with("cuda") || name.starts_with("__cuda") || name.ends_with("__sti____cudaRegisterAllv"))
        found.push_back({std::string(name), symbol.st_value, symbol.st_size});
    }
  }
  return found;
}

/// While dlsym() is the system's own (preloaded/dlsym.cpp).
struct LookingForReal {
  LookingForReal() { looking_for_real = true; }
  ~LookingForReal() { looking_for_real = false; }
};

void* own_function(const std::string& name) {
  static void* const self = [] {
    Dl_info here{};
    return dladdr(reinterpret_cast<void*>(&replace_linked_runtimes), &here) != 0
               ? dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
               : nullptr;
  }();
  if (self == nullptr) return nullptr;
  const LookingForReal ours_is_asked;
  // With a default stream for each thread: ours has one for all.
  for (const std::string_view suffix : {"_ptsz", "_ptds"})
    if (name.ends_with(suffix)) return dlsym(self, name.substr(0, name.size() - suffix.size()).c_str());
  return dlsym(self, name.c_str());
}

constexpr std::size_t kJumpBytes = 12;

/// mov rax, target; jmp rax.
bool write_jump(std::uintptr_t at, void* target) {
  const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = at / page_bytes * page_bytes;
  const std::size_t bytes = (at + kJumpBytes - begin + page_bytes - 1) / page_bytes * page_bytes;
  void* const pages = reinterpret_cast<void*>(begin);
  if (mprotect(pages, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return false;
  const unsigned char load[] = {0x48, 0xB8}, jump[] = {0xFF, 0xE0};
  auto* const code = reinterpret_cast<unsigned char*>(at);
  const auto address = reinterpret_cast<std::uintptr_t>(target);
  std::memcpy(code, load, 2);
  std::memcpy(code + 2, &address, 8);
  std::memcpy(code + 10, jump, 2);
  return mprotect(pages, bytes, PROT_READ | PROT_EXEC) == 0;
}

/// A runtime is one that registers what nvcc has compiled. False where there is none.
bool replace_functions(const std::vector<Function>& functions, std::uintptr_t base) {
  bool runtime = false;
  for (const Function& f : functions) runtime |= f.name == "__cudaRegisterFatBinary";
  if (!runtime) return false;
  for (const Function& f : functions) {
    if (f.bytes < kJumpBytes) continue;
    if (void* const own = own_function(f.name)) write_jump(base + f.offset, own);
  }
  return true;
}

void register_again(const std::vector<Function>& functions, std::uintptr_t base) {
  for (const Function& f : functions)
    if (f.name.ends_with("__sti____cudaRegisterAllv")) reinterpret_cast<void (*)()>(base + f.offset)();
}

constexpr std::chrono::milliseconds kPatience{100};

struct State {
  std::timed_mutex mutex;
  std::atomic<std::uint64_t> checked{0};  // loaded_so_far() of the last call
  std::set<std::pair<std::string, std::uintptr_t>> objects;
};

State& state() {
  static auto* const instance = new State;  // libraries are loaded until the process ends
  return *instance;
}

}  // namespace

void replace_linked_runtimes(Constructors constructors) {
  State& s = state();
  const std::uint64_t loaded = loaded_so_far();
  if (s.checked.load(std::memory_order_acquire) == loaded) return;
  // Does not wait for long: this thread may be in a constructor of a library that it loads, and so hold the loader's
  // lock, for which the thread that replaces may wait. The next look-up of a function asks again.
  const std::unique_lock lock(s.mutex, kPatience);
  if (!lock) return;
  s.checked.store(loaded, std::memory_order_release);
  const auto is_new = [&](const std::string& path, std::uintptr_t base) {
    const std::string name = path.substr(path.rfind('/') + 1);
    return !is_cuda_library(name) && !name.starts_with("libgpuplan_shadow") && s.objects.insert({path, base}).second;
  };
  for (const LoadedObject& object : find_references(is_new, [](std::string_view) { return false; })) {
    const std::vector<Function> functions = named_functions(File(object.path.empty() ? "/proc/self/exe" : object.path));
    const bool replaced = replace_functions(functions, object.base);
    if (replaced && (constructors == Constructors::done || !object.path.empty()))
      register_again(functions, object.base);
  }
}

}  // namespace gpuplan::shadow

#else

namespace gpuplan::shadow {

void replace_linked_runtimes(Constructors) {}

}  // namespace gpuplan::shadow

#endif
