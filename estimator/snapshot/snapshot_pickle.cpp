// Python's pickle, protocol 2 (docs.python.org/3/library/pickletools), which MemoryViz.js reads as 3 and 4, too. Each
// word and each stack is written once and remembered, as Python's pickler does it.
#include <string_view>
#include <unordered_map>

#include "estimator/snapshot/write_snapshot.h"

namespace gpuplan {
namespace {

class Pickle {
 public:
  Pickle() { out_ = "\x80\x02"; }
  std::string take() {
    out_ += '.';
    return std::move(out_);
  }

  void begin_dictionary() { out_ += "}("; }
  void end_dictionary() { out_ += 'u'; }
  void begin_list() { out_ += "]("; }
  void end_list() { out_ += 'e'; }
  void next_batch() { out_ += "e("; }

  void word(std::string_view text) {
    const auto [at, is_new] = words_.try_emplace(std::string(text), remembered_);
    if (!is_new) return get(at->second);
    out_ += 'X';
    little(text.size(), 4);
    out_ += text;
    remember();
  }
  void number(std::int64_t value) {
    if (value >= 0 && value < 256) {
      out_ += 'K';
      return little(static_cast<std::uint64_t>(value), 1);
    }
    if (value >= INT32_MIN && value <= INT32_MAX) {
      out_ += 'J';
      return little(static_cast<std::uint64_t>(value), 4);
    }
    out_ += '\x8a';
    out_ += '\x08';
    little(static_cast<std::uint64_t>(value), 8);
  }
  void truth(bool value) { out_ += value ? '\x88' : '\x89'; }
  void pair_of_zeros() { out_ += std::string_view("K\0K\0\x86", 5); }

  /// What was written last, and how to write it again.
  std::uint32_t remember() {
    out_ += 'r';
    little(remembered_, 4);
    return remembered_++;
  }
  void get(std::uint32_t number) {
    out_ += 'j';
    little(number, 4);
  }

 private:
  void little(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i));
  }

  std::string out_;
  std::uint32_t remembered_ = 0;
  std::unordered_map<std::string, std::uint32_t> words_;
};

std::string_view word_of(SnapshotAction action) {
  return kSnapshotActions[static_cast<std::size_t>(action == SnapshotAction::other ? SnapshotAction::snapshot
                                                                                   : action)];
}

class Writer {
 public:
  explicit Writer(const Snapshot& snapshot) : s_(snapshot) {}

  std::string text() {
    p_.begin_dictionary();
    p_.word("segments");
    list(s_.segments, [&](const SnapshotSegment& segment) { write(segment); });
    p_.word("device_traces");
    p_.begin_list();
    for (std::size_t device = 0; device < s_.devices(); ++device)
      list(s_.events_of(device), [&](const SnapshotEvent& event) { write(event); });
    p_.end_list();
    p_.word("allocator_settings");
    p_.begin_dictionary();
    field("PYTORCH_CUDA_ALLOC_CONF", std::string_view(s_.alloc_conf));
    field("expandable_segments", s_.expandable_segments);
    p_.end_dictionary();
    p_.word("external_annotations");
    list(s_.marks, [&](const SnapshotMark& mark) { write(mark); });
    p_.end_dictionary();
    return p_.take();
  }

 private:
  void field(std::string_view key, std::string_view text) { p_.word(key), p_.word(text); }
  void field(std::string_view key, std::int64_t number) { p_.word(key), p_.number(number); }
  void field(std::string_view key, bool value) { p_.word(key), p_.truth(value); }
  // In batches, as Python's pickler writes it: a reader holds one of them at a time.
  void list(const auto& items, const auto& write_item) {
    constexpr std::size_t kBatch = 1000;
    std::size_t written = 0;
    p_.begin_list();
    for (const auto& item : items) {
      if (written++ == kBatch) p_.next_batch(), written = 1;
      write_item(item);
    }
    p_.end_list();
  }

  void frames(std::uint32_t stack) {
    p_.word("frames");
    if (const auto at = stacks_.find(stack); at != stacks_.end()) return p_.get(at->second);
    list(s_.stack(stack), [&](std::uint32_t number) {
      const SnapshotFrame& frame = s_.frames[number];
      p_.begin_dictionary();
      field("name", std::string_view(s_.words[frame.name]));
      field("filename", std::string_view(s_.words[frame.file]));
      field("line", std::int64_t{frame.line});
      p_.end_dictionary();
    });
    stacks_.emplace(stack, p_.remember());
  }

  void write(const SnapshotEvent& e) {
    p_.begin_dictionary();
    field("action", word_of(e.action));
    field(e.action == SnapshotAction::oom ? "device_free" : "addr", static_cast<std::int64_t>(e.address));
    field("size", e.bytes);
    field("stream", static_cast<std::int64_t>(s_.streams[e.stream]));
    field("time_us", e.microseconds);
    frames(e.stack);
    p_.end_dictionary();
  }
  void write(const SnapshotSegment& s) {
    p_.begin_dictionary();
    field("device", std::int64_t{s.device});
    field("address", static_cast<std::int64_t>(s.address));
    field("total_size", s.bytes);
    field("allocated_size", s.allocated_bytes);
    field("active_size", s.allocated_bytes);
    field("requested_size", s.requested_bytes);
    field("stream", std::int64_t{0});
    field("segment_type", std::string_view(s.bytes <= (2 << 20) ? "small" : "large"));
    p_.word("segment_pool_id"), p_.pair_of_zeros();
    field("is_expandable", s.expandable);
    frames(kNoStack);
    p_.word("blocks");
    list(s_.blocks_of(s), [&](const SnapshotBlock& block) { write(block); });
    p_.end_dictionary();
  }
  void write(const SnapshotBlock& b) {
    p_.begin_dictionary();
    field("address", static_cast<std::int64_t>(b.address));
    field("size", b.bytes);
    field("requested_size", b.requested_bytes);
    field("state", std::string_view(b.allocated ? "active_allocated" : "inactive"));
    frames(b.stack);
    p_.end_dictionary();
  }
  void write(const SnapshotMark& m) {
    p_.begin_dictionary();
    field("stage", std::string_view(m.begins ? "START" : "END"));
    field("name", std::string_view(s_.words[m.name]));
    field("device", std::int64_t{m.device});
    field("time_us", m.microseconds);
    p_.end_dictionary();
  }

  const Snapshot& s_;
  Pickle p_;
  std::unordered_map<std::uint32_t, std::uint32_t> stacks_;
};

}  // namespace

std::string snapshot_pickle(const Snapshot& snapshot) { return Writer(snapshot).text(); }

}  // namespace gpuplan
