#include "validate/shadow/runtime/linked_runtime.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
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

#include "validate/shadow/elf_file.h"
#include "validate/shadow/runtime/missing.h"
#include "validate/shadow/runtime/relocations.h"
#include "validate/shadow/runtime/runtime.h"

#if defined(__x86_64__)

namespace gpuplan::shadow {
namespace {

struct Function {
  std::string name;
  std::uintptr_t offset = 0;  // from the object's base
  std::uint64_t bytes = 0;
};

/// The functions of the symbol table (not of the dynamic one, which has those that others call) that begin with "cuda",
/// or register what nvcc has compiled.
std::vector<Function> named_functions(std::string_view file) {
  std::vector<Elf64_Shdr> sections;
  each_section(file, [&](const Elf64_Shdr& section) { sections.push_back(section); });
  std::vector<Function> found;
  for (const Elf64_Shdr& table : sections) {
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= sections.size()) continue;
    const Elf64_Shdr& names = sections[table.sh_link];
    if (names.sh_offset > file.size()) continue;
    const std::string_view strings = file.substr(names.sh_offset, names.sh_size);
    for (std::uint64_t s = 0; s + sizeof(Elf64_Sym) <= table.sh_size; s += sizeof(Elf64_Sym)) {
      const auto symbol = at<Elf64_Sym>(file, table.sh_offset + s);
      if (!symbol) break;
      if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF) continue;
      if (symbol->st_name >= strings.size()) continue;
      std::string_view name = strings.substr(symbol->st_name);
      name = name.substr(0, name.find('\0'));
      if (name.starts_with("cuda") || name.starts_with("__cuda") || name.ends_with("__sti____cudaRegisterAllv"))
        found.push_back({std::string(name), symbol->st_value, symbol->st_size});
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

/// mov rax, target; jmp rax. Where the system lets nobody write code, the function stays as it is.
void write_jump(std::uintptr_t at, void* target) {
  const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = at / page_bytes * page_bytes;
  const std::size_t bytes = (at + kJumpBytes - begin + page_bytes - 1) / page_bytes * page_bytes;
  void* const pages = reinterpret_cast<void*>(begin);
  if (mprotect(pages, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return;
  const unsigned char load[] = {0x48, 0xB8}, jump[] = {0xFF, 0xE0};
  auto* const code = reinterpret_cast<unsigned char*>(at);
  const auto address = reinterpret_cast<std::uintptr_t>(target);
  std::memcpy(code, load, 2);
  std::memcpy(code + 2, &address, 8);
  std::memcpy(code + 10, jump, 2);
  mprotect(pages, bytes, PROT_READ | PROT_EXEC);
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
    const bool is_program = object.path.empty();
    const MappedFile file(is_program ? "/proc/self/exe" : object.path);
    const std::vector<Function> functions = named_functions(file.bytes());
    if (!replace_functions(functions, object.base)) continue;
    if (is_program && constructors == Constructors::to_come) continue;
    // It stays loaded, or it would come back as it was.
    if (!is_program) dlopen(object.path.c_str(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    register_again(functions,
                   object.base);  // of a library that the program links, perhaps before its constructors: no harm
  }
}

}  // namespace gpuplan::shadow

#else

namespace gpuplan::shadow {

void replace_linked_runtimes(Constructors) {}

}  // namespace gpuplan::shadow

#endif
