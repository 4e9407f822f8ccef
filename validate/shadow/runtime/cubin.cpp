#include "validate/shadow/runtime/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

namespace gpuplan::shadow {
namespace {

using Bytes = std::span<const std::byte>;

template <typename T>
std::optional<T> read(Bytes bytes, std::size_t at) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

Bytes part(Bytes bytes, std::size_t at, std::size_t size) {
  if (at > bytes.size() || bytes.size() - at < size) return {};
  return bytes.subspan(at, size);
}

std::string_view text_at(Bytes strings, std::size_t at) {
  if (at >= strings.size()) return {};
  const char* const begin = reinterpret_cast<const char*>(strings.data()) + at;
  return {begin, strnlen(begin, strings.size() - at)};
}

// One attribute of a .nv.info section: a byte of format, a byte of kind, and two bytes that are the value, or the
// length of what follows (format 4).
constexpr unsigned kSized = 4;
constexpr unsigned kMaxThreads = 0x05;     // three words: x, y, z
constexpr unsigned kFrameSize = 0x11;      // symbol, bytes a thread; in .nv.info, which is the whole image's
constexpr unsigned kRegisterCount = 0x2f;  // symbol, registers a thread; there, too
constexpr unsigned kParameterInfo = 0x17;  // index, (offset << 16 | ordinal), size in bits 18 and up of the third word

void read_attribute(unsigned kind, Bytes value, KernelResources& kernel) {
  if (kind == kMaxThreads) {
    const auto x = read<std::uint32_t>(value, 0), y = read<std::uint32_t>(value, 4), z = read<std::uint32_t>(value, 8);
    const std::uint64_t threads = x && y && z ? std::uint64_t{*x} * *y * *z : 0;
    if (threads >= 1 && threads <= 1024) kernel.max_threads = static_cast<int>(threads);
  } else if (kind == kParameterInfo) {
    const auto place = read<std::uint32_t>(value, 4), size = read<std::uint32_t>(value, 8);
    if (place && size) kernel.parameters.push_back({*place & 0xffff, *place >> 16, *size >> 18});
  }
}

// Calls visit(kind, value) for every attribute.
template <typename F>
void each_attribute(Bytes section, F&& visit) {
  std::size_t at = 0;
  while (const auto head = read<std::uint32_t>(section, at)) {
    const std::size_t size = (*head & 0xff) == kSized ? *head >> 16 : 0;
    visit(*head >> 8 & 0xff, part(section, at + 4, size));
    at += 4 + size;
  }
}

void read_info(Bytes section, KernelResources& kernel) {
  each_attribute(section, [&](unsigned kind, Bytes value) { read_attribute(kind, value, kernel); });
  std::sort(kernel.parameters.begin(), kernel.parameters.end(),
            [](const KernelParameter& a, const KernelParameter& b) { return a.ordinal < b.ordinal; });
}

// A section's name is its kind and the kernel's name: ".text.KERNEL".
bool strip(std::string_view& name, std::string_view kind) {
  if (!name.starts_with(kind)) return false;
  name.remove_prefix(kind.size());
  return true;
}

struct Image {
  Bytes bytes;
  Elf64_Ehdr header;

  std::optional<Elf64_Shdr> section(std::size_t i) const {
    if (i >= header.e_shnum) return std::nullopt;
    return read<Elf64_Shdr>(bytes, header.e_shoff + i * sizeof(Elf64_Shdr));
  }
  Bytes contents(const Elf64_Shdr& s) const { return part(bytes, s.sh_offset, s.sh_size); }
  std::string_view name(const Elf64_Shdr& s) const {
    const auto strings = section(header.e_shstrndx);
    return strings ? text_at(contents(*strings), s.sh_name) : std::string_view{};
  }
};

// Registers and local memory by the kernel's symbol.
void read_by_symbol(const Image& image, std::unordered_map<std::string, KernelResources>& kernels) {
  std::optional<Elf64_Shdr> symbols, info;
  for (std::size_t i = 0; const auto s = image.section(i); ++i) {
    if (s->sh_type == SHT_SYMTAB) symbols = s;
    if (image.name(*s) == ".nv.info") info = s;
  }
  if (!symbols || !info) return;
  const auto strings = image.section(symbols->sh_link);
  if (!strings) return;
  each_attribute(image.contents(*info), [&](unsigned kind, Bytes value) {
    const auto index = read<std::uint32_t>(value, 0), count = read<std::uint32_t>(value, 4);
    const bool registers = kind == kRegisterCount && count && *count <= 255;
    if (!index || !count || (!registers && kind != kFrameSize)) return;
    const auto symbol = read<Elf64_Sym>(image.contents(*symbols), *index * sizeof(Elf64_Sym));
    if (!symbol) return;
    const auto kernel = kernels.find(std::string(text_at(image.contents(*strings), symbol->st_name)));
    if (kernel == kernels.end()) return;
    if (registers) kernel->second.registers = static_cast<int>(*count);
    if (!registers) kernel->second.local = *count;
  });
}

}  // namespace

std::unordered_map<std::string, KernelResources> read_cubin(Bytes bytes) {
  std::unordered_map<std::string, KernelResources> kernels;
  const auto header = read<Elf64_Ehdr>(bytes, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_shentsize != sizeof(Elf64_Shdr)) {
    return kernels;
  }
  const Image image{bytes, *header};
  // Since sm_90 the 1 KiB that the system takes of a block's shared memory is part of the section.
  constexpr std::size_t kReserved = 1024;
  bool counts_reserved = false;
  for (std::size_t i = 0; const auto s = image.section(i); ++i) {
    std::string_view name = image.name(*s);
    if (strip(name, ".text.")) {
      kernels[std::string(name)];
    } else if (name == ".nv.shared.reserved.0") {
      counts_reserved = true;
    } else if (strip(name, ".nv.shared.")) {
      kernels[std::string(name)].static_shared = s->sh_size;
    } else if (strip(name, ".nv.info.")) {
      read_info(image.contents(*s), kernels[std::string(name)]);
    }
  }
  read_by_symbol(image, kernels);
  for (auto& [name, kernel] : kernels) {
    if (counts_reserved && kernel.static_shared >= kReserved) kernel.static_shared -= kReserved;
  }
  return kernels;
}

}  // namespace gpuplan::shadow
