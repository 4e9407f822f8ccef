#include "validate/shadow/runtime/relocations.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

namespace gpuplan::shadow {
namespace {

// Relocations that store a symbol's address as it is (System V ABI of either processor).
constexpr bool stores_address(std::uint64_t type) {
#if defined(__x86_64__)
  return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_64;
#elif defined(__aarch64__)
  return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT || type == R_AARCH64_ABS64;
#else
  return false;
#endif
}

/// What the dynamic section says. Addresses are zero where it has none.
struct Dynamic {
  std::uintptr_t base = 0;
  std::uintptr_t symbols = 0, strings = 0, calls = 0, others = 0;
  std::size_t calls_bytes = 0, others_bytes = 0;
  std::size_t relative = 0;  // that many of `others` come first and have no symbol
};

/// glibc replaces addresses in the section by absolute ones, other loaders do not.
std::uintptr_t absolute(std::uintptr_t base, std::uintptr_t address) {
  return address < base ? base + address : address;
}

Dynamic read_dynamic(std::uintptr_t base, const ElfW(Dyn) * entry) {
  Dynamic d{base};
  for (; entry->d_tag != DT_NULL; ++entry) {
    const auto value = static_cast<std::uintptr_t>(entry->d_un.d_val);
    switch (entry->d_tag) {
      case DT_SYMTAB: d.symbols = absolute(base, value); break;
      case DT_STRTAB: d.strings = absolute(base, value); break;
      case DT_JMPREL: d.calls = absolute(base, value); break;
      case DT_PLTRELSZ: d.calls_bytes = value; break;
      case DT_RELA: d.others = absolute(base, value); break;
      case DT_RELASZ: d.others_bytes = value; break;
      case DT_RELACOUNT: d.relative = value; break;
      default: break;
    }
  }
  return d;
}

using WantedFunction = std::function<bool(std::string_view)>;

void add_references(const Dynamic& d, const ElfW(Rela) * first, const ElfW(Rela) * last, const WantedFunction& wanted,
                    std::vector<Reference>& out) {
  const auto* const symbols = reinterpret_cast<const ElfW(Sym)*>(d.symbols);
  const auto* const strings = reinterpret_cast<const char*>(d.strings);
  for (; first != last; ++first) {
    if (!stores_address(ELF64_R_TYPE(first->r_info)) || first->r_addend != 0) continue;
    const ElfW(Sym)& symbol = symbols[ELF64_R_SYM(first->r_info)];
    if (symbol.st_shndx != SHN_UNDEF || symbol.st_name == 0) continue;
    const char* const name = strings + symbol.st_name;
    if (!wanted(name)) continue;
    out.push_back(
        {name, reinterpret_cast<void**>(d.base + first->r_offset), ELF64_ST_BIND(symbol.st_info) == STB_WEAK});
  }
}

std::vector<Reference> references_of(const Dynamic& d, const WantedFunction& wanted) {
  std::vector<Reference> found;
  if (d.symbols == 0 || d.strings == 0) return found;
  const auto* const calls = reinterpret_cast<const ElfW(Rela)*>(d.calls);
  if (calls != nullptr) add_references(d, calls, calls + d.calls_bytes / sizeof(ElfW(Rela)), wanted, found);
  const auto* const others = reinterpret_cast<const ElfW(Rela)*>(d.others);
  const std::size_t count = d.others_bytes / sizeof(ElfW(Rela));
  if (others != nullptr && d.relative < count) {
    add_references(d, others + d.relative, others + count, wanted, found);
  }
  return found;
}

struct Walk {
  const std::function<bool(const std::string&, std::uintptr_t)>& wanted_object;
  const WantedFunction& wanted_function;
  std::vector<LoadedObject> found;
};

int visit(dl_phdr_info* info, std::size_t /*size*/, void* data) {
  auto& walk = *static_cast<Walk*>(data);
  LoadedObject object;
  object.path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  object.base = info->dlpi_addr;
  if (!walk.wanted_object(object.path, object.base)) return 0;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const std::uintptr_t begin = object.base + header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) {
      object.references =
          references_of(read_dynamic(object.base, reinterpret_cast<const ElfW(Dyn)*>(begin)), walk.wanted_function);
    } else if (header.p_type == PT_GNU_RELRO) {
      object.read_only_begin = begin / page * page;
      object.read_only_end = (begin + header.p_memsz) / page * page;  // as the loader rounds
    }
  }
  walk.found.push_back(std::move(object));
  return 0;
}

}  // namespace

std::uint64_t loaded_so_far() {
  std::uint64_t loaded = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        *static_cast<std::uint64_t*>(data) = info->dlpi_adds;
        return 1;
      },
      &loaded);
  return loaded;
}

std::vector<LoadedObject> find_references(const std::function<bool(const std::string&, std::uintptr_t)>& wanted_object,
                                          const std::function<bool(std::string_view)>& wanted_function) {
  Walk walk{wanted_object, wanted_function, {}};
  dl_iterate_phdr(visit, &walk);
  return std::move(walk.found);
}

bool redirect(const LoadedObject& object, void** slot, void* target) {
  const auto address = reinterpret_cast<std::uintptr_t>(slot);
  const bool is_protected = object.read_only_begin <= address && address < object.read_only_end;
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const page = reinterpret_cast<void*>(address / page_bytes * page_bytes);
  if (is_protected && mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return false;
  std::atomic_ref(*slot).store(target, std::memory_order_release);  // other threads call through it
  if (is_protected) mprotect(page, page_bytes, PROT_READ);
  return true;
}

}  // namespace gpuplan::shadow
