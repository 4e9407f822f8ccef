#include "validate/shadow/runtime/lz4.h"

#include <cstdint>
#include <cstring>
#include <optional>

namespace gpuplan::shadow {
namespace {

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

}  // namespace

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

}  // namespace gpuplan::shadow
