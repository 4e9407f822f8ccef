#include "validate/shadow/host/read_session.h"

#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "validate/shadow/session.h"

namespace gpuplan::shadow {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// "events.123.jsonl" -> 123; nothing where the name is another.
std::optional<int> process_of(std::string_view name, std::string_view prefix, std::string_view suffix) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  name.remove_suffix(std::min(suffix.size(), name.size()));
  int pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return pid;
}

ProcessRecord& process_with(SessionRecord& session, int pid) {
  const auto found = std::ranges::find(session.processes, pid, &ProcessRecord::pid);
  if (found != session.processes.end()) return *found;
  session.processes.emplace_back().pid = pid;
  return session.processes.back();
}

void read_counters(const SessionCounters& counters, SessionRecord& session) {
  for (int device = 0; device < kMaxDevices; ++device)
    if (const std::int64_t word = counters.fullest[device]; word > 0) session.fullest[device] = moment_of(word);
  for (const ProcessCounters& slot : counters.processes) {
    if (slot.pid == 0) return;
    ProcessRecord& process = process_with(session, slot.pid);
    process.rank = slot.rank;
    process.pytorch |= slot.pytorch != 0;
    process.kernels += slot.launches;
    process.refusals += slot.refusals;
    process.refused_bytes = slot.refused_bytes;
    process.refused_free_bytes = slot.refused_free_bytes;
    for (int device = 0; device < kMaxDevices; ++device) {
      const ProcessDeviceCounters& d = slot.devices[device];
      if (d.peak == 0 && d.allocations == 0) continue;
      DeviceUse& use = process.used[device];
      use.peak_bytes = std::max<std::int64_t>(use.peak_bytes, d.peak);
      use.allocations += d.allocations;
    }
  }
  session.unknown.push_back("what processes beyond the first " + std::to_string(kMaxProcesses) +
                            " that used CUDA held");
}

void read_unknown(const std::string& lines, SessionRecord& session) {
  for (std::string_view rest = lines; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) return;  // cut off
    const std::string line(rest.substr(0, end));
    rest.remove_prefix(end + 1);
    if (!line.empty() && std::ranges::find(session.unknown, line) == session.unknown.end())
      session.unknown.push_back(line);
  }
}

}  // namespace

SessionRecord read_session(const std::string& directory) {
  SessionRecord session;
  std::error_code ignored;
  if (fs::exists(fs::path(directory) / "counters", ignored)) {
    SessionCounters* const counters = map_counters(directory);
    read_counters(*counters, session);
    munmap(counters, sizeof(SessionCounters));
  }
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) files.push_back(entry.path());
  std::ranges::sort(files);  // the same order of messages every time
  for (const fs::path& file : files) {
    const std::string name = file.filename().string();
    if (const auto pid = process_of(name, "events.", ".jsonl"))
      read_events(contents(file), process_with(session, *pid), session);
    if (const auto pid = process_of(name, "allocations.", ".tsv"))
      process_with(session, *pid).allocations = contents(file);
    if (const auto pid = process_of(name, "workspaces.", ".tsv"))
      process_with(session, *pid).workspaces = contents(file);
    if (process_of(name, "unknown.", "")) read_unknown(contents(file), session);
  }
  std::ranges::stable_sort(session.processes, [](const ProcessRecord& a, const ProcessRecord& b) {
    return std::pair(a.rank, a.pid) < std::pair(b.rank, b.pid);
  });
  return session;
}

}  // namespace gpuplan::shadow
