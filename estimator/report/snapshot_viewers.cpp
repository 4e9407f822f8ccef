#include "estimator/report/snapshot_viewers.h"

#include <algorithm>
#include <map>
#include <vector>

#include "estimator/report/json_parts.h"
#include "estimator/snapshot/snapshot_history.h"

namespace gpuplan {
namespace {

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

Json named(const char* what, std::size_t process, int thread, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

// Allocated bytes after each event, by the tensors' lives; reserved by the segments'.
void add_counters(const Snapshot& snapshot, std::size_t device, std::int64_t begin, Json& events) {
  const SnapshotHistory history = follow(snapshot, device);
  const std::span<const SnapshotEvent> of_device = snapshot.events_of(device);
  std::vector<std::int64_t> changes(of_device.size(), 0);
  for (const SnapshotTensor& t : history.tensors) {
    if (t.made != kBeforeHistory) changes[t.made] += t.bytes;
    if (t.freed != kNotFreed) changes[t.freed] -= t.bytes;
  }
  std::int64_t allocated = history.before.allocated_bytes, reserved = history.before.reserved_bytes;
  for (std::size_t i = 0; i < of_device.size(); ++i) {
    const SnapshotEvent& e = of_device[i];
    std::int64_t grown = 0;
    if (e.action == SnapshotAction::segment_alloc || e.action == SnapshotAction::segment_map) grown = e.bytes;
    if (e.action == SnapshotAction::segment_free || e.action == SnapshotAction::segment_unmap) grown = -e.bytes;
    if (changes[i] == 0 && grown == 0) continue;
    allocated += changes[i];
    reserved += grown;
    events.push_back({{"ph", "C"},
                      {"name", "memory"},
                      {"pid", device},
                      {"ts", e.microseconds - begin},
                      {"args", {{"allocated", allocated}, {"cached", reserved - allocated}}}});
  }
}

void add_ranges(const Snapshot& snapshot, std::size_t device, std::int64_t begin, Json& events) {
  std::vector<const SnapshotMark*> open;
  for (const SnapshotMark& mark : snapshot.marks) {
    if (mark.device != static_cast<std::int32_t>(device)) continue;
    if (mark.begins) {
      open.push_back(&mark);
      continue;
    }
    const auto of =
        std::find_if(open.rbegin(), open.rend(), [&](const SnapshotMark* m) { return m->name == mark.name; });
    if (of == open.rend()) continue;
    events.push_back({{"ph", "X"},
                      {"name", snapshot.words[mark.name]},
                      {"pid", device},
                      {"tid", 1},
                      {"ts", (*of)->microseconds - begin},
                      {"dur", std::max<std::int64_t>(mark.microseconds - (*of)->microseconds, 0)}});
    open.erase(std::next(of).base());
  }
}

// Of the only device, in microseconds.
void add_operations(std::span<const TimedOperation> operations, std::int64_t begin, Json& events) {
  constexpr int kHost = 2, kGpu = 3;
  if (operations.empty()) return;
  events.push_back(named("thread_name", 0, kHost, "host calls, modelled"));
  events.push_back(named("thread_name", 0, kGpu, "GPU, modelled"));
  for (const TimedOperation& o : operations)
    events.push_back({{"ph", "X"},
                      {"name", o.name},
                      {"pid", 0},
                      {"tid", o.on_gpu ? kGpu : kHost},
                      {"ts", o.begin_seconds * 1e6 - static_cast<double>(begin)},
                      {"dur", o.seconds * 1e6}});
}

}  // namespace

std::string snapshot_trace_events(const Snapshot& snapshot, std::span<const TimedOperation> operations) {
  Json events = Json::array();
  const std::int64_t begin = snapshot.events.empty() ? 0 : snapshot.events.front().microseconds;
  for (std::size_t device = 0; device < snapshot.devices(); ++device) {
    events.push_back(named("process_name", device, 0, "GPU " + std::to_string(device) + ", " + snapshot.name));
    events.push_back(named("thread_name", device, 1, "marked ranges"));
    add_counters(snapshot, device, begin, events);
    add_ranges(snapshot, device, begin, events);
  }
  add_operations(operations, begin, events);
  return text_of({{"traceEvents", events}, {"displayTimeUnit", "ms"}});
}

std::string snapshot_speedscope(const Snapshot& snapshot) {
  Json frames = Json::array(), profiles = Json::array();
  for (const SnapshotFrame& frame : snapshot.frames) {
    Json f = {{"name", snapshot.words[frame.name]}, {"file", snapshot.words[frame.file]}};
    if (frame.line > 0) f["line"] = frame.line;
    frames.push_back(std::move(f));
  }
  frames.push_back({{"name", "not recorded"}});
  for (std::size_t device = 0; device < snapshot.devices(); ++device) {
    const SnapshotHistory history = follow(snapshot, device);
    std::map<std::uint32_t, std::int64_t> bytes;
    for (const SnapshotTensor& t : history.tensors)
      if (t.alive_after(history.peak_event)) bytes[t.stack] += t.bytes;
    Json samples = Json::array(), weights = Json::array();
    std::int64_t all = 0;
    for (const auto& [stack, amount] : bytes) {
      Json sample = Json::array();
      const std::span<const std::uint32_t> of = snapshot.stack(stack);
      for (std::size_t i = of.size(); i-- > 0;) sample.push_back(of[i]);
      if (sample.empty()) sample.push_back(snapshot.frames.size());
      samples.push_back(std::move(sample));
      weights.push_back(amount);
      all += amount;
    }
    profiles.push_back({{"type", "sampled"},
                        {"name", "alive at the peak of GPU " + std::to_string(device)},
                        {"unit", "bytes"},
                        {"startValue", 0},
                        {"endValue", all},
                        {"samples", samples},
                        {"weights", weights}});
  }
  return text_of({{"$schema", "https://www.speedscope.app/file-format-schema.json"},
                  {"name", snapshot.name},
                  {"exporter", "gpuplan"},
                  {"shared", {{"frames", frames}}},
                  {"profiles", profiles}});
}

}  // namespace gpuplan
