#include <algorithm>
#include <map>

#include "estimator/base/excerpt.h"
#include "estimator/snapshot/snapshot_history.h"
#include "estimator/snapshot/write_snapshot.h"

namespace gpuplan {

std::string snapshot_folded(const Snapshot& snapshot, std::size_t device) {
  const SnapshotHistory history = follow(snapshot, device);
  std::map<std::uint32_t, std::int64_t> bytes;
  for (const SnapshotTensor& t : history.tensors)
    if (t.alive_after(history.peak_event)) bytes[t.stack] += t.bytes;
  std::map<std::string, std::int64_t> lines;
  for (const auto& [stack, amount] : bytes) {
    std::string line;
    const std::span<const std::uint32_t> frames = snapshot.stack(stack);
    for (std::size_t i = frames.size(); i-- > 0;) {
      std::string name = printable_text(snapshot.words[snapshot.frames[frames[i]].name]);
      std::ranges::replace(name, ';', ',');
      line += (line.empty() ? "" : ";") + name;
    }
    if (line.empty()) line = "not recorded";
    if (snapshot.devices() > 1) line.insert(0, "GPU " + std::to_string(device) + ";");
    lines[line] += amount;
  }
  std::string out;
  for (const auto& [line, amount] : lines) out += line + " " + std::to_string(amount) + "\n";
  return out;
}

}  // namespace gpuplan
