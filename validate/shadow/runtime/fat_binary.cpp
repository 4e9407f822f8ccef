#include "validate/shadow/runtime/fat_binary.h"

#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace gpuplan::shadow {
namespace {

// --- LZ4's block format, in which nvcc compressed code until CUDA 12.8 ---------------------------------------------

// Described in the lz4 project under "LZ4 Block Format".
struct BlockReader {
  std::span<const std::byte> bytes;
  std::size_t at = 0;

  std::optional<unsigned> byte() {
    if (at >= bytes.size()) return std::nullopt;
    return std::to_integer<unsigned>(bytes[at++]);
  }

  // A length of 15 goes on in bytes that are added, up to and with the first that is not 255.
  std::optional<std::size_t> length(unsigned nibble) {
    std::size_t total = nibble;
    if (nibble != 15) return total;
    while (const auto more = byte()) {
      total += *more;
      if (*more != 255) return total;
    }
    return std::nullopt;
  }
};

// Unpacks `from` into the whole of `to`. False where `from` is broken or gives another number of bytes.
bool unpack_lz4(std::span<const std::byte> from, std::span<std::byte> to) {
  BlockReader in{from};
  std::size_t written = 0;
  while (const auto token = in.byte()) {
    const auto literals = in.length(*token >> 4);
    if (!literals || *literals > from.size() - in.at || *literals > to.size() - written) return false;
    std::memcpy(to.data() + written, from.data() + in.at, *literals);
    in.at += *literals;
    written += *literals;
    if (in.at == from.size()) return written == to.size();  // the last sequence has literals only
    const auto low = in.byte(), high = in.byte();
    if (!low || !high) return false;
    const std::size_t distance = *low | *high << 8;
    const auto extra = in.length(*token & 15);
    if (!extra || distance == 0 || distance > written) return false;
    constexpr std::size_t kShortestMatch = 4;
    const std::size_t match = *extra + kShortestMatch;
    if (match > to.size() - written) return false;
    for (std::size_t i = 0; i < match; ++i, ++written) to[written] = to[written - distance];  // may overlap itself
  }
  return false;
}

// --- the container -------------------------------------------------------------------------------------------------

struct Wrapper {
  std::uint32_t magic;
  std::uint32_t version;
  const std::byte* data;
  const void* file_name;
};
constexpr std::uint32_t kWrapperMagic = 0x466243b1;

struct Container {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_bytes;
  std::uint64_t bytes;  // after the header
};
constexpr std::uint32_t kContainerMagic = 0xba55ed50;

struct Entry {
  std::uint16_t kind;  // 1 PTX, 2 cubin
  std::uint16_t version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;  // after the header, padded
  std::uint32_t compressed_bytes;
  std::uint32_t unknown;
  std::uint16_t minor_format, major_format;
  std::uint32_t architecture;  // 90 for sm_90
  std::uint32_t name_offset, name_bytes;
  std::uint64_t flags;
  std::uint64_t reserved;
  std::uint64_t unpacked_bytes;
};
constexpr std::uint16_t kCubin = 2;
constexpr std::uint64_t kLz4 = 0x2000, kZstd = 0x8000;
constexpr std::uint64_t kUnpackedLimit = std::uint64_t{1} << 30;

// libzstd where the machine has one (dpkg needs it on Debian): PyTorch's wheels since CUDA 12.9 are compressed with it.
bool unpack_zstd(const std::byte* from, std::size_t from_bytes, std::vector<std::byte>& to) {
  using Decompress = std::size_t (*)(void*, std::size_t, const void*, std::size_t);
  static const auto decompress = [] {
    void* const library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<Decompress>(library != nullptr ? dlsym(library, "ZSTD_decompress") : nullptr);
  }();
  return decompress != nullptr && decompress(to.data(), to.size(), from, from_bytes) == to.size();
}

std::vector<std::byte> unpack(const std::byte* data, const Entry& entry) {
  if ((entry.flags & (kLz4 | kZstd)) == 0) return {data, data + entry.bytes};
  if (entry.unpacked_bytes > kUnpackedLimit || entry.compressed_bytes > entry.bytes) return {};
  std::vector<std::byte> image(entry.unpacked_bytes);
  const bool unpacked = (entry.flags & kZstd) != 0 ? unpack_zstd(data, entry.compressed_bytes, image)
                                                   : unpack_lz4({data, entry.compressed_bytes}, image);
  return unpacked ? image : std::vector<std::byte>{};
}

// The best of the container's.
std::vector<std::byte> cubin_in(const std::byte* data, int major, int minor) {
  Container container;
  std::memcpy(&container, data, sizeof container);
  if (container.version != 1) return {};
  const std::byte* at = data + container.header_bytes;
  const std::byte* const end = at + container.bytes;
  const std::byte* best = nullptr;
  Entry best_entry{};
  while (static_cast<std::size_t>(end - at) >= sizeof(Entry)) {
    Entry entry;
    std::memcpy(&entry, at, sizeof entry);
    if (entry.header_bytes < sizeof entry || entry.bytes > static_cast<std::uint64_t>(end - at) - entry.header_bytes)
      break;
    const auto architecture = static_cast<int>(entry.architecture);
    const bool fits = entry.kind == kCubin && architecture / 10 == major && architecture % 10 <= minor;
    if (fits && (best == nullptr || entry.architecture > best_entry.architecture)) {
      best = at + entry.header_bytes;
      best_entry = entry;
    }
    at += entry.header_bytes + entry.bytes;
  }
  return best != nullptr ? unpack(best, best_entry) : std::vector<std::byte>{};
}

// An ELF image as long as its sections say.
std::vector<std::byte> whole_elf(const std::byte* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr)) return {};
  std::uint64_t end = header.e_shoff + std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, image + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOBITS) end = std::max(end, section.sh_offset + section.sh_size);
  }
  return end <= kUnpackedLimit ? std::vector<std::byte>{image, image + end} : std::vector<std::byte>{};
}

}  // namespace

std::vector<std::byte> cubin_for(const void* code, int major, int minor) {
  if (code == nullptr) return {};
  std::uint32_t magic = 0;
  std::memcpy(&magic, code, sizeof magic);
  const auto* const bytes = static_cast<const std::byte*>(code);
  if (std::memcmp(&magic, ELFMAG, SELFMAG) == 0) return whole_elf(bytes);
  if (magic == kContainerMagic) return cubin_in(bytes, major, minor);
  if (magic != kWrapperMagic) return {};
  const std::byte* const data = static_cast<const Wrapper*>(code)->data;
  std::memcpy(&magic, data, sizeof magic);
  return magic == kContainerMagic ? cubin_in(data, major, minor) : std::vector<std::byte>{};
}

}  // namespace gpuplan::shadow
