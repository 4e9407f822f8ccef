#include "validate/shadow/session.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <stdexcept>
#include <system_error>
#include <type_traits>

namespace gpuplan::shadow {
namespace {

// Calls visit(key, field) for every setting: the one list of their names.
template <typename S, typename F>
void each_setting(S& s, F&& visit) {
  visit("gpu", s.gpu.key);
  visit("gpu.name", s.gpu.name);
  visit("gpu.major", s.gpu.major);
  visit("gpu.minor", s.gpu.minor);
  visit("gpu.multi_processor_count", s.gpu.multi_processor_count);
  visit("gpu.total_global_mem", s.gpu.total_global_mem);
  visit("gpu.reserved_memory", s.gpu.reserved_memory);
  visit("gpu.shared_mem_per_multiprocessor", s.gpu.shared_mem_per_multiprocessor);
  visit("gpu.shared_mem_per_block_optin", s.gpu.shared_mem_per_block_optin);
  visit("gpu.reserved_shared_mem_per_block", s.gpu.reserved_shared_mem_per_block);
  visit("gpu.max_threads_per_multi_processor", s.gpu.max_threads_per_multi_processor);
  visit("gpu.max_blocks_per_multi_processor", s.gpu.max_blocks_per_multi_processor);
  visit("gpu.l2_cache_size", s.gpu.l2_cache_size);
  visit("gpu.memory_bus_width", s.gpu.memory_bus_width);
  visit("gpu.clock_rate", s.gpu.clock_rate);
  visit("gpu.memory_clock_rate", s.gpu.memory_clock_rate);
  visit("gpu.nvlink", s.gpu.nvlink);
  visit("devices", s.devices);
  visit("context_bytes", s.context_bytes);
  visit("copy_limit", s.copy_limit);
  visit("cudnn_workspaces", s.cudnn_workspaces);
  visit("driver_segments", s.driver_segments);
  visit("record_launches", s.record_launches);
  visit("events_lag", s.events_lag);
  visit("peers", s.peers);
  visit("world", s.world);
  visit("rank", s.rank);
  visit("steps", s.steps);
  visit("until_stable", s.until_stable);
  visit("values", s.values);
  visit("seed", s.seed);
  visit("routing", s.routing);
  visit("no_compile", s.no_compile);
  visit("snapshot", s.snapshot);
  visit("python_lines", s.python_lines);
  visit("learn", s.learn);
}

std::string text_of(const std::string& value) { return value; }
std::string text_of(bool value) { return value ? "1" : "0"; }
std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string text_of(int value) { return std::to_string(value); }
template <typename E>
requires std::is_enum_v<E> std::string text_of(E value) { return std::to_string(static_cast<int>(value)); }

template <typename T>
bool parse(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse(std::string_view text, std::string& value) {
  value = text;
  return true;
}

bool parse(std::string_view text, bool& value) {
  value = text == "1";
  return text == "0" || text == "1";
}

// Of an enumeration whose last value is the given one.
template <typename E>
bool parse_up_to(E last, std::string_view text, E& value) {
  int number = 0;
  if (!parse(text, number) || number < 0 || number > static_cast<int>(last)) return false;
  value = static_cast<E>(number);
  return true;
}
bool parse(std::string_view text, Peers& value) { return parse_up_to(Peers::imagined, text, value); }
bool parse(std::string_view text, Routing& value) { return parse_up_to(Routing::worst, text, value); }

void read_line(std::string_view line, Settings& settings) {
  const std::size_t equals = line.find('=');
  const std::string_view key = line.substr(0, equals);
  bool known = false, good = false;
  if (equals != std::string_view::npos) {
    each_setting(settings, [&](std::string_view name, auto& field) {
      if (name != key) return;
      known = true;
      good = parse(line.substr(equals + 1), field);
    });
  }
  if (!known || !good) throw std::runtime_error("session: not a setting: " + std::string(line));
}

}  // namespace

std::string write_settings(const Settings& settings) {
  std::string text;
  each_setting(settings, [&](const char* name, const auto& field) {
    const std::string value = text_of(field);
    if (value.find('\n') != std::string::npos) throw std::runtime_error("session: a setting has no line break");
    text.append(name).append("=").append(value).append("\n");
  });
  return text;
}

Settings read_settings(std::string_view text) {
  Settings settings;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (!line.empty()) read_line(line, settings);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return settings;
}

std::int64_t used_on(const SessionCounters& counters, int device) {
  std::int64_t used = 0;
  for (const ProcessCounters& process : counters.processes)
    used += process.devices[device].used + process.devices[device].context;
  return used;
}

SessionCounters* map_counters(const std::string& session_directory) {
  const std::string path = session_directory + "/counters";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) throw std::system_error(errno, std::generic_category(), path);
  void* memory = MAP_FAILED;
  if (ftruncate(file, sizeof(SessionCounters)) == 0) {
    memory = mmap(nullptr, sizeof(SessionCounters), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  const int error = errno;
  close(file);
  if (memory == MAP_FAILED) throw std::system_error(error, std::generic_category(), path);
  return static_cast<SessionCounters*>(memory);
}

std::string uuid_of(int device) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "GPU-00000000-0000-0000-0000-%012d", device);
  return text.data();
}

}  // namespace gpuplan::shadow
