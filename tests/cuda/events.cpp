#include "tests/cuda/events.h"

#include <algorithm>
#include <array>

namespace gpuplan {
namespace {

constexpr std::array kKinds{"segment",        "segment freed", "range",       "pages mapped",
                            "pages unmapped", "block",         "block freed", "kernel"};

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

std::string text(const Place& p) {
  return p.segment < 0 ? "nowhere" : std::to_string(p.segment) + "+" + std::to_string(p.offset);
}

// Segments for the allocator, written down.
class PlannedSegments final : public SegmentSource {
 public:
  PlannedSegments(std::int64_t capacity_bytes, EventLog& log) : segments_(capacity_bytes), log_(log) {}
  std::uint64_t allocate(std::int64_t bytes) override {
    const std::uint64_t address = segments_.allocate(bytes);
    log_.segment_came(address, bytes);
    return address;
  }
  void release(std::uint64_t address, std::int64_t bytes) override {
    log_.segment_left(address, bytes);
    segments_.release(address, bytes);
  }
  std::uint64_t reserve(std::int64_t bytes) override {
    const std::uint64_t address = segments_.reserve(bytes);
    log_.range_came(address, bytes);
    return address;
  }
  bool map(std::uint64_t address, std::int64_t bytes) override {
    const bool there = segments_.map(address, bytes);
    if (there) log_.pages(address, bytes, true);
    return there;
  }
  void unmap(std::uint64_t address, std::int64_t bytes) override {
    log_.pages(address, bytes, false);
    segments_.unmap(address, bytes);
  }

 private:
  ArithmeticSegments segments_;
  EventLog& log_;
};

class PlannedLoop final : public LoopFollower {
 public:
  PlannedLoop(const Walk& walk, EventLog& log) : walk_(walk), schedule_(walk.parts.passes.front()), log_(log) {
    addresses_.assign(schedule_.buffers.size(), 0);
  }

  void allocated(std::uint64_t address, std::int64_t bytes) override { log_.block(address, bytes, true); }
  void releasing(std::uint64_t address, std::int64_t bytes) override { log_.block(address, bytes, false); }
  void placed(BufferId buffer, std::uint64_t address) override { addresses_[index(buffer)] = address; }
  void model_is_made() override {}
  void state(std::uint64_t address, std::int64_t) override { states_.push_back(address); }
  void phase_ended(int, Phase) override {}
  void micro_batch(std::int64_t) override {}
  void optimizer_tensor(OptimizerPart, std::int32_t, std::uint64_t) override {}
  void fp32_gradient(std::uint64_t) override {}

  void run(std::size_t, std::int32_t number, std::span<const PlacedScratch> scratch) override {
    const Step& step = schedule_.steps[index(number)];
    if (std::holds_alternative<Marker>(*step.what)) return;  // aten::empty: no kernel
    std::vector<std::uint64_t> operands;
    const auto call = std::ranges::lower_bound(calls().calls, number, {}, &KernelCall::step);
    if (call != calls().calls.end() && call->step == number)
      for (const Range r : {call->reads, call->beside, call->writes})
        for (const OperandView& view : calls().at(r)) operands.push_back(address(view));
    for (const PlacedScratch& s : scratch) operands.push_back(s.address);
    const std::string layer = step.layer == kNone ? "" : walk_.parts.graph.layers[index(step.layer)].name;
    log_.kernel(std::string(step.name) + " of " + layer, operands);
  }

  void optimizer(OptimizerPart part, int training_step, std::int32_t) override {
    std::vector<std::uint64_t> operands;
    if (part == OptimizerPart::clip) {
      for (const OperandView& g : calls().gradients) operands.push_back(address(g));
      log_.kernel("clip", operands);
    }
    if (part != OptimizerPart::step) return;
    const std::size_t count = schedule_.with_gradient.size(), each = count == 0 ? 0 : states_.size() / count;
    for (std::size_t i = 0; i < count; ++i) {
      const Graph& graph = walk_.parts.graph;
      const Tensor& t = graph.tensor(graph.parameters[index(schedule_.with_gradient[i])].tensor);
      operands.push_back(address(view_of(t, t.buffer)));
      operands.push_back(address(calls().gradients[i]));
      for (std::size_t k = 0; k < each; ++k) operands.push_back(states_[i * each + k]);
    }
    log_.kernel("update " + std::to_string(training_step + 1), operands);
  }

 private:
  std::uint64_t address(const OperandView& view) const {
    const std::uint64_t begin = view.buffer == kNone ? 0 : addresses_[index(view.buffer)];
    return begin == 0 ? 0 : begin + static_cast<std::uint64_t>(view.offset * size_of(view.dtype));
  }

  const Calls& calls() const { return walk_.calls.front(); }

  const Walk& walk_;
  const Schedule& schedule_;  // of the only micro-batch
  EventLog& log_;
  std::vector<std::uint64_t> addresses_;  // by buffer
  std::vector<std::uint64_t> states_;
};

}  // namespace

std::string text(const Event& e) {
  std::string out = kKinds[static_cast<std::size_t>(e.kind)];
  if (!e.what.empty()) out += " " + e.what;
  if (e.kind == Event::Kind::kernel) {
    for (const Place& p : e.operands) out += " " + text(p);
    return out;
  }
  return out + " at " + text(e.at) + ", " + std::to_string(e.bytes) + " bytes";
}

Place EventLog::place(std::uint64_t address) const {
  auto found = there_.upper_bound(address);
  if (found == there_.begin()) return {};
  --found;
  const Extent& segment = segments_ever[index(found->second)];
  if (!segment.holds(address, 0)) return {};
  return {found->second, static_cast<std::int64_t>(address - segment.address)};
}

void EventLog::add_segment(std::uint64_t address, std::int64_t bytes, Event::Kind kind) {
  if (address == 0) {
    events.push_back({kind, "refused", {}, bytes, {}});
    return;
  }
  there_[address] = static_cast<std::int32_t>(segments_ever.size());
  segments_ever.push_back({address, bytes});
  events.push_back({kind, "", place(address), bytes, {}});
}
void EventLog::segment_came(std::uint64_t address, std::int64_t bytes) {
  add_segment(address, bytes, Event::Kind::segment);
  if (address != 0) mapped_bytes += bytes;
}
void EventLog::range_came(std::uint64_t address, std::int64_t bytes) {
  add_segment(address, bytes, Event::Kind::range);
}
void EventLog::segment_left(std::uint64_t address, std::int64_t bytes) {
  events.push_back({Event::Kind::segment_freed, "", place(address), bytes, {}});
  mapped_bytes -= bytes;
  there_.erase(address);
}
void EventLog::pages(std::uint64_t address, std::int64_t bytes, bool came) {
  events.push_back({came ? Event::Kind::mapped : Event::Kind::unmapped, "", place(address), bytes, {}});
  mapped_bytes += came ? bytes : -bytes;
}
void EventLog::block(std::uint64_t address, std::int64_t bytes, bool came) {
  events.push_back({came ? Event::Kind::block : Event::Kind::block_freed, "", place(address), bytes, {}});
}
void EventLog::kernel(std::string what, const std::vector<std::uint64_t>& operands) {
  Event e{Event::Kind::kernel, std::move(what), {}, 0, {}};
  for (const std::uint64_t o : operands) e.operands.push_back(place(o));
  events.push_back(std::move(e));
}

EventLog planned_events(const Walk& walk, std::int64_t capacity_bytes, int steps) {
  EventLog log;
  PlannedSegments segments(capacity_bytes, log);
  PlannedLoop loop(walk, log);
  CachingAllocator allocator(segments, parse_alloc_conf(walk.parts.run.alloc_conf));
  TrainingLoop<CachingAllocator>(allocator, walk.parts, &loop, steps).replay_within_limit();
  return log;
}

}  // namespace gpuplan
