#include "estimator/distributed/joined_stages.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/graph/joined_graph.h"
#include "estimator/schedule/joined_schedules.h"

namespace gpuplan {
namespace {

constexpr std::int32_t kStreams = 3;  // that FSDP2 makes for each root (FSDPCommContext.lazy_init)

class CollectiveJoiner {
 public:
  void append(const CollectiveMemory& stage, const JoinedPart& part, std::size_t model_storage) {
    events_ = size_of_vector(joined_.events);
    append_events(stage, part);
    for (const CollectivePoint& p : stage.construction)
      joined_.construction.push_back({p.phase, p.step + static_cast<std::int32_t>(model_storage), moved(p.events)});
    append_points(stage.rounds.front(), part);
    for (const CollectiveMemory::StageEvents& s : stage.stages)
      joined_.stages.push_back({moved(s.unshard), moved(s.copy_out), moved(s.reshard), moved(s.reduce)});
    zero_grad_.push_back(moved(stage.zero_grad));
    joined_.slots += stage.slots;
    ++appended_;
  }

  // What ends with the step of all stages is one after the other.
  CollectiveMemory take() {
    const std::size_t begin = joined_.events.size();
    for (const Range r : zero_grad_)
      for (std::int32_t i = r.begin; i < r.end; ++i)
        joined_.events.push_back(CollectiveEvent(joined_.events[index(i)]));
    joined_.zero_grad = joined_.since(begin);
    return std::move(joined_);
  }

 private:
  Range moved(Range r) const { return {r.begin + events_, r.end + events_}; }

  void append_events(const CollectiveMemory& stage, const JoinedPart& part) {
    using Kind = CollectiveEvent::Kind;
    for (CollectiveEvent e : stage.events) {
      const bool of_buffer = e.kind == Kind::free_buffer || e.kind == Kind::free_buffer_later;
      e.slot = of_buffer ? part.buffer(e.slot) : e.slot + joined_.slots;
      if (e.stream > 0) e.stream += appended_ * kStreams;
      joined_.events.push_back(e);
    }
  }

  // Those of a kind of micro-batch are of one schedule each, those of the inference of the second one.
  void append_points(const MicroBatchPoints& points, const JoinedPart& part) {
    if (appended_ > 0) joined_.rounds.emplace_back();
    for (std::size_t kind = 0; kind < kMicroBatchKinds; ++kind) {
      const bool first = kind == static_cast<std::size_t>(MicroBatch::first),
                 infers = kind == static_cast<std::size_t>(MicroBatch::inferring);
      const auto& steps = part.steps[first ? 0 : infers ? kInferringSchedule : part.steps.size() - 1];
      for (const CollectivePoint& p : points[kind])
        joined_.rounds.back()[kind].push_back(
            {p.phase, p.step + steps[static_cast<std::size_t>(p.phase)], moved(p.events)});
    }
  }

  CollectiveMemory joined_;
  std::vector<Range> zero_grad_;
  std::int32_t events_ = 0, appended_ = 0;
};

void append_units(std::vector<FsdpUnit>& units, const std::vector<FsdpUnit>& more, const JoinedPart& part) {
  const std::size_t before = units.size();
  const auto& steps = part.steps.back();
  const auto move = [](Range r, std::int32_t by) { return Range{r.begin + by, r.end + by}; };
  for (FsdpUnit unit : more) {
    for (std::int32_t& p : unit.parameters) p += part.parameters;
    unit.forward = move(unit.forward, steps[static_cast<std::size_t>(Phase::forward)]);
    unit.backward = move(unit.backward, steps[static_cast<std::size_t>(Phase::backward)]);
    if (unit.within > 0) unit.within += before;
    units.push_back(std::move(unit));
  }
}

void take_alone(RankStep& rank, RankStep stage) {
  rank.graph = std::move(stage.graph);
  rank.micro_batches = std::move(stage.micro_batches);
  rank.inferring = std::move(stage.inferring);
  rank.split = std::move(stage.split);
  rank.collectives = std::move(stage.collectives);
  rank.units = std::move(stage.units);
  rank.stages = std::move(stage.stages);
}

}  // namespace

RankStep joined_stages(RankStep rank, std::vector<RankStep> stages) {
  if (stages.size() == 1) {
    // Schedules point into the vectors of the graph, which stay where they are.
    take_alone(rank, std::move(stages.front()));
    return rank;
  }
  std::vector<PartToJoin> parts;
  for (const RankStep& s : stages) parts.push_back({&s.graph, &s.micro_batches});
  JoinedSchedules joined = joined_schedules(parts);
  CollectiveJoiner collectives;
  for (std::size_t k = 0; k < stages.size(); ++k) {
    const RankStep& stage = stages[k];
    collectives.append(*stage.collectives, joined.parts[k], rank.graph.model_storage.size());
    if (k == 0)
      rank.graph = stage.graph;
    else
      append_graph(rank.graph, stage.graph);
    append_units(rank.units, stage.units, joined.parts[k]);
    rank.stages.push_back(moved_stage(stage.stages.front(), joined.parts[k]));
  }
  rank.micro_batches = std::move(joined.schedules);
  rank.collectives = collectives.take();
  rank.joined = std::move(stages);
  return rank;
}

}  // namespace gpuplan
