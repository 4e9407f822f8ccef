#include "estimator/snapshot/snapshot_report.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "estimator/allocator/allocator.h"
#include "estimator/snapshot/snapshot_trace.h"

namespace gpuplan {
namespace {

using Events = std::span<const SnapshotEvent>;

// A step of the optimizer, by the events before which it begins and ends.
struct OptimizerStep {
  std::uint32_t begin = 0, end = 0;
};

std::uint32_t event_at(Events events, std::int64_t microseconds) {
  return static_cast<std::uint32_t>(std::ranges::lower_bound(events, microseconds, {}, &SnapshotEvent::microseconds) -
                                    events.begin());
}

// torch.optim.Optimizer.profile_hook_step() marks each step.
std::vector<OptimizerStep> optimizer_steps(const Snapshot& snapshot, std::size_t device, Events events) {
  constexpr std::string_view kStep = "Optimizer.step#";
  std::vector<OptimizerStep> steps;
  bool inside = false;
  for (const SnapshotMark& mark : snapshot.marks) {
    if (mark.device != static_cast<std::int32_t>(device)) continue;
    if (!std::string_view(snapshot.words[mark.name]).starts_with(kStep)) continue;
    const std::uint32_t at = event_at(events, mark.microseconds);
    if (mark.begins && !inside) steps.push_back({at, at});
    if (!mark.begins && inside) steps.back().end = at;
    inside = mark.begins;
  }
  if (inside) steps.pop_back();  // it was not finished
  return steps;
}

// Of a PyTorch that marks nothing: what torch.optim allocates between one backward and the next.
std::vector<OptimizerStep> steps_by_lines(Events events, const std::vector<SnapshotLine>& lines) {
  std::vector<OptimizerStep> steps;
  bool after_backward = false;
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    if (events[i].action != SnapshotAction::alloc) continue;
    const SnapshotLine& line = lines[events[i].stack];
    if (line.backward) after_backward = true;
    if (!line.optimizer) continue;
    if (after_backward) steps.push_back({i, i + 1});
    if (!steps.empty()) steps.back().end = i + 1;
    after_backward = false;
  }
  return steps;
}

SnapshotKind kind_of(const SnapshotTensor& t, const std::vector<OptimizerStep>& steps,
                     const std::vector<SnapshotLine>& lines) {
  const std::uint32_t last = steps.back().end;
  const bool stays = t.freed == kNotFreed || t.freed >= last;
  if (t.made == kBeforeHistory) return stays ? SnapshotKind::kept : SnapshotKind::passing;
  const auto next = std::ranges::upper_bound(steps, t.made, {}, &OptimizerStep::end);
  if (next == steps.end()) return SnapshotKind::passing;
  if (t.made >= next->begin)
    return t.freed == kNotFreed || t.freed >= next->end ? SnapshotKind::optimizer : SnapshotKind::passing;
  const bool at_step = t.freed == kNotFreed || t.freed >= next->begin;
  if (at_step && lines[t.stack].backward) return SnapshotKind::gradient;
  return stays && next == steps.begin() ? SnapshotKind::kept : SnapshotKind::passing;
}

// At the peak, by the text that `part_of` gives of a line; where that is empty, in no share.
template <class PartOf>
std::vector<SnapshotShare> shares_of(const SnapshotHistory& history, const std::vector<SnapshotLine>& lines,
                                     PartOf part_of) {
  std::map<std::string_view, SnapshotShare> by_part;
  for (const SnapshotTensor& t : history.tensors) {
    if (!t.alive_after(history.peak_event)) continue;
    const std::string_view text = part_of(t, lines[t.stack]);
    if (text.empty()) continue;
    SnapshotShare& share = by_part[text];
    share.text = text;
    share.file = lines[t.stack].file;
    share.line = lines[t.stack].line;
    share.bytes += t.bytes;
    ++share.tensors;
  }
  std::vector<SnapshotShare> shares;
  for (auto& [text, share] : by_part) shares.push_back(std::move(share));
  std::ranges::stable_sort(shares, std::ranges::greater{}, &SnapshotShare::bytes);
  return shares;
}

std::string_view line_in_words(const SnapshotTensor& t, const SnapshotLine& line) {
  return t.made == kBeforeHistory && t.stack == kNoStack ? "before the history" : std::string_view(line.text);
}

// What is allocated changes by with each event, and what there was before.
struct AllocatedChanges {
  std::int64_t before = 0;
  std::vector<std::int64_t> by_event;
};

AllocatedChanges changes_of(const SnapshotHistory& history, Events events) {
  AllocatedChanges changes{0, std::vector<std::int64_t>(events.size(), 0)};
  for (const SnapshotTensor& t : history.tensors) {
    (t.made == kBeforeHistory ? changes.before : changes.by_event[t.made]) += t.bytes;
    if (t.freed != kNotFreed) changes.by_event[t.freed] -= t.bytes;
  }
  return changes;
}

// Forward ends with what backward allocates first.
std::vector<SnapshotPhase> phases_of(const AllocatedChanges& changes, Events events, std::uint32_t begin,
                                     const OptimizerStep& step, const std::vector<SnapshotLine>& lines) {
  std::int64_t now = changes.before;
  for (std::uint32_t i = 0; i < begin; ++i) now += changes.by_event[i];
  std::vector<SnapshotPhase> phases = {{"forward", now}, {"backward", 0}, {"optimizer", 0}};
  std::size_t phase = 0;
  bool has_backward = false;
  for (std::uint32_t i = begin; i < step.end; ++i) {
    const bool backward = events[i].action == SnapshotAction::alloc && lines[events[i].stack].backward;
    const std::size_t before = phase;
    if (i >= step.begin)
      phase = 2;
    else if (backward)
      phase = 1, has_backward = true;
    if (phase != before) phases[phase].peak_bytes = now;
    now += changes.by_event[i];
    phases[phase].peak_bytes = std::max(phases[phase].peak_bytes, now);
  }
  return has_backward ? phases : std::vector<SnapshotPhase>{};
}

std::vector<SnapshotStep> step_readings(const AllocatedChanges& changes, const std::vector<OptimizerStep>& steps) {
  std::vector<SnapshotStep> readings;
  std::int64_t now = changes.before;
  std::uint32_t event = 0;
  for (const OptimizerStep& step : steps) {
    SnapshotStep& reading = readings.emplace_back();
    for (reading.peak_bytes = now; event < step.end; ++event)
      now += changes.by_event[event], reading.peak_bytes = std::max(reading.peak_bytes, now);
    reading.end_bytes = now;
  }
  return readings;
}

// Lines whose tensors take more after each step than after the one before; the first step makes what later ones keep.
std::vector<SnapshotGrowth> growth_of(const SnapshotHistory& history, const std::vector<OptimizerStep>& all_steps,
                                      const std::vector<SnapshotLine>& lines) {
  constexpr std::size_t kLeast = 3, kMost = 1000;  // the last ones tell it, and a row of every line has them all
  std::vector<SnapshotGrowth> growth;
  if (all_steps.size() < kLeast) return growth;
  const std::span<const OptimizerStep> steps = std::span(all_steps).last(std::min(all_steps.size(), kMost));
  struct Line {
    std::vector<std::int64_t> changes;
    std::uint32_t stack = kNoStack;
  };
  std::map<std::string_view, Line> by_line;
  for (const SnapshotTensor& t : history.tensors) {
    if (t.made == kBeforeHistory) continue;
    const auto from = std::ranges::upper_bound(steps, t.made, {}, &OptimizerStep::end);
    const auto to =
        t.freed == kNotFreed ? steps.end() : std::ranges::upper_bound(steps, t.freed, {}, &OptimizerStep::end);
    if (from >= to) continue;
    Line& line = by_line[lines[t.stack].text];
    line.changes.resize(steps.size() + 1);
    line.stack = t.stack;
    line.changes[static_cast<std::size_t>(from - steps.begin())] += t.bytes;
    line.changes[static_cast<std::size_t>(to - steps.begin())] -= t.bytes;
  }
  for (const auto& [text, line] : by_line) {
    const auto after_first = std::span(line.changes).subspan(1, steps.size() - 1);
    if (!std::ranges::all_of(after_first, [](std::int64_t change) { return change > 0; })) continue;
    std::int64_t sum = 0;
    for (const std::int64_t change : after_first) sum += change;
    growth.push_back({.text = std::string(text),
                      .file = lines[line.stack].file,
                      .line = lines[line.stack].line,
                      .bytes_of_step = sum / static_cast<std::int64_t>(after_first.size())});
  }
  std::ranges::stable_sort(growth, std::ranges::greater{}, &SnapshotGrowth::bytes_of_step);
  return growth;
}

constexpr std::size_t kReplayed = 3;  // errors of memory: each takes as long as the whole history

// The same requests with as much memory as there was, under other settings.
SnapshotFailure failure_of(const Snapshot& snapshot, std::size_t device, const SnapshotHistory& history,
                           const SnapshotOutOfMemory& reading, const SnapshotLine& line, bool replays) {
  SnapshotFailure failure{.reading = reading, .text = line.text, .ways = {}};
  if (!replays || !history.whole || snapshot.expandable_segments) return failure;
  AllocatorSettings settings;
  settings.expandable_segments = true;
  const std::int64_t memory = reading.at.reserved_bytes + reading.free_bytes;
  const ReplayWithin outcome = replay_until(snapshot, device, reading, settings, memory);
  failure.ways.push_back({"expandable_segments:True", outcome.runs, outcome.short_bytes});
  return failure;
}

void look_at_the_end(const Snapshot& snapshot, SnapshotReport& report) {
  for (const SnapshotSegment& segment : snapshot.segments) {
    if (static_cast<std::size_t>(std::max(segment.device, 0)) != report.device) continue;
    ++report.segments;
    for (const SnapshotBlock& block : snapshot.blocks_of(segment)) {
      if (block.allocated) continue;
      report.largest_free_bytes = std::max(report.largest_free_bytes, block.bytes);
      if (block.bytes < segment.bytes && !segment.expandable) report.inactive_bytes += block.bytes;
    }
  }
}

}  // namespace

const char* name_of(SnapshotKind kind) {
  switch (kind) {
    case SnapshotKind::kept: return "kept from the first step on: parameters, buffers";
    case SnapshotKind::optimizer: return "optimizer state";
    case SnapshotKind::gradient: return "gradients";
    case SnapshotKind::passing: return "activations and what else passes";
  }
  return "";
}

SnapshotReport report_of(const Snapshot& snapshot, std::size_t device, const std::vector<SnapshotLine>& lines) {
  SnapshotReport report;
  report.device = device;
  const Events events = snapshot.events_of(device);
  report.events = events.size();
  report.history = follow(snapshot, device);
  const SnapshotHistory& history = report.history;
  std::vector<OptimizerStep> steps = optimizer_steps(snapshot, device, events);
  if (steps.empty() && snapshot.marks.empty()) {
    steps = steps_by_lines(events, lines);
    report.steps_by_lines = !steps.empty();
  }
  report.alive = shares_of(history, lines, line_in_words);
  report.modules = shares_of(history, lines,
                             [](const SnapshotTensor&, const SnapshotLine& l) { return std::string_view(l.module); });
  if (history.peak_event != kBeforeHistory) report.peak_at = lines[events[history.peak_event].stack].text;
  if (!steps.empty()) {
    report.kinds.resize(kSnapshotKinds);
    for (const SnapshotTensor& t : history.tensors)
      if (t.alive_after(history.peak_event))
        report.kinds[static_cast<std::size_t>(kind_of(t, steps, lines))] += t.bytes;
    const AllocatedChanges changes = changes_of(history, events);
    report.steps = step_readings(changes, steps);
    report.growth = growth_of(history, steps, lines);
    const auto step = std::ranges::upper_bound(steps, history.peak_event, {}, &OptimizerStep::end);
    if (history.peak_event != kBeforeHistory) report.peak_step = static_cast<std::int32_t>(step - steps.begin()) + 1;
    const auto shown = step == steps.end() ? std::prev(step) : step;
    report.phases = phases_of(changes, events, shown == steps.begin() ? 0 : std::prev(shown)->end, *shown, lines);
  }
  for (const SnapshotOutOfMemory& reading : history.out_of_memory)
    report.failures.push_back(failure_of(snapshot, device, history, reading, lines[events[reading.event].stack],
                                         report.failures.size() < kReplayed));
  look_at_the_end(snapshot, report);
  return report;
}

}  // namespace gpuplan
