// Characters of UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace gpuplan {

/// Bytes of the well-formed sequence at the start of `rest` (Unicode 15, table 3-7), or 0.
std::size_t utf8_sequence_bytes(std::string_view rest);

}  // namespace gpuplan
