#include "estimator/distributed/looped_orders.h"

#include <algorithm>
#include <array>
#include <string>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

using ComputedKind = PipelineAction::Kind;
using Computed = std::vector<PipelineAction>;

// ScheduleLoopedBFS._calculate_single_rank_operations.
Computed breadth_first(std::int32_t stages, std::int32_t micro_batches) {
  Computed order;
  for (std::int32_t s = 0; s < stages; ++s)
    for (std::int32_t m = 0; m < micro_batches; ++m) order.push_back({ComputedKind::forward, s, m});
  for (std::int32_t s = stages; s-- > 0;)
    for (std::int32_t m = micro_batches; m-- > 0;) order.push_back({ComputedKind::backward, s, m});
  return order;
}

struct Interleaving {
  std::int32_t stages, micro_batches, rank, ranks, in_round;
  bool splits;  // zero bubble: gradients of weights are computed apart
};

// _get_1f1b_rank_ops: so many forwards ahead, and from then on one each in turn. Micro-batches come in rounds, each of
// which passes all stages of the rank. With zero bubble, fewer are ahead (multiply_factor of _get_warmup_ops), and
// gradients of weights follow so many backwards later as there are ranks before.
Computed interleaved(const Interleaving& n) {
  const std::int32_t all = n.stages * n.micro_batches;
  const std::int32_t each = n.splits ? 1 : 2;
  const std::int32_t ahead = std::min((n.stages - 1) * n.in_round + each * (n.ranks - 1 - n.rank), all);
  const auto stage_back = [&](std::int32_t i) { return n.stages - 1 - i / n.in_round % n.stages; };
  std::vector<std::int32_t> forward(index(n.stages), 0), backward = forward, weights = forward;
  std::int32_t weighed = 0;
  Computed order;
  const auto weigh = [&] {
    const std::int32_t s = stage_back(weighed++);
    order.push_back({ComputedKind::backward_weight, s, weights[index(s)]++});
  };
  for (std::int32_t i = 0; i < all + ahead; ++i) {
    if (i < all) {
      const std::int32_t s = i / n.in_round % n.stages;
      order.push_back({ComputedKind::forward, s, forward[index(s)]++});
    }
    if (i < ahead) continue;
    const std::int32_t s = stage_back(i - ahead);
    order.push_back({n.splits ? ComputedKind::backward_input : ComputedKind::backward, s, backward[index(s)]++});
    if (n.splits && i - ahead >= n.rank) weigh();
  }
  while (n.splits && weighed < all) weigh();
  return order;
}

// ScheduleZBVZeroBubble._calculate_single_rank_operations, as if there were micro-batches enough to fill the pipeline.
Computed there_and_back(std::int32_t rank, std::int32_t ranks, std::int32_t micro_batches) {
  const std::int32_t full = std::max(2 * ranks - 1, micro_batches);
  Computed order;
  std::array<std::int32_t, 2> forward{}, backward{}, weighed{};  // by stage
  const auto add = [&](ComputedKind kind, std::int32_t stage, std::array<std::int32_t, 2>& count) {
    const std::int32_t m = count[index(stage)]++;
    if (m < micro_batches) order.push_back({kind, stage, m});
  };
  const auto run_forward = [&](std::int32_t stage) { add(ComputedKind::forward, stage, forward); };
  const auto run_backward = [&](std::int32_t stage) { add(ComputedKind::backward_input, stage, backward); };
  const auto weigh = [&](std::int32_t stage) { add(ComputedKind::backward_weight, stage, weighed); };
  const auto run_back = [&](std::int32_t stage) {
    run_backward(stage);
    weigh(stage);
  };
  for (std::int32_t i = 0; i < 2 * (ranks - rank) - 1; ++i) run_forward(0);
  for (std::int32_t i = 0; i < rank; ++i) {
    run_forward(1);
    run_forward(0);
  }
  for (std::int32_t i = 0; i < ranks - rank; ++i) {
    run_forward(1);
    run_back(1);
  }
  while (forward[1] < forward[0] || forward[0] < full) {
    if (forward[0] < full) run_forward(0);
    run_back(0);
    run_forward(1);
    run_back(1);
  }
  for (std::int32_t i = 0; i < rank; ++i) {
    run_backward(0);
    run_backward(1);
  }
  for (std::int32_t i = 0; i < ranks - rank; ++i) run_back(0);
  for (const std::int32_t stage : {1, 0})
    while (weighed[index(stage)] < backward[index(stage)]) weigh(stage);
  return order;
}

// ScheduleDualPipeV._calculate_single_rank_operations. A backward whose gradients of weights are computed apart puts
// them into a queue.
class DualPipe {
 public:
  DualPipe(std::int32_t rank, std::int32_t ranks, std::int32_t micro_batches)
      : rank_(rank), behind_(ranks - rank - 1), rounds_(micro_batches - 2 * ranks + rank + 1) {}

  Overlapped write() {
    for (std::int32_t i = 0; i < 2 * behind_; ++i) alone(forward(0));
    for (std::int32_t i = 0; i <= rank_; ++i) {
      alone(forward(0));
      alone(forward(1));
    }
    for (std::int32_t i = 0; i < behind_; ++i) {
      alone(backward(1, true));
      weigh();
      alone(forward(1));
    }
    for (std::int32_t i = 0; i < rounds_; ++i) {
      if (i == 0 && behind_ == 0) {
        alone(forward(0));
        alone(backward(1, false));
      } else {
        overlap(0, 1);
      }
      overlap(1, 0);
    }
    for (std::int32_t i = 0; i < behind_; ++i) {
      alone(backward(1, false));
      overlap(1, 0);
    }
    cool_down();
    return std::move(order_);
  }

 private:
  // The second half splits its backwards.
  void cool_down() {
    bool splits = false;
    for (std::int32_t i = 0; i <= rank_; ++i) {
      const bool half = i == (rank_ + 1) / 2;
      splits = splits || (half && rank_ % 2 == 1);
      alone(backward(1, splits));
      splits = splits || (half && rank_ % 2 == 0);
      alone(backward(0, splits));
    }
    for (std::int32_t i = 0; i < behind_; ++i) {
      weigh();
      alone(backward(0, splits));
    }
    for (std::int32_t i = 0; i <= rank_; ++i) weigh();
  }

  PipelineAction forward(std::int32_t stage) { return {ComputedKind::forward, stage, forwards_[index(stage)]++}; }
  PipelineAction backward(std::int32_t stage, bool splits) {
    const PipelineAction a{splits ? ComputedKind::backward_input : ComputedKind::backward, stage,
                           backwards_[index(stage)]++};
    if (splits) weights_.push_back({ComputedKind::backward_weight, stage, a.micro_batch});
    return a;
  }
  void alone(const PipelineAction& a) { order_.push_back({a}); }
  void overlap(std::int32_t ahead, std::int32_t back) {
    const PipelineAction first = forward(ahead);
    order_.push_back({first, backward(back, false)});
  }
  void weigh() {
    if (weighed_ < weights_.size()) alone(weights_[weighed_++]);
  }

  std::int32_t rank_, behind_, rounds_;
  std::array<std::int32_t, 2> forwards_{}, backwards_{};  // by stage
  Computed weights_;
  std::size_t weighed_ = 0;
  Overlapped order_;
};

void refuse_few(const Strategy& strategy, std::int64_t micro_batches) {
  if (!mixes_backward(strategy.pipelining.schedule) || micro_batches >= strategy.stages()) return;
  throw Error("PyTorch refuses dualpipev with --micro-batches " + std::to_string(micro_batches) +
                  ": \"DualPipeV requires at least as many microbatches as stages, but got " +
                  std::to_string(micro_batches) + " microbatches and " + std::to_string(strategy.stages()) +
                  " stages.\"",
              ErrorKind::usage)
      .help("--micro-batches " + std::to_string(strategy.stages()) + ", or --pp-schedule zbvzerobubble");
}

std::int32_t micro_batches_in_round(const Strategy& strategy, std::int64_t micro_batches) {
  const auto rounds_of = [&](std::int64_t n) { return std::max<std::int64_t>(1, n / strategy.pipeline); };
  const auto nearest = [&](std::int64_t step) {
    std::int64_t n = micro_batches;
    while (n % rounds_of(n) != 0) n += step;
    return std::to_string(n);
  };
  const std::int64_t rounds = rounds_of(micro_batches);
  const std::string name(name_of(strategy.pipelining.schedule));
  const std::string title = splits_backward(strategy.pipelining.schedule) ? "Zero bubble" : "Interleaved 1F1B";
  if (micro_batches % rounds != 0)
    throw Error("PyTorch refuses " + name + " with --micro-batches " + std::to_string(micro_batches) + ": \"" + title +
                    " requires the number of microbatches to be a multiple of the number of rounds (" +
                    std::to_string(rounds) + "), but got " + std::to_string(micro_batches) + ".\"",
                ErrorKind::usage)
        .help("--micro-batches " + nearest(-1) + " or " + nearest(1));
  return static_cast<std::int32_t>(micro_batches / rounds);
}

Computed computations(const Strategy& strategy, std::int32_t rank, std::int32_t micro_batches) {
  const PipelineSchedule schedule = strategy.pipelining.schedule;
  const auto stages = static_cast<std::int32_t>(strategy.pipelining.stages_each),
             ranks = static_cast<std::int32_t>(strategy.pipeline);
  if (schedule == PipelineSchedule::looped_bfs) return breadth_first(stages, micro_batches);
  if (schedule == PipelineSchedule::zbv) return there_and_back(rank, ranks, micro_batches);
  const std::int32_t in_round = micro_batches_in_round(strategy, micro_batches);
  return interleaved({stages, micro_batches, rank, ranks, in_round, splits_backward(schedule)});
}

}  // namespace

Overlapped looped_order(const Strategy& strategy, std::int64_t rank, std::int64_t micro_batches) {
  refuse_few(strategy, micro_batches);
  const auto place = static_cast<std::int32_t>(rank), ranks = static_cast<std::int32_t>(strategy.pipeline),
             count = static_cast<std::int32_t>(micro_batches);
  if (mixes_backward(strategy.pipelining.schedule)) return DualPipe(place, ranks, count).write();
  Overlapped order;
  for (const PipelineAction& a : computations(strategy, place, count)) order.push_back({a});
  return order;
}

}  // namespace gpuplan
