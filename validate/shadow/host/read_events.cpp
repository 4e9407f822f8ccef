// The Python hook's events, a JSON object a line (python/gpuplan_shadow_hook.py lists them).
#include <algorithm>
#include <charconv>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

#include "validate/shadow/host/read_session.h"

namespace gpuplan::shadow {
namespace {

using ParsedJson = nlohmann::json;

std::int64_t number(const ParsedJson& map, const char* key, std::int64_t absent = 0) {
  const auto found = map.find(key);
  return found != map.end() && found->is_number() ? found->get<std::int64_t>() : absent;
}

std::string text(const ParsedJson& map, const char* key) {
  const auto found = map.find(key);
  return found != map.end() && found->is_string() ? found->get<std::string>() : "";
}

const ParsedJson& child(const ParsedJson& map, const char* key) {
  static const ParsedJson empty = ParsedJson::object();
  const auto found = map.find(key);
  return found == map.end() ? empty : *found;
}

Figures figures(const ParsedJson& map) {
  return {.allocated = number(map, "allocated"),
          .requested = number(map, "requested"),
          .reserved = number(map, "reserved")};
}

void raise(Figures& peak, const Figures& other) {
  peak.allocated = std::max(peak.allocated, other.allocated);
  peak.requested = std::max(peak.requested, other.requested);
  peak.reserved = std::max(peak.reserved, other.reserved);
}

// Calls visit(device, figures) for each member of "devices", whose keys are numbers as text.
template <typename F>
void each_device(const ParsedJson& event, F&& visit) {
  for (const auto& [key, value] : child(event, "devices").items()) {
    int device = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), device);
    if (error == std::errc() && end == key.data() + key.size() && value.is_object()) visit(device, value);
  }
}

void raise_device(TorchDevice& device, const ParsedJson& value) {
  raise(device.peak, figures(child(value, "peak")));
  device.segments = std::max(device.segments, number(value, "segments"));
  device.retries = std::max(device.retries, number(value, "retries"));
  device.ooms = std::max(device.ooms, number(value, "ooms"));
  device.graph_bytes = std::max(device.graph_bytes, number(value, "graphs"));
}

void read_step(const ParsedJson& event, ProcessRecord& process) {
  each_device(event, [&](int index, const ParsedJson& value) {
    TorchDevice& device = process.devices[index];
    raise_device(device, value);
    device.steps.push_back({.index = static_cast<int>(number(event, "index")),
                            .peak = figures(child(value, "peak")),
                            .live = figures(child(value, "live")),
                            .kernels = number(value, "launches")});
  });
}

void read_peak(const ParsedJson& event, ProcessRecord& process) {
  TorchDevice& device = process.devices[static_cast<int>(number(event, "device"))];
  raise(device.peak, figures(event));
  Alive alive;
  alive.when = text(event, "when");
  for (const auto& [name, bytes] : child(event, "categories").items())
    if (bytes.is_number()) alive.categories.emplace_back(name, bytes.get<std::int64_t>());
  for (const ParsedJson& line : child(event, "lines"))
    if (line.is_object())
      alive.lines.push_back({.file = text(line, "file"),
                             .function = text(line, "function"),
                             .code = text(line, "code"),
                             .line = static_cast<int>(number(line, "line")),
                             .bytes = number(line, "bytes"),
                             .blocks = number(line, "blocks")});
  const auto larger = [](const auto& a, const auto& b) { return a.second > b.second; };
  std::stable_sort(alive.categories.begin(), alive.categories.end(), larger);
  std::stable_sort(alive.lines.begin(), alive.lines.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  device.alive = std::move(alive);
}

void read_out_of_memory(const ParsedJson& event, ProcessRecord& process) {
  process.out_of_memory.push_back({.wanted_bytes = number(event, "wanted"),
                                   .free_bytes = number(event, "free"),
                                   .allocated_bytes = number(event, "allocated"),
                                   .reserved_bytes = number(event, "reserved"),
                                   .device = static_cast<int>(number(event, "device")),
                                   .message = text(event, "message")});
}

// A process outside torch.distributed is rank 0 of 1.
void read_rank(const ParsedJson& event, ProcessRecord& process) {
  if (number(event, "world", 1) > 1 || process.rank < 0) process.rank = static_cast<int>(number(event, "rank", -1));
}

void read_start(const ParsedJson& event, ProcessRecord& process) {
  process.torch = text(event, "torch");
  process.cuda = text(event, "cuda");
  process.python = text(event, "python");
}

void read_compiled(const ParsedJson& event, ProcessRecord& process) {
  process.compiled.graphs = number(event, "graphs");
  for (const ParsedJson& place : child(event, "breaks"))
    if (place.is_object())
      process.compiled.breaks.push_back({.file = text(place, "file"),
                                         .reason = text(place, "reason"),
                                         .line = static_cast<int>(number(place, "line")),
                                         .times = number(place, "times")});
}

void read_decided(const ParsedJson& event, ProcessRecord& process) {
  for (const ParsedJson& read : child(event, "reads"))
    if (read.is_object())
      process.decided.push_back({.file = text(read, "file"),
                                 .function = text(read, "function"),
                                 .line = static_cast<int>(number(read, "line")),
                                 .times = number(read, "times"),
                                 .drawn = number(read, "drawn") != 0});
  std::ranges::stable_sort(process.decided, std::greater(), &Decision::times);
}

// Each rank makes the same.
void read_choice(const ParsedJson& event, SessionRecord& session) {
  std::int64_t& workspace = session.choices[{text(event, "kind"), text(event, "name")}];
  workspace = std::max(workspace, number(event, "workspace"));
}

// A part with its bytes, or a line.
void read_engine(const ParsedJson& event, Engine& engine) {
  engine.name = text(event, "name");
  if (const std::string name = text(event, "part"); !name.empty()) {
    const auto known = std::ranges::find(engine.parts, name, [](const auto& part) { return part.first; });
    if (known == engine.parts.end())
      engine.parts.emplace_back(name, number(event, "bytes"));
    else
      known->second = std::max(known->second, number(event, "bytes"));
  }
  const std::string line = text(event, "line");
  if (!line.empty() && std::ranges::find(engine.lines, line) == engine.lines.end()) engine.lines.push_back(line);
}

void read_event(const ParsedJson& event, ProcessRecord& process, SessionRecord& session) {
  const std::string kind = text(event, "event");
  if (kind == "start" || kind == "end") read_rank(event, process);
  if (kind == "start") read_start(event, process);
  if (kind == "step") read_step(event, process);
  if (kind == "peak") read_peak(event, process);
  if (kind == "compiling") process.compiled.graphs = std::max(process.compiled.graphs, number(event, "graph"));
  if (kind == "compiled") read_compiled(event, process);
  if (kind == "decided") read_decided(event, process);
  if (kind == "choice") read_choice(event, session);
  if (kind == "engine") read_engine(event, session.engine);
  if (kind == "oom") read_out_of_memory(event, process);
  if (kind == "end") {
    process.end_reason = text(event, "reason");
    each_device(event, [&](int index, const ParsedJson& value) { raise_device(process.devices[index], value); });
  }
  if (kind == "unknown" && std::ranges::find(session.unknown, text(event, "what")) == session.unknown.end())
    session.unknown.push_back(text(event, "what"));
  if (kind == "problem") {
    const Problem problem = {.code = static_cast<int>(number(event, "code")), .text = text(event, "text")};
    const auto same = [&](const Problem& known) { return known.text == problem.text; };
    if (std::ranges::none_of(session.problems, same)) session.problems.push_back(problem);
  }
}

}  // namespace

void read_events(const std::string& lines, ProcessRecord& process, SessionRecord& session) {
  for (std::string_view rest = lines; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    const ParsedJson event = ParsedJson::parse(line, nullptr, /*allow_exceptions=*/false);
    if (event.is_object()) read_event(event, process, session);
  }
}

}  // namespace gpuplan::shadow
