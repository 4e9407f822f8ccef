#include "estimator/distributed/transfers.h"

#include <algorithm>
#include <numeric>

#include "estimator/base/integers.h"
#include "estimator/distributed/communication.h"
#include "estimator/distributed/data_parallel_memory.h"

namespace gpuplan {
namespace {

// Gradients are copied into the buffer first.
Transfer reduction(std::int32_t step, std::int64_t bytes, std::int32_t copies, std::string_view row = kGradientsRow) {
  Transfer send;
  send.step = step;
  send.row = row;
  send.bytes = bytes;
  send.after_operations = true;
  send.copied_bytes = bytes;
  send.copies = copies;
  return send;
}

Transfer wait_for(std::int32_t of, std::int32_t step) {
  Transfer wait;
  wait.kind = Transfer::Kind::wait;
  wait.step = step;
  wait.of = of;
  return wait;
}

std::vector<Transfer> ddp_transfers(const Graph& graph, const Schedule& schedule, const Strategy& strategy) {
  std::vector<Transfer> list;
  const std::vector<GradientBucket> buckets = gradient_buckets(graph, schedule, strategy);
  for (const GradientBucket& b : buckets) {
    list.push_back(reduction(b.after_step + 1, b.bytes, b.gradients));
  }
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    Transfer wait = wait_for(static_cast<std::int32_t>(b), static_cast<std::int32_t>(schedule.ops.size()));
    if (!strategy.gradient_as_bucket_view) {
      wait.copied_bytes = buckets[b].bytes;
      wait.copies = buckets[b].gradients;
    }
    list.push_back(wait);
  }
  return list;
}

class FsdpTransfers {
 public:
  FsdpTransfers(const Graph& graph, const Schedule& schedule, std::span<const FsdpUnit> units, const Strategy& strategy,
                bool reduces)
      : graph_(graph),
        schedule_(schedule),
        units_(units),
        strategy_(strategy),
        reduces_(reduces),
        gathers_(units.size(), kNone) {}

  std::vector<Transfer> write() {
    forward();
    backward();
    return std::move(list_);
  }

 private:
  std::int32_t add(const Transfer& transfer) {
    list_.push_back(transfer);
    return static_cast<std::int32_t>(list_.size()) - 1;
  }

  void gather(std::size_t unit, std::int32_t step, Phase phase, std::int32_t after_copy) {
    const std::int64_t bytes = gathered_bytes(graph_, units_[unit], strategy_);
    if (bytes == 0) return;
    Transfer send;
    send.step = step;
    const bool forward = phase == Phase::forward;
    send.row = units_[unit].of_experts ? (forward ? kForwardGathersOfExpertsRow : kBackwardGathersOfExpertsRow)
               : forward               ? kForwardGathersRow
                                       : kBackwardGathersRow;
    send.bytes = bytes;
    send.after_copy = after_copy;
    gathers_[unit] = add(send);
  }

  // split_with_sizes_copy: one kernel.
  std::int32_t copy_out(std::size_t unit, std::int32_t step) {
    const std::int32_t of = gathers_[unit];
    if (of == kNone) return kNone;
    Transfer wait = wait_for(of, step);
    if (!strategy_.flat) {  // FSDP1 computes with views of what is gathered
      wait.copied_bytes = list_[index(of)].bytes;
      wait.copies = 1;
    }
    gathers_[unit] = kNone;
    return add(wait);
  }

  void forward() {
    std::int32_t last = kNone, before_last = kNone;
    std::vector<std::size_t> order(units_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t u) { return units_[u].forward.begin; });
    for (const std::size_t u : order) {
      const std::int32_t step = units_[u].forward.begin;
      gather(u, step, Phase::forward, before_last);
      const std::int32_t copied = copy_out(u, step);
      if (copied == kNone) continue;
      before_last = last;
      last = copied;
    }
  }

  bool gathers_again(std::size_t unit) const { return strategy_.reshards(unit, units_.size()); }

  void backward() {
    const std::size_t last = units_.size() - 1;
    const bool root_gathers = gathered_bytes(graph_, units_[0], strategy_) > 0;
    std::int32_t root_copied = kNone;
    if (root_gathers && strategy_.reshards_root) {
      gather(0, units_[0].backward.begin, Phase::backward, kNone);
      root_copied = copy_out(0, units_[0].backward.begin);
    }
    if (root_gathers && gathers_again(last)) gather(last, units_[0].backward.begin, Phase::backward, root_copied);
    std::vector<const FsdpUnit*> open;  // whose backward has begun, an inner one behind its block
    const auto close = [&](std::int32_t step) {
      for (; !open.empty() && open.back()->backward.end <= step; open.pop_back())
        reduce(*open.back(), open.back()->backward.end);
    };
    for (std::size_t u = last; u >= 1; --u) {
      if (!units_[u].runs_backward()) continue;
      const std::int32_t begin = units_[u].backward.begin;
      close(begin);
      std::int32_t copied = kNone;
      if (gathers_again(u)) {
        if (u == last && !root_gathers) gather(u, begin, Phase::backward, kNone);
        copied = copy_out(u, begin);
      }
      if (gathers_again(u - 1)) gather(u - 1, begin, Phase::backward, copied);
      if (units_[u].input_has_gradient) open.push_back(&units_[u]);
    }
    const auto end = static_cast<std::int32_t>(schedule_.ops.size());
    close(end);
    for (const FsdpUnit& unit : units_)
      if (!unit.input_has_gradient) reduce(unit, end);
    wait_for_reduction(end);
  }

  // chunk_cat: one kernel. The replicas' sum is on the link when the reduction is done.
  void reduce(const FsdpUnit& unit, std::int32_t step) {
    if (!reduces_) return;
    wait_for_reduction(step);
    const std::int64_t bytes = reduced_bytes(graph_, schedule_, unit, strategy_);
    if (bytes == 0) return;
    reducing_ = add(reduction(step, bytes, 1, unit.of_experts ? kGradientsOfExpertsRow : kGradientsRow));
    if (strategy_.replicas < 2) return;
    Transfer sum;
    sum.step = step;
    sum.row = kReplicasRow;
    sum.bytes = bytes / strategy_.group(unit.of_experts).ranks;
    summing_ = add(sum);
  }

  void wait_for_reduction(std::int32_t step) {
    if (reducing_ != kNone) add(wait_for(reducing_, step));
    if (summing_ != kNone && step == static_cast<std::int32_t>(schedule_.ops.size())) add(wait_for(summing_, step));
    reducing_ = kNone;
  }

  const Graph& graph_;
  const Schedule& schedule_;
  std::span<const FsdpUnit> units_;
  const Strategy& strategy_;
  bool reduces_;
  std::vector<std::int32_t> gathers_;  // of each unit, what is under way
  std::int32_t reducing_ = kNone, summing_ = kNone;
  std::vector<Transfer> list_;
};

}  // namespace

std::vector<Transfer> transfers(const Graph& graph, const Schedule& schedule, std::span<const FsdpUnit> units,
                                const Strategy& strategy, bool last) {
  if (strategy.runs_stages()) return {};
  if (strategy.data == DataParallel::ddp || strategy.data == DataParallel::zero1)
    return ddp_transfers(graph, schedule, strategy);
  if (strategy.data == DataParallel::fsdp)
    return FsdpTransfers(graph, schedule, units, strategy, last || !strategy.reduces_last).write();
  return {};
}

}  // namespace gpuplan
