#include "tools/answers/snapshot_input.h"

#include <filesystem>

#include "tools/files/read_input.h"

namespace gpuplan {

bool is_snapshot(const std::string& name) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(name, none)) return false;
  return is_pickle_text(read_start(name, 2));
}

Snapshot snapshot_in(const Source& source) {
  std::string_view left = source.text;
  return read_snapshot(source.name, [&](char* to, std::size_t most) {
    const std::size_t bytes = left.copy(to, most);
    left.remove_prefix(bytes);
    return bytes;
  });
}

Snapshot open_snapshot(const std::string& name) {
  InputReader input(name);
  return read_snapshot(called(name), [&](char* to, std::size_t most) { return input.read(to, most); });
}

}  // namespace gpuplan
