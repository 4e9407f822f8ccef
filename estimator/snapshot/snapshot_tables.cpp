#include "estimator/snapshot/snapshot_tables.h"

#include <algorithm>
#include <array>
#include <limits>

namespace gpuplan {
namespace {

// Words that the reader knows, by their numbers. The first of actions is SnapshotAction's.
namespace known {
enum Known : std::uint32_t {
  empty,
  alloc,  // and the others of kSnapshotActions
  action = alloc + kSnapshotActions.size(),
  addr,
  size,
  stream,
  time,
  frames,
  device_free,
  filename,
  name,
  line,
  total_size,
  allocated_size,
  requested_size,
  address,
  device,
  blocks,
  is_expandable,
  pool_id,
  state,
  active,
  stage,
  start,
  segments,
  traces,
  annotations,
  conf,
  new_conf,
  expandable,
  known
};
}  // namespace known
// Those behind the actions.
constexpr std::array<std::string_view, known::known - known::action> kWords = {"action",
                                                                               "addr",
                                                                               "size",
                                                                               "stream",
                                                                               "time_us",
                                                                               "frames",
                                                                               "device_free",
                                                                               "filename",
                                                                               "name",
                                                                               "line",
                                                                               "total_size",
                                                                               "allocated_size",
                                                                               "requested_size",
                                                                               "address",
                                                                               "device",
                                                                               "blocks",
                                                                               "is_expandable",
                                                                               "segment_pool_id",
                                                                               "state",
                                                                               "active_allocated",
                                                                               "stage",
                                                                               "START",
                                                                               "segments",
                                                                               "device_traces",
                                                                               "external_annotations",
                                                                               "PYTORCH_CUDA_ALLOC_CONF",
                                                                               "PYTORCH_ALLOC_CONF",
                                                                               "expandable_segments"};

constexpr std::size_t kMostEntries = std::numeric_limits<std::uint32_t>::max() - 1;

template <class Entry>
PickleValue added(PickleKind kind, std::vector<Entry>& table, const Entry& entry) {
  table.push_back(entry);
  return {.number = static_cast<std::int64_t>(table.size() - 1), .kind = kind};
}

// Calls of(key, value) for each pair whose key is a word.
void each_pair(std::span<const PickleValue> pairs, const auto& of) {
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2)
    if (pairs[i].kind == PickleKind::word) of(pairs[i], pairs[i + 1]);
}

}  // namespace

SnapshotTables::SnapshotTables(const PickleInput& input)
    : input_(input), words_(64, WordHash{&made_.words}, WordEqual{&made_.words}) {
  (void)word("");
  for (const std::string_view action : kSnapshotActions) (void)word(action);
  for (const std::string_view known : kWords) (void)word(known);
  made_.stack_ends.push_back(0);  // kNoStack
}

std::uint32_t SnapshotTables::word(std::string_view text) {
  const auto at = words_.find(text);
  if (at != words_.end()) return *at;
  made_.words.emplace_back(text);
  return *words_.insert(static_cast<std::uint32_t>(made_.words.size() - 1)).first;
}

std::uint32_t SnapshotTables::stack(std::span<const std::uint32_t> frames) {
  if (frames.empty()) return kNoStack;
  std::uint64_t hash = frames.size();
  for (const std::uint32_t frame : frames) hash = (hash ^ frame) * 0x100000001b3U;
  const auto [begin, end] = stacks_.equal_range(hash);
  for (auto at = begin; at != end; ++at)
    if (std::ranges::equal(made_.stack(at->second), frames)) return at->second;
  made_.frames_of_stack.insert(made_.frames_of_stack.end(), frames.begin(), frames.end());
  made_.stack_ends.push_back(static_cast<std::uint32_t>(made_.frames_of_stack.size()));
  const auto number = static_cast<std::uint32_t>(made_.stack_ends.size() - 1);
  stacks_.emplace(hash, number);
  return number;
}

PickleValue SnapshotTables::dictionary(std::span<const PickleValue> pairs) {
  std::array<bool, known::known> has{};
  each_pair(pairs, [&](const PickleValue& key, const PickleValue&) {
    if (key.number < known::known) has[static_cast<std::size_t>(key.number)] = true;
  });
  if (made_.events.size() >= kMostEntries || made_.frames_of_stack.size() >= kMostEntries)
    input_.fail("too many events");
  if (has[known::action]) return event(pairs);
  if (has[known::filename]) return frame(pairs);
  if (has[known::total_size]) return segment(pairs);
  if (has[known::state]) return block(pairs);
  if (has[known::stage]) return mark(pairs);
  if (has[known::segments] || has[known::traces]) return whole(pairs);
  if (has[known::conf] || has[known::new_conf] || has[known::expandable]) return settings(pairs);
  return {};
}

bool SnapshotTables::has_entries(PickleKind kind) {
  return kind == PickleKind::event || kind == PickleKind::block || kind == PickleKind::segment ||
         kind == PickleKind::mark || kind == PickleKind::events;
}

PickleValue SnapshotTables::list(PickleKind kind, std::uint32_t first, std::uint32_t count) {
  if (!has_entries(kind)) return {};
  const PickleKind of = kind == PickleKind::event     ? PickleKind::events
                        : kind == PickleKind::block   ? PickleKind::blocks
                        : kind == PickleKind::segment ? PickleKind::segments
                        : kind == PickleKind::mark    ? PickleKind::marks
                                                      : PickleKind::traces;
  return added(of, ranges_, Range{first, count});
}

PickleValue SnapshotTables::frame(std::span<const PickleValue> pairs) {
  SnapshotFrame f;
  each_pair(pairs, [&](const PickleValue& key, const PickleValue& value) {
    switch (key.number) {
      case known::filename: f.file = text(key, value); break;
      case known::name: f.name = text(key, value); break;
      case known::line:
        f.line = static_cast<std::int32_t>(std::clamp<std::int64_t>(integer(key, value), 0, INT32_MAX));
        break;
      default: break;
    }
  });
  const auto [at, is_new] = frames_.try_emplace(f, static_cast<std::uint32_t>(made_.frames.size()));
  if (is_new) made_.frames.push_back(f);
  return {.number = at->second, .kind = PickleKind::frame};
}

PickleValue SnapshotTables::event(std::span<const PickleValue> pairs) {
  SnapshotEvent e;
  each_pair(pairs, [&](const PickleValue& key, const PickleValue& value) {
    switch (key.number) {
      case known::action: {
        const std::uint32_t action = text(key, value);
        if (action >= known::alloc && action < known::action)
          e.action = static_cast<SnapshotAction>(action - known::alloc);
        break;
      }
      case known::addr:
      case known::device_free: e.address = static_cast<std::uint64_t>(integer(key, value)); break;
      case known::size: e.bytes = integer(key, value); break;
      case known::time: e.microseconds = time(key, value); break;
      case known::frames: e.stack = stack(key, value); break;
      case known::stream: {
        const auto stream = static_cast<std::uint64_t>(integer(key, value));
        const auto [at, is_new] = streams_.try_emplace(stream, static_cast<std::uint16_t>(made_.streams.size()));
        if (is_new && made_.streams.size() == UINT16_MAX) input_.fail("more than 65,535 streams");
        if (is_new) made_.streams.push_back(stream);
        e.stream = at->second;
        break;
      }
      default: break;
    }
  });
  (void)counted(e.bytes);
  return added(PickleKind::event, made_.events, e);
}

PickleValue SnapshotTables::block(std::span<const PickleValue> pairs) {
  SnapshotBlock b;
  each_pair(pairs, [&](const PickleValue& key, const PickleValue& value) {
    switch (key.number) {
      case known::address: b.address = static_cast<std::uint64_t>(integer(key, value)); break;
      case known::size: b.bytes = counted(integer(key, value)); break;
      case known::requested_size: b.requested_bytes = counted(integer(key, value)); break;
      case known::frames: b.stack = stack(key, value); break;
      case known::state: b.allocated = text(key, value) == known::active; break;
      default: break;
    }
  });
  return added(PickleKind::block, made_.blocks, b);
}

PickleValue SnapshotTables::segment(std::span<const PickleValue> pairs) {
  SnapshotSegment s;
  each_pair(pairs, [&](const PickleValue& key, const PickleValue& value) {
    switch (key.number) {
      case known::address: s.address = static_cast<std::uint64_t>(integer(key, value)); break;
      case known::total_size: s.bytes = counted(integer(key, value)); break;
      case known::allocated_size: s.allocated_bytes = integer(key, value); break;
      case known::requested_size: s.requested_bytes = integer(key, value); break;
      case known::device:
        s.device = static_cast<std::int32_t>(std::clamp<std::int64_t>(integer(key, value), -1, 1 << 20));
        break;
      case known::is_expandable: s.expandable = value.kind == PickleKind::boolean && value.number != 0; break;
      case known::pool_id: s.private_pool = value.number != 0; break;
      case known::blocks: {
        const Range blocks = range(key, value, PickleKind::blocks);
        s.first_block = blocks.first;
        s.blocks = blocks.count;
        break;
      }
      default: break;
    }
  });
  return added(PickleKind::segment, made_.segments, s);
}

PickleValue SnapshotTables::mark(std::span<const PickleValue> pairs) {
  SnapshotMark m;
  each_pair(pairs, [&](const PickleValue& key, const PickleValue& value) {
    switch (key.number) {
      case known::name: m.name = text(key, value); break;
      case known::device:
        m.device = static_cast<std::int32_t>(std::clamp<std::int64_t>(integer(key, value), -1, 1 << 20));
        break;
      case known::stage: m.begins = text(key, value) == known::start; break;
      case known::time: m.microseconds = time(key, value); break;
      default: break;
    }
  });
  return added(PickleKind::mark, made_.marks, m);
}

PickleValue SnapshotTables::settings(std::span<const PickleValue> pairs) {
  each_pair(pairs, [&](const PickleValue& key, const PickleValue& value) {
    if (key.number == known::conf || key.number == known::new_conf) made_.alloc_conf = made_.words[text(key, value)];
    if (key.number == known::expandable)
      made_.expandable_segments = value.kind == PickleKind::boolean && value.number != 0;
  });
  return {};
}

PickleValue SnapshotTables::whole(std::span<const PickleValue> pairs) {
  each_pair(pairs, [&](const PickleValue& key, const PickleValue& value) {
    if (key.number == known::segments) segments_ = range(key, value, PickleKind::segments);
    if (key.number == known::traces) traces_ = range(key, value, PickleKind::traces);
    if (key.number == known::annotations) marks_ = range(key, value, PickleKind::marks);
  });
  return {};
}

std::int64_t SnapshotTables::counted(std::int64_t bytes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 61;
  if (bytes < 0) input_.fail("a size below 0");
  if (bytes > kMost - all_bytes_) input_.fail("more bytes than 64 bits count");
  all_bytes_ += bytes;
  return bytes;
}

std::int64_t SnapshotTables::integer(const PickleValue& key, const PickleValue& value) const {
  if (value.kind != PickleKind::integer) fail(key, "a whole number");
  return value.number;
}

// Two of them can be subtracted.
std::int64_t SnapshotTables::time(const PickleValue& key, const PickleValue& value) const {
  constexpr std::int64_t kMost = std::int64_t{1} << 61;
  return std::clamp(integer(key, value), -kMost, kMost);
}

std::uint32_t SnapshotTables::text(const PickleValue& key, const PickleValue& value) const {
  if (value.kind == PickleKind::none) return known::empty;
  if (value.kind != PickleKind::word) fail(key, "a text");
  return static_cast<std::uint32_t>(value.number);
}

std::uint32_t SnapshotTables::stack(const PickleValue& key, const PickleValue& value) const {
  if (value.kind == PickleKind::empty_list) return kNoStack;
  if (value.kind != PickleKind::stack) fail(key, "a list of frames");
  return static_cast<std::uint32_t>(value.number);
}

SnapshotTables::Range SnapshotTables::range(const PickleValue& key, const PickleValue& value, PickleKind kind) const {
  if (value.kind == PickleKind::empty_list) return {};
  if (value.kind != kind) fail(key, "a list of its own kind");
  return ranges_[static_cast<std::size_t>(value.number)];
}

void SnapshotTables::fail(const PickleValue& key, const std::string& expected) const {
  input_.fail("\"" + made_.words[static_cast<std::size_t>(key.number)] + "\" is not " + expected);
}

// What belongs to the host's memory, or to nothing, is left behind.
Snapshot SnapshotTables::take(std::string name) {
  if (!traces_ && !segments_) input_.fail("a pickle that has neither segments nor device_traces");
  made_.name = std::move(name);
  const auto keep = [](auto& table, const Range& range) {
    table.erase(table.begin() + range.first + range.count, table.end());
    table.erase(table.begin(), table.begin() + range.first);
  };
  keep(made_.segments, segments_.value_or(Range{}));
  keep(made_.marks, marks_.value_or(Range{}));
  const Range traces = traces_.value_or(Range{});
  std::uint32_t first = 0, end = 0;
  for (std::uint32_t i = traces.first; i < traces.first + traces.count; ++i) {
    const Range& trace = ranges_[i];
    if (end == 0) first = end = trace.count > 0 ? trace.first : 0;
    if (trace.count > 0 && trace.first != end) input_.fail("the events of a device are not in one piece");
    end += trace.count;
    made_.device_ends.push_back(end - first);
  }
  keep(made_.events, Range{first, end - first});
  return std::move(made_);
}

}  // namespace gpuplan
