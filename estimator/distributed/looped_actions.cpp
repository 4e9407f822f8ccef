#include "estimator/distributed/looped_actions.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/distributed/looped_orders.h"
#include "estimator/distributed/stage_split.h"

namespace gpuplan {
namespace {

using Does = PipelineAction::Kind;
using Actions = std::vector<PipelineAction>;

// _PipelineScheduleRuntime's max_active_stages, and its unshard_lookahead, which is as many.
constexpr std::size_t kActiveStages = 3;

std::vector<std::int32_t> next_stages(const Overlapped& computed, std::size_t from) {
  std::vector<std::int32_t> next;
  for (std::size_t i = from; i < computed.size() && next.size() < kActiveStages; ++i)
    for (const PipelineAction& a : computed[i])
      if (std::ranges::find(next, a.stage) == next.end()) next.push_back(a.stage);
  return next;
}

// One of a rank's list before what is left of it is told: sends and waits take their turn.
struct Listed {
  enum class Turn : std::uint8_t { action, waits_for_reduction, send, send_gradient };
  Actions actions;
  Turn turn = Turn::action;
};

bool ends_micro_batch(Does kind) { return kind == Does::backward || kind == Does::backward_weight; }
bool sends_gradient(Does kind) { return kind == Does::backward || kind == Does::backward_input; }

// _add_unshard_reshard and _add_reduce_grad.
std::vector<Listed> with_shards(const Overlapped& computed, std::int64_t micro_batches) {
  std::vector<Listed> list;
  const auto add = [&](Does kind, std::int32_t stage, Listed::Turn turn = Listed::Turn::action) {
    list.push_back({{{kind, stage, 0}}, turn});
  };
  std::vector<std::int32_t> active;
  std::map<std::int32_t, std::int64_t> through;  // by stage
  for (std::size_t i = 0; i < computed.size(); ++i) {
    const std::vector<std::int32_t> next = next_stages(computed, i);
    std::erase_if(active, [&](std::int32_t stage) {
      const bool goes = std::ranges::find(next, stage) == next.end();
      if (goes) add(Does::reshard, stage);
      return goes;
    });
    for (const std::int32_t stage : next) {
      if (std::ranges::find(active, stage) != active.end()) continue;
      active.push_back(stage);
      add(Does::unshard, stage);
    }
    list.push_back({computed[i]});
    for (const PipelineAction& a : computed[i]) {
      if (!ends_micro_batch(a.kind) || ++through[a.stage] < micro_batches) continue;
      add(Does::reduce, a.stage);
      add(Does::reduce, a.stage, Listed::Turn::waits_for_reduction);
    }
  }
  for (const std::int32_t stage : active) add(Does::reshard, stage);
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
    if (acts && !std::ranges::all_of(next.actions, [&](const PipelineAction& a) { return is_ready(rank, a); }))
      return false;
    ++next_[rank];
    done_[rank].push_back(next);
    if (!acts) return true;
    for (const PipelineAction& a : next.actions) {
      const std::int64_t stage = numbers_[rank][index(a.stage)];
      if (a.kind == Does::forward && stage + 1 < strategy_.stages())
        hand_on(rank, stage + 1, a, Does::receive, Listed::Turn::send);
      if (sends_gradient(a.kind) && stage > 0)
        hand_on(rank, stage - 1, a, Does::receive_gradient, Listed::Turn::send_gradient);
    }
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
    done_[rank].push_back({{a}, turn});
    done_[to].push_back({{{kind, own, a.micro_batch}}});
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
  for (const Listed& l : list)
    for (const PipelineAction& a : l.actions) {
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

Actions looped_actions(const Strategy& strategy, std::int64_t micro_batches) {
  std::vector<std::vector<Listed>> lists;
  for (std::int64_t rank = 0; rank < strategy.pipeline; ++rank)
    lists.push_back(with_shards(looped_order(strategy, rank, micro_batches), micro_batches));
  lists = Sender(strategy, std::move(lists)).run();
  return with_waits(lists[index(strategy.pipelining.stage)], strategy);
}

}  // namespace gpuplan
