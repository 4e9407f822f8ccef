#include "estimator/report/memory_page.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "estimator/report/json_parts.h"
#include "estimator/snapshot/snapshot_history.h"
#include "estimator/snapshot/snapshot_lines.h"

namespace gpuplan {
namespace {

constexpr std::uint32_t kMostEvents = 60'000;

struct Window {
  std::uint32_t first = 0, end = 0;  // events

  std::int64_t at(std::uint32_t event) const {
    if (event == kBeforeHistory || event < first) return -1;
    return std::int64_t{event} - first;
  }
  // Whether something that lives so long is seen.
  bool shows(std::uint32_t made, std::uint32_t freed) const {
    return (made == kBeforeHistory || made < end) && (freed == kNotFreed || freed >= first);
  }
};

std::uint32_t event_after(std::span<const SnapshotEvent> events, std::int64_t microseconds) {
  return static_cast<std::uint32_t>(std::ranges::lower_bound(events, microseconds, {}, &SnapshotEvent::microseconds) -
                                    events.begin());
}

// A plan's steps end with the optimizer's, or with their forwards where nothing is trained.
Window step_of(const Snapshot& snapshot, std::span<const SnapshotEvent> events, PagePart part, std::uint32_t peak) {
  Window window{0, static_cast<std::uint32_t>(events.size())};
  for (const std::string_view name : {"Optimizer.step#", "forward"}) {
    std::vector<std::int64_t> ends;
    for (const SnapshotMark& mark : snapshot.marks)
      if (!mark.begins && std::string_view(snapshot.words[mark.name]).starts_with(name))
        ends.push_back(mark.microseconds);
    if (ends.size() < 2) continue;
    if (part == PagePart::first_step) {
      window.end = event_after(events, ends.front());
    } else if (part == PagePart::last_step) {
      window.first = event_after(events, ends[ends.size() - 2]);
    } else {
      for (const std::int64_t microseconds : ends) {
        const std::uint32_t end = event_after(events, microseconds);
        if (end <= peak) window.first = end;
        if (end > peak) window.end = std::min(window.end, end);
      }
    }
    return window;
  }
  return window;
}

Window window_of(const Snapshot& snapshot, const SnapshotHistory& history, std::span<const SnapshotEvent> events,
                 PagePart part) {
  const std::uint32_t peak = history.peak_event == kBeforeHistory ? 0 : history.peak_event;
  Window window = part == PagePart::all ? Window{0, static_cast<std::uint32_t>(events.size())}
                                        : step_of(snapshot, events, part, peak);
  if (window.end - window.first <= kMostEvents) return window;
  window.first = std::max(window.first, peak > kMostEvents / 2 ? peak - kMostEvents / 2 : 0);
  window.end = std::min(window.end, window.first + kMostEvents);
  return window;
}

Json segments_json(const Snapshot& snapshot, std::size_t device, std::span<const SnapshotEvent> events,
                   const Window& window) {
  struct Life {
    std::uint32_t made, freed;
    std::int64_t bytes;
    std::uint64_t address;
  };
  std::vector<Life> lives;
  std::unordered_map<std::uint64_t, std::size_t> open;  // by address
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    const SnapshotEvent& e = events[i];
    if (e.action == SnapshotAction::segment_alloc || e.action == SnapshotAction::segment_map) {
      open[e.address] = lives.size();
      lives.push_back({i, kNotFreed, e.bytes, e.address});
    } else if (e.action == SnapshotAction::segment_free || e.action == SnapshotAction::segment_unmap) {
      const auto at = open.find(e.address);
      if (at == open.end()) {
        lives.push_back({kBeforeHistory, i, e.bytes, e.address});
        continue;
      }
      lives[at->second].freed = i;
      open.erase(at);
    }
  }
  for (const SnapshotSegment& s : snapshot.segments)
    if (s.device == static_cast<std::int32_t>(device) && !s.expandable && !open.contains(s.address))
      lives.push_back({kBeforeHistory, kNotFreed, s.bytes, s.address});
  Json rows = Json::array();
  for (const Life& l : lives)
    if (window.shows(l.made, l.freed))
      rows.push_back({window.at(l.made), l.freed == kNotFreed || l.freed >= window.end ? -1 : window.at(l.freed),
                      l.bytes, l.address});
  return rows;
}

Json marks_json(const Snapshot& snapshot, std::size_t device, std::span<const SnapshotEvent> events,
                const Window& window) {
  Json rows = Json::array();
  std::unordered_map<std::uint32_t, std::uint32_t> begun;  // event by name
  for (const SnapshotMark& mark : snapshot.marks) {
    if (mark.device != static_cast<std::int32_t>(device)) continue;
    const std::uint32_t event = event_after(events, mark.microseconds);
    if (mark.begins) {
      begun[mark.name] = event;
      continue;
    }
    const auto from = begun.find(mark.name);
    if (from == begun.end() || event < window.first || from->second >= window.end || event <= from->second) continue;
    rows.push_back({snapshot.words[mark.name], std::max<std::int64_t>(window.at(from->second), 0),
                    std::int64_t{std::min(event, window.end)} - window.first - 1});
  }
  return rows;
}

// Frames and stacks that are used, numbered anew, the outermost frame first.
class Stacks {
 public:
  explicit Stacks(const Snapshot& snapshot) : snapshot_(snapshot), lines_(lines_of(snapshot)) {}

  std::size_t number(std::uint32_t stack) {
    const auto [at, is_new] = stacks_.try_emplace(stack, rows_.size());
    if (!is_new) return at->second;
    Json row = Json::array();
    const std::span<const std::uint32_t> frames = snapshot_.stack(stack);
    for (std::size_t i = frames.size(); i-- > 0;) row.push_back(frame(frames[i]));
    rows_.push_back(std::move(row));
    labels_.push_back(lines_[stack].text);
    return at->second;
  }
  Json rows() { return std::move(rows_); }
  Json frames() { return std::move(frames_); }
  Json labels() { return std::move(labels_); }

 private:
  std::size_t frame(std::uint32_t frame) {
    const auto [at, is_new] = numbers_.try_emplace(frame, frames_.size());
    if (is_new) {
      const SnapshotFrame& f = snapshot_.frames[frame];
      frames_.push_back({snapshot_.words[f.name], snapshot_.words[f.file], f.line});
    }
    return at->second;
  }

  const Snapshot& snapshot_;
  std::vector<SnapshotLine> lines_;
  std::unordered_map<std::uint32_t, std::size_t> stacks_, numbers_;
  Json rows_ = Json::array(), frames_ = Json::array(), labels_ = Json::array();
};

// The event of the window after which most is allocated.
std::int64_t peak_of(const SnapshotHistory& history, const Window& window) {
  std::vector<std::int64_t> changes(window.end - window.first, 0);
  std::int64_t now = 0;
  for (const SnapshotTensor& t : history.tensors) {
    if (!window.shows(t.made, t.freed)) continue;
    (window.at(t.made) < 0 ? now : changes[static_cast<std::size_t>(window.at(t.made))]) += t.bytes;
    if (t.freed != kNotFreed && t.freed < window.end) changes[static_cast<std::size_t>(window.at(t.freed))] -= t.bytes;
  }
  std::int64_t most = -1, peak = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    now += changes[i];
    if (now > most) most = now, peak = static_cast<std::int64_t>(i);
  }
  return peak;
}

}  // namespace

std::string memory_page_json(const std::string& name, const Snapshot& snapshot, std::size_t device, PagePart part) {
  const std::span<const SnapshotEvent> events = snapshot.events_of(device);
  const SnapshotHistory history = follow(snapshot, device);
  const Window window = window_of(snapshot, history, events, part);
  Stacks stacks(snapshot);
  Json tensors = Json::array();
  for (const SnapshotTensor& t : history.tensors)
    if (window.shows(t.made, t.freed))
      tensors.push_back({window.at(t.made), t.freed == kNotFreed || t.freed >= window.end ? -1 : window.at(t.freed),
                         t.bytes, stacks.number(t.stack), t.address});
  const Json json = {{"name", name},
                     {"events", window.end - window.first},
                     {"first", window.first},
                     {"all", events.size()},
                     {"peak", peak_of(history, window)},
                     {"expandable", snapshot.expandable_segments},
                     {"marks", marks_json(snapshot, device, events, window)},
                     {"tensors", tensors},
                     {"segments", segments_json(snapshot, device, events, window)},
                     {"stacks", stacks.rows()},
                     {"labels", stacks.labels()},
                     {"frames", stacks.frames()}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gpuplan
