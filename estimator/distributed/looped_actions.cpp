#include "estimator/distributed/looped_actions.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/distributed/stage_split.h"

namespace gpuplan {
namespace {

using Does = PipelineAction::Kind;
using Actions = std::vector<PipelineAction>;

// --- what is computed
// -------------------------------------------------------------------------------------------------

// ScheduleLoopedBFS._calculate_single_rank_operations.
Actions breadth_first(std::int32_t stages, std::int32_t micro_batches) {
  Actions order;
  for (std::int32_t s = 0; s < stages; ++s)
    for (std::int32_t m = 0; m < micro_batches; ++m) order.push_back({Does::forward, s, m});
  for (std::int32_t s = stages; s-- > 0;)
    for (std::int32_t m = micro_batches; m-- > 0;) order.push_back({Does::backward, s, m});
  return order;
}

struct Interleaving {
  std::int32_t stages, micro_batches, rank, ranks, in_round;
  bool splits;  // zero bubble: gradients of weights are computed apart
};

// _get_1f1b_rank_ops: so many forwards ahead, and from then on one each in turn. Micro-batches come in rounds, each of
// which passes all stages of the rank. With zero bubble, fewer are ahead (multiply_factor of _get_warmup_ops), and
// gradients of weights follow so many backwards later as there are ranks before.
Actions interleaved(const Interleaving& n) {
  const std::int32_t all = n.stages * n.micro_batches;
  const std::int32_t each = n.splits ? 1 : 2;
  const std::int32_t ahead = std::min((n.stages - 1) * n.in_round + each * (n.ranks - 1 - n.rank), all);
  const auto stage_back = [&](std::int32_t i) { return n.stages - 1 - i / n.in_round % n.stages; };
  std::vector<std::int32_t> forward(index(n.stages), 0), backward = forward, weights = forward;
  std::int32_t weighed = 0;
  Actions order;
  const auto weigh = [&] {
    const std::int32_t s = stage_back(weighed++);
    order.push_back({Does::backward_weight, s, weights[index(s)]++});
  };
  for (std::int32_t i = 0; i < all + ahead; ++i) {
    if (i < all) {
      const std::int32_t s = i / n.in_round % n.stages;
      order.push_back({Does::forward, s, forward[index(s)]++});
    }
    if (i < ahead) continue;
    const std::int32_t s = stage_back(i - ahead);
    order.push_back({n.splits ? Does::backward_input : Does::backward, s, backward[index(s)]++});
    if (n.splits && i - ahead >= n.rank) weigh();
  }
  while (n.splits && weighed < all) weigh();
  return order;
}

// ScheduleZBVZeroBubble._calculate_single_rank_operations, as if there were micro-batches enough to fill the pipeline.
Actions there_and_back(std::int32_t rank, std::int32_t ranks, std::int32_t micro_batches) {
  const std::int32_t full = std::max(2 * ranks - 1, micro_batches);
  Actions order;
  std::array<std::int32_t, 2> forward{}, backward{}, weighed{};  // by stage
  const auto add = [&](Does kind, std::int32_t stage, std::array<std::int32_t, 2>& count) {
    const std::int32_t m = count[index(stage)]++;
    if (m < micro_batches) order.push_back({kind, stage, m});
  };
  const auto run_forward = [&](std::int32_t stage) { add(Does::forward, stage, forward); };
  const auto run_backward = [&](std::int32_t stage) { add(Does::backward_input, stage, backward); };
  const auto weigh = [&](std::int32_t stage) { add(Does::backward_weight, stage, weighed); };
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
    throw Error("PyTorch refuses interleaved 1F1B with --micro-batches " + std::to_string(micro_batches) + ": \"" +
                    title + " requires the number of microbatches to be a multiple of the number of rounds (" +
                    std::to_string(rounds) + "), but got " + std::to_string(micro_batches) + ".\"",
                ErrorKind::usage)
        .help("--micro-batches " + nearest(-1) + " or " + nearest(1));
  return static_cast<std::int32_t>(micro_batches / rounds);
}

// --- what comes between
// -----------------------------------------------------------------------------------------------

// _PipelineScheduleRuntime's max_active_stages, and its unshard_lookahead, which is as many.
constexpr std::size_t kActiveStages = 3;

std::vector<std::int32_t> next_stages(const Actions& computed, std::size_t from) {
  std::vector<std::int32_t> next;
  for (std::size_t i = from; i < computed.size() && next.size() < kActiveStages; ++i)
    if (std::ranges::find(next, computed[i].stage) == next.end()) next.push_back(computed[i].stage);
  return next;
}

// One of a rank's list before what is left of it is told: sends and waits take their turn.
struct Listed {
  enum class Turn : std::uint8_t { action, waits_for_reduction, send, send_gradient };
  PipelineAction action;
  Turn turn = Turn::action;
};

bool ends_micro_batch(Does kind) { return kind == Does::backward || kind == Does::backward_weight; }
bool sends_gradient(Does kind) { return kind == Does::backward || kind == Does::backward_input; }

// _add_unshard_reshard and _add_reduce_grad.
std::vector<Listed> with_shards(const Actions& computed, std::int64_t micro_batches) {
  std::vector<Listed> list;
  std::vector<std::int32_t> active;
  std::vector<std::int64_t> through(computed.size(), 0);  // by stage
  for (std::size_t i = 0; i < computed.size(); ++i) {
    const std::vector<std::int32_t> next = next_stages(computed, i);
    std::erase_if(active, [&](std::int32_t stage) {
      const bool goes = std::ranges::find(next, stage) == next.end();
      if (goes) list.push_back({{Does::reshard, stage, 0}});
      return goes;
    });
    for (const std::int32_t stage : next) {
      if (std::ranges::find(active, stage) != active.end()) continue;
      active.push_back(stage);
      list.push_back({{Does::unshard, stage, 0}});
    }
    list.push_back({computed[i]});
    const std::int32_t stage = computed[i].stage;
    if (!ends_micro_batch(computed[i].kind) || ++through[index(stage)] < micro_batches) continue;
    list.push_back({{Does::reduce, stage, 0}});
    list.push_back({{Does::reduce, stage, 0}, Listed::Turn::waits_for_reduction});
  }
  for (const std::int32_t stage : active) list.push_back({{Does::reshard, stage, 0}});
  return list;
}

std::vector<std::vector<std::int64_t>> numbers_of_ranks(Strategy strategy) {
  std::vector<std::vector<std::int64_t>> numbers;
  for (strategy.pipelining.stage = 0; strategy.pipelining.stage < strategy.pipeline; ++strategy.pipelining.stage)
    numbers.push_back(stages_of_rank(strategy));
  return numbers;
}

/// _add_send_recv: who sends puts the receive into the list of who is sent to, and ranks go on in turns.
class Sender {
 public:
  Sender(const Strategy& strategy, std::vector<std::vector<Listed>> to_do)
      : strategy_(strategy),
        numbers_(numbers_of_ranks(strategy)),
        to_do_(std::move(to_do)),
        done_(to_do_.size()),
        next_(to_do_.size(), 0),
        there_(to_do_.size()) {}

  std::vector<std::vector<Listed>> run() {
    for (bool more = true; more;) {
      more = false;
      for (std::size_t rank = 0; rank < to_do_.size(); ++rank) more = go_on(rank) || more;
    }
    return std::move(done_);
  }

 private:
  bool go_on(std::size_t rank) {
    if (next_[rank] == to_do_[rank].size()) return false;
    const Listed& next = to_do_[rank][next_[rank]];
    const bool acts = next.turn == Listed::Turn::action;
    if (acts && !is_ready(rank, next.action)) return false;
    ++next_[rank];
    done_[rank].push_back(next);
    if (!acts) return true;
    const std::int64_t stage = numbers_[rank][index(next.action.stage)];
    if (next.action.kind == Does::forward && stage + 1 < strategy_.stages())
      hand_on(rank, stage + 1, next.action, Does::receive, Listed::Turn::send);
    if (sends_gradient(next.action.kind) && stage > 0)
      hand_on(rank, stage - 1, next.action, Does::receive_gradient, Listed::Turn::send_gradient);
    return true;
  }

  bool is_ready(std::size_t rank, const PipelineAction& a) const {
    const std::int64_t stage = numbers_[rank][index(a.stage)];
    const auto has = [&](Does kind) { return there_[rank].contains({kind, a.stage, a.micro_batch}); };
    if (a.kind == Does::forward) return stage == 0 || has(Does::receive);
    if (sends_gradient(a.kind)) return stage + 1 == strategy_.stages() || has(Does::receive_gradient);
    return true;
  }

  // To a stage of another rank by a message, to one of the same rank at once.
  void hand_on(std::size_t rank, std::int64_t stage, const PipelineAction& a, Does kind, Listed::Turn turn) {
    const std::size_t to = index(strategy_.place_of(stage));
    const auto own = static_cast<std::int32_t>(std::ranges::find(numbers_[to], stage) - numbers_[to].begin());
    there_[to].insert({kind, own, a.micro_batch});
    if (to == rank) return;
    done_[rank].push_back({a, turn});
    done_[to].push_back({{kind, own, a.micro_batch}});
  }

  const Strategy& strategy_;
  std::vector<std::vector<std::int64_t>> numbers_;  // of each rank's stages
  std::vector<std::vector<Listed>> to_do_, done_;
  std::vector<std::size_t> next_;
  std::vector<std::set<std::tuple<Does, std::int32_t, std::int32_t>>> there_;  // what a rank has been handed
};

// _add_wait_send: hidden states are waited for once the micro-batch is back, their gradients when all else is done.
// What backward was given goes when it returns.
Actions with_waits(const std::vector<Listed>& list, const Strategy& strategy) {
  const std::vector<std::int64_t> numbers = stages_of_rank(strategy);
  Actions actions, pending;  // sends that wait for the end
  for (const Listed& l : list) {
    const PipelineAction& a = l.action;
    if (l.turn == Listed::Turn::send_gradient) pending.push_back({Does::let_gradient_go, a.stage, a.micro_batch});
    if (l.turn != Listed::Turn::action) continue;
    actions.push_back(a);
    if (!ends_micro_batch(a.kind) || numbers[index(a.stage)] + 1 == strategy.stages()) continue;
    actions.push_back({Does::let_received_go, a.stage, a.micro_batch});
    actions.push_back({Does::let_output_go, a.stage, a.micro_batch});
  }
  actions.insert(actions.end(), pending.begin(), pending.end());
  return actions;
}

}  // namespace

std::vector<Actions> looped_computations(const Strategy& strategy, std::int64_t micro_batches) {
  const PipelineSchedule schedule = strategy.pipelining.schedule;
  const auto stages = static_cast<std::int32_t>(strategy.pipelining.stages_each),
             ranks = static_cast<std::int32_t>(strategy.pipeline), count = static_cast<std::int32_t>(micro_batches);
  const bool rounds = schedule != PipelineSchedule::looped_bfs && schedule != PipelineSchedule::zbv;
  const std::int32_t in_round = rounds ? micro_batches_in_round(strategy, micro_batches) : 0;
  std::vector<Actions> computed;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    if (rounds)
      computed.push_back(interleaved({stages, count, rank, ranks, in_round, splits_backward(schedule)}));
    else
      computed.push_back(schedule == PipelineSchedule::zbv ? there_and_back(rank, ranks, count)
                                                           : breadth_first(stages, count));
  }
  return computed;
}

Actions looped_actions(const Strategy& strategy, std::int64_t micro_batches) {
  std::vector<std::vector<Listed>> lists;
  for (const Actions& computed : looped_computations(strategy, micro_batches))
    lists.push_back(with_shards(computed, micro_batches));
  lists = Sender(strategy, std::move(lists)).run();
  return with_waits(lists[index(strategy.pipelining.stage)], strategy);
}

}  // namespace gpuplan
