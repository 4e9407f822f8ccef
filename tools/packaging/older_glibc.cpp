// What GCC's own libraries call of newer glibcs, where they are linked in: with these the programs start on glibc 2.34
// (Ubuntu 22.04, RHEL 9), too. Hidden: nobody else's calls come here.
#include <dlfcn.h>
#include <features.h>
#include <link.h>
#include <sys/random.h>

#include <cstdint>

#define GPUPLAN_HIDDEN extern "C" __attribute__((visibility("hidden")))

// libstdc++'s std::random_device; glibc has it since 2.36.
#if __GLIBC_PREREQ(2, 36)
GPUPLAN_HIDDEN std::uint32_t arc4random() noexcept {
  std::uint32_t number = 0;
  // A read of so few bytes is whole, and fails before the kernel has its seed only, which it then waits for.
  while (getrandom(&number, sizeof number, 0) != sizeof number) {
  }
  return number;
}
#endif

// libgcc's unwinder, of which the shadow runtime has a copy of its own: the object that has the code at an address, and
// its table of frames; glibc has it since 2.35.
#if __GLIBC_PREREQ(2, 35)
namespace {

struct Search {
  ElfW(Addr) address;
  dl_find_object* found;
};

void* pointer_to(ElfW(Addr) address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): a place in a loaded file
}

int compare(dl_phdr_info* object, std::size_t, void* data) {
  const Search& search = *static_cast<Search*>(data);
  const ElfW(Phdr)* frames = nullptr;
  bool is_in = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    const ElfW(Addr) start = object->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_GNU_EH_FRAME) frames = &part;
    if (part.p_type != PT_LOAD || search.address < start || search.address - start >= part.p_memsz) continue;
    is_in = true;
    search.found->dlfo_map_start = pointer_to(start);
    search.found->dlfo_map_end = pointer_to(start + part.p_memsz);
  }
  if (!is_in || frames == nullptr) return 0;
  search.found->dlfo_eh_frame = pointer_to(object->dlpi_addr + frames->p_vaddr);
  return 1;
}

}  // namespace

GPUPLAN_HIDDEN int _dl_find_object(void* address, dl_find_object* found) noexcept {
  *found = {};
  Search search{reinterpret_cast<ElfW(Addr)>(address), found};
  return dl_iterate_phdr(compare, &search) == 1 ? 0 : -1;
}
#endif
