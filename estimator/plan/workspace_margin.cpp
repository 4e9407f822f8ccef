#include "estimator/plan/workspace_margin.h"

#include <algorithm>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "estimator/allocator/charges.h"
#include "estimator/base/integers.h"
#include "estimator/operators/cudnn_query.h"

namespace gpuplan {
namespace {

// What is known of the workspace of a convolution, however often it runs.
struct Ceiling {
  std::int64_t bytes = 0;               // no smaller than what it takes at most
  std::optional<std::int64_t> at_most;  // where it was looked up
};
using Ceilings = std::map<CudnnConvolution, Ceiling>;

struct Unrecorded {
  Ceilings::value_type* convolution = nullptr;
  std::int64_t workspace_bytes = 0;  // planned
  std::int64_t alive_bytes = 0;      // with it, without the workspace
  std::int64_t rests_bytes = 0;      // that blocks alive with it may keep, lying elsewhere

  std::int64_t ceiling_bytes() const { return std::max(workspace_bytes, convolution->second.bytes); }
};

// The last of the scratch program, where it has one: copies of the input, with its results after it, and of the filter
// come before.
std::int64_t planned_workspace(const Schedule& schedule, const ScheduledOp& step, const Convolution& convolution) {
  const int before = (convolution.input_copy_bytes > 0 ? 2 : 0) + (convolution.weight_copy_bytes > 0 ? 1 : 0);
  if (step.scratch.end - step.scratch.begin <= before) return 0;
  return schedule.scratch[static_cast<std::size_t>(step.scratch.end) - 1];
}

std::vector<Unrecorded> unrecorded_of(std::span<const Schedule> passes, const LoopReplay& replay,
                                      const Charges& charges, const Gpu& gpu, Ceilings& ceilings) {
  std::vector<Unrecorded> found;
  std::size_t pass = 0, step = 0;
  std::int64_t large = 0;  // blocks alive
  const auto is_large = [&](const Schedule& schedule, BufferId b) {
    return schedule.buffers[static_cast<std::size_t>(b)].bytes > kSmallBytes;
  };
  for (const TimelinePoint& point : replay.timeline) {
    if (point.phase != Phase::forward && point.phase != Phase::loss && point.phase != Phase::backward) continue;
    const Schedule& schedule = passes[pass];
    const ScheduledOp& s = schedule.ops[step++];
    for (std::int32_t i = s.allocates.begin; i < s.allocates.end; ++i)
      large += is_large(schedule, schedule.allocated[static_cast<std::size_t>(i)]) ? 1 : 0;
    const std::int64_t alive = large;
    for (std::int32_t i = s.releases.begin; i < s.releases.end; ++i)
      large -= is_large(schedule, schedule.released[static_cast<std::size_t>(i)]) ? 1 : 0;
    if (step == schedule.ops.size()) {
      step = 0;
      pass = passes.size() - 1;
      large = 0;
    }
    if (!s.unrecorded) continue;
    const auto& convolution = std::get<Convolution>(*s.what);
    const auto [known, is_new] = ceilings.try_emplace(cudnn_query(convolution));
    if (is_new) known->second.bytes = cudnn_workspace_ceiling(known->first, gpu);
    const std::int64_t workspace = planned_workspace(schedule, s, convolution);
    found.push_back({.convolution = &*known,
                     .workspace_bytes = workspace,
                     .alive_bytes = point.peak_bytes - charges.least(workspace),
                     .rests_bytes = checked_mul(std::max<std::int64_t>(alive, 0), charges.rest())});
  }
  return found;
}

std::int64_t at_most(const Unrecorded& u, const Gpu& gpu) {
  auto& [convolution, ceiling] = *u.convolution;
  if (!ceiling.at_most) ceiling.at_most = cudnn_workspace_at_most(convolution, gpu);
  return *ceiling.at_most;
}

// The largest of what `bytes_of` makes of a convolution and its workspace at most. That is looked up only where the
// ceiling would be larger, of the one with the largest ceiling first.
template <class Bytes>
std::int64_t largest(std::span<const Unrecorded> all, const Gpu& gpu, Bytes&& bytes_of) {
  const auto with_ceiling = [&](const Unrecorded& u) { return bytes_of(u, u.ceiling_bytes()); };
  std::int64_t most = 0;
  const auto look_up = [&](const Unrecorded& u) { most = std::max(most, bytes_of(u, at_most(u, gpu))); };
  look_up(*std::ranges::max_element(all, {}, with_ceiling));
  for (const Unrecorded& u : all)
    if (with_ceiling(u) > most) look_up(u);
  return most;
}

// Segments that workspaces may take beside the planned ones, of one pass: the largest that grows, or more where each is
// larger than all before it, as in the backward of a network whose images shrink: none fits what another left.
std::int64_t segments_of(std::span<const Unrecorded> all, bool forward, const Charges& charges, const Gpu& gpu) {
  std::int64_t one = 0, rests = 0, rising = 0, largest = 0, rising_planned = 0, largest_planned = 0;
  const auto with_rests = [&](const Unrecorded& u, std::int64_t bytes) {
    return checked_add(charges.segment(bytes), u.rests_bytes);
  };
  for (const Unrecorded& u : all) {
    if ((u.convolution->first.pass == CudnnConvolution::Pass::forward) != forward) continue;
    if (u.workspace_bytes > largest_planned) {
      largest_planned = u.workspace_bytes;
      rising_planned = checked_add(rising_planned, charges.segment(largest_planned));
    }
    if (u.ceiling_bytes() <= largest && with_rests(u, u.ceiling_bytes()) <= one) continue;
    const std::int64_t bytes = std::max(at_most(u, gpu), u.workspace_bytes);
    if (bytes > u.workspace_bytes) {
      one = std::max(one, with_rests(u, bytes));
      rests = std::max(rests, u.rests_bytes);
    }
    if (bytes <= largest) continue;
    largest = bytes;
    rising = checked_add(rising, charges.segment(bytes));
  }
  return one == 0 ? 0 : std::max(one, checked_add(rising - rising_planned, rests));
}

}  // namespace

WorkspaceMargin workspace_margin(std::span<const Schedule> passes, const LoopReplay& replay, const RunConfig& run,
                                 const Gpu& gpu) {
  WorkspaceMargin margin;
  margin.convolutions = std::ranges::count_if(passes.front().ops, &ScheduledOp::unrecorded);
  if (margin.convolutions == 0) return margin;
  const Charges charges(run);
  Ceilings ceilings;
  const std::vector<Unrecorded> all = unrecorded_of(passes, replay, charges, gpu, ceilings);
  const std::int64_t allocated = largest(all, gpu, [&](const Unrecorded& u, std::int64_t bytes) {
    const std::int64_t rests = bytes > u.workspace_bytes ? u.rests_bytes : 0;
    return checked_add(checked_add(u.alive_bytes, rests), charges.most(bytes));
  });
  margin.allocated_bytes = std::max<std::int64_t>(allocated - replay.peak.allocated_bytes, 0);
  // What forward's segment was cut into may be kept for backward, which takes another one then.
  for (const bool forward : {true, false}) margin.reserved_bytes += segments_of(all, forward, charges, gpu);
  if (run.allocator != AllocatorKind::caching) margin.reserved_bytes = margin.allocated_bytes;
  return margin;
}

}  // namespace gpuplan
