#include "estimator/trace/plan_trace.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>

#include "estimator/snapshot/snapshot_recorder.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kAllMemory = std::int64_t{1} << 60;  // bytes; sums beyond it are refused, not computed

// By ratio, since that is what memory goes by.
std::size_t nearest_run(const LearnedTrace& trace, std::span<const std::int64_t> values) {
  const auto distance = [&](const std::vector<std::int64_t>& run) {
    double sum = 0;
    for (std::size_t v = 0; v < run.size(); ++v)
      sum += std::abs(std::log(static_cast<double>(values[v]) / static_cast<double>(run[v])));
    return sum;
  };
  const auto found = std::ranges::min_element(trace.runs, {}, distance);
  return static_cast<std::size_t>(found - trace.runs.begin());
}

// Sizes of which only points are known, at values of which none is: on the line through the two nearest points of the
// only variable, and with two variables as in the nearest run.
class PointSizes {
 public:
  PointSizes(const LearnedTrace& trace, std::span<const std::int64_t> values, std::size_t nearest)
      : trace_(trace), value_(values[0]), nearest_(nearest) {
    if (trace.variables.size() > 1) return;
    for (std::size_t r = 0; r < trace.runs.size(); ++r) order_.push_back(r);
    std::ranges::sort(order_, {}, [&](std::size_t r) { return trace.runs[r][0]; });
  }

  std::int64_t at(const RecordedPoints& points) const {
    if (order_.size() < 2) return points[nearest_];
    std::size_t right = 1;
    while (right + 1 < order_.size() && trace_.runs[order_[right]][0] < value_) ++right;
    const std::size_t a = order_[right - 1], b = order_[right];
    // An allocation that one of the two does not have is as in the nearest.
    if (points[a] == 0 || points[b] == 0) return points[nearest_];
    const double share =
        static_cast<double>(value_ - trace_.runs[a][0]) / static_cast<double>(trace_.runs[b][0] - trace_.runs[a][0]);
    const double bytes = static_cast<double>(points[a]) + share * static_cast<double>(points[b] - points[a]);
    if (bytes > 9e15) throw Error("a size does not fit in 64 bits");
    return bytes < 1 ? 1 : static_cast<std::int64_t>(std::llround(bytes));
  }

 private:
  const LearnedTrace& trace_;
  std::int64_t value_;
  std::size_t nearest_;
  std::vector<std::size_t> order_;  // of the runs, by the only variable
};

class Replay {
 public:
  Replay(const LearnedTrace& trace, std::span<const std::int64_t> values, const AllocatorSettings& settings,
         std::int64_t capacity, SnapshotRecorder* recorder = nullptr)
      : trace_(trace),
        recorder_(recorder),
        segments_(std::min(capacity, kAllMemory), settings.segment_order),
        allocator_(recorder == nullptr ? static_cast<SegmentSource&>(segments_) : *recorder, settings),
        blocks_(trace.tensors.size(), kNoBlock) {
    plan_.values.assign(values.begin(), values.end());
    plan_.nearest = nearest_run(trace, values);
    plan_.recorded = std::ranges::equal(trace.runs[plan_.nearest], values);
    sizes_.reserve(trace.sizes.size());
    for (const LearnedSize& size : trace.sizes) sizes_.push_back(bytes_of(size));
    plan_.outside_bytes = bytes_of(trace.outside);
    if (plan_.outside_bytes > kAllMemory) throw Error("the memory outside PyTorch's allocator does not fit in 64 bits");
  }

  TracePlan run() {
    for (const LearnedSection& section : trace_.sections)
      if (!run_section(section)) break;
    plan_.segments = allocator_.segment_count();
    plan_.inactive_split_bytes = allocator_.inactive_split_bytes();
    plan_.retries = allocator_.retry_count();
    for (const TraceRow& row : plan_.rows) {
      plan_.peak.requested_bytes = std::max(plan_.peak.requested_bytes, row.peak.requested_bytes);
      plan_.peak.allocated_bytes = std::max(plan_.peak.allocated_bytes, row.peak.allocated_bytes);
      plan_.peak.reserved_bytes = std::max(plan_.peak.reserved_bytes, row.peak.reserved_bytes);
    }
    return std::move(plan_);
  }

  const CachingAllocator& allocator() const { return allocator_; }

 private:
  bool is_estimated(const LearnedSize& size) const {
    return !plan_.recorded && std::holds_alternative<RecordedPoints>(size.value);
  }

  std::int64_t bytes_of(const LearnedSize& size) const {
    if (const auto* const function = std::get_if<SizeFunction>(&size.value)) return size_at(*function, plan_.values);
    if (const auto* const workspace = std::get_if<LearnedWorkspace>(&size.value))
      return plan_.recorded ? workspace->points[plan_.nearest] : workspace_at(*workspace, plan_.values, gpu_of(trace_));
    const RecordedPoints& points = std::get<RecordedPoints>(size.value);
    return plan_.recorded ? points[plan_.nearest] : PointSizes(trace_, plan_.values, plan_.nearest).at(points);
  }

  // False: out of memory.
  bool run_section(const LearnedSection& section) {
    allocator_.reset_peaks();
    if (recorder_ != nullptr) recorder_->mark(mark_of(section), true);
    const auto peak = [&] {
      return Readings{allocator_.peak_requested_bytes(), allocator_.peak_allocated_bytes(),
                      allocator_.peak_reserved_bytes()};
    };
    for (const LearnedEvent& event : section.events) {
      if ((event.runs >> plan_.nearest & 1) == 0) continue;
      if (event.kind == EventKind::empty_cache) {
        allocator_.empty_cache();
        continue;
      }
      ++plan_.events;
      if (event.kind == EventKind::free) {
        if (recorder_ != nullptr)
          recorder_->released(allocator_.address(blocks_[event.tensor]), stream_of(event.tensor));
        allocator_.release(blocks_[event.tensor]);
        blocks_[event.tensor] = kNoBlock;
      } else if (!allocate(section, event)) {
        return false;
      }
    }
    plan_.rows.push_back(
        {.step = section.step,
         .phase = section.phase,
         .live = {allocator_.requested_bytes(), allocator_.allocated_bytes(), allocator_.reserved_bytes()},
         .peak = peak()});
    if (recorder_ != nullptr) recorder_->mark(mark_of(section), false);
    return true;
  }

  bool allocate(const LearnedSection& section, const LearnedEvent& event) {
    const LearnedTensor& tensor = trace_.tensors[event.tensor];
    const std::int64_t bytes = sizes_[tensor.size];
    const BlockId block = allocator_.allocate(bytes, tensor.stream);
    ++plan_.allocations;
    if (is_estimated(trace_.sizes[tensor.size])) {
      ++plan_.estimated_allocations;
      plan_.estimated_bytes = std::max(plan_.estimated_bytes, bytes);
    }
    const auto moment = [&] {
      return TraceMoment{section.step, section.phase, trace_.words[tensor.name], trace_.words[tensor.place],
                         plan_.events};
    };
    if (block == kOutOfMemory) {
      plan_.out_of_memory = {allocator_.out_of_memory(), moment()};
      return false;
    }
    blocks_[event.tensor] = block;
    if (recorder_ != nullptr && block != kNoBlock)
      recorder_->allocated(allocator_.address(block), bytes, stack_of(section, tensor), stream_of(event.tensor));
    if (allocator_.allocated_bytes() > highest_) {
      highest_ = allocator_.allocated_bytes();
      plan_.at = moment();
    }
    return true;
  }

  // As torch.optim marks its steps.
  static std::string mark_of(const LearnedSection& section) {
    return section.phase == "optimizer" ? "Optimizer.step#learned" : section.phase;
  }
  std::uint16_t stream_of(std::uint32_t tensor) {
    return recorder_->stream(static_cast<std::uint64_t>(trace_.tensors[tensor].stream));
  }
  // "model.py:9 forward"; of backward, which has no line, the operator.
  std::uint32_t stack_of(const LearnedSection& section, const LearnedTensor& tensor) {
    const bool backward = section.phase == "backward";
    const auto [at, is_new] = stacks_.try_emplace({tensor.name, tensor.place, backward}, 0);
    if (!is_new) return at->second;
    const std::string_view place = trace_.words[tensor.place], name = trace_.words[tensor.name];
    const std::size_t colon = place.find(':'), space = place.find(' ', colon == place.npos ? 0 : colon);
    std::int32_t line = 0;
    if (colon != place.npos && space != place.npos)
      (void)std::from_chars(place.data() + colon + 1, place.data() + space, line);
    std::vector<std::uint32_t> frames;
    if (line > 0)
      frames.push_back(recorder_->frame(place.substr(0, colon), place.substr(space + 1), line));
    else if (name == "backward")  // as PyTorch has it, whose engine has no line
      frames.push_back(recorder_->frame("torch/autograd/", name, 0));
    else
      frames.push_back(recorder_->frame("learned", std::string(name) + (backward ? " in backward" : ""), 0));
    return at->second = recorder_->stack(frames);
  }

  const LearnedTrace& trace_;
  SnapshotRecorder* recorder_;  // or none
  std::map<std::tuple<std::uint32_t, std::uint32_t, bool>, std::uint32_t> stacks_;
  ArithmeticSegments segments_;
  CachingAllocator allocator_;
  std::vector<BlockId> blocks_;      // by tensor
  std::vector<std::int64_t> sizes_;  // by LearnedTrace::sizes
  std::int64_t highest_ = 0;
  TracePlan plan_;
};

std::string range_text(const LearnedTrace& trace, std::size_t variable) {
  const std::vector<std::int64_t>& values = trace.variables[variable].values;
  return std::to_string(values.front()) + " to " + std::to_string(values.back());
}

std::string values_of_runs(const LearnedTrace& trace) {
  std::string text;
  for (const std::vector<std::int64_t>& run : trace.runs)
    text += (text.empty() ? "" : ", ") + values_text(trace.variables, run);
  return text;
}

void add_notes(const LearnedTrace& trace, TracePlan& plan) {
  for (std::size_t v = 0; v < trace.variables.size(); ++v) {
    const TraceVariable& variable = trace.variables[v];
    if (plan.values[v] < variable.values.front() || plan.values[v] > variable.values.back())
      plan.notes.push_back(variable.name + " " + std::to_string(plan.values[v]) + " is outside the recorded range, " +
                           range_text(trace, v));
  }
  // Inductor splits a reduction, and orders what it computes, by the sizes that it compiles for.
  if (trace.compiled && !plan.recorded)
    plan.notes.push_back("torch.compile makes other code for other values: only the recorded ones, " +
                         values_of_runs(trace) + ", are exact");
  if (plan.estimated_allocations > 0)
    plan.notes.push_back(std::to_string(plan.estimated_allocations) + " of " + std::to_string(plan.allocations) +
                         " allocations fit no function of " + trace.variables[0].name +
                         ": their sizes are interpolated between the recorded ones, the largest at " +
                         std::to_string(plan.estimated_bytes) + " B");
  const TraceCounts counts = counts_of(trace);
  if (counts.unchecked > 0 && !plan.recorded)
    plan.notes.push_back(std::to_string(counts.unchecked) + " of " + std::to_string(plan.allocations) +
                         " allocations have a size function that no additional value verifies");
  if (counts.only_some_runs > 0 && !plan.recorded)
    plan.notes.push_back(std::to_string(counts.only_some_runs) +
                         " events happen at some values only: those of the nearest recorded run, " +
                         values_text(trace.variables, trace.runs[plan.nearest]) + ", are used");
  const auto is_rounded = [&](const LearnedSize& size) {
    const auto* const function = std::get_if<SizeFunction>(&size.value);
    return function != nullptr && !is_whole_at(*function, plan.values);
  };
  if (std::ranges::any_of(trace.sizes, is_rounded))
    plan.notes.push_back("some sizes are not whole numbers at " + values_text(trace.variables, plan.values) +
                         " and are rounded up: the recorded values have a common divisor");
}

}  // namespace

TracePlan plan_trace(const LearnedTrace& trace, std::span<const std::int64_t> values, const AllocatorSettings& settings,
                     std::int64_t capacity_bytes) {
  try {
    TracePlan plan = Replay(trace, values, settings, capacity_bytes).run();
    if (plan.out_of_memory && capacity_bytes >= kAllMemory) throw Error("what is allocated does not fit in 64 bits");
    add_notes(trace, plan);
    return plan;
  } catch (const Error& error) {
    throw Error(values_text(trace.variables, values) + ": " + error.message());
  }
}

Snapshot trace_snapshot(const LearnedTrace& trace, std::span<const std::int64_t> values,
                        const AllocatorSettings& settings) {
  SnapshotRecorder recorder(trace.command, settings.segment_order, kAllMemory);
  Replay replay(trace, values, settings, kAllMemory, &recorder);
  (void)replay.run();
  return recorder.take(replay.allocator(), trace.alloc_conf);
}

}  // namespace gpuplan
