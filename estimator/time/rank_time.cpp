#include "estimator/time/rank_time.h"

#include <algorithm>
#include <numeric>

#include "estimator/base/integers.h"
#include "estimator/distributed/rank_share.h"
#include "estimator/optimizer/optimizer_work.h"
#include "estimator/time/measured_time.h"
#include "estimator/time/operation_time.h"
#include "estimator/time/queue.h"
#include "estimator/time/slowest_gpu.h"
#include "estimator/time/step_time.h"

namespace gpuplan {

namespace {

// One micro-batch: the host's calls, the GPU's operations and copies, the link.
class Timeline {
 public:
  Timeline(std::span<const CommunicationRow> rows, const Overlap& overlap, bool sends)
      : rows_(rows), overlap_(overlap), sends_(sends), done_(overlap.transfers.size()), waited_(rows.size()) {}

  // The GPU's end.
  double run() {
    for (std::size_t i = 0; i < overlap_.transfers.size(); ++i) {
      const Transfer& t = overlap_.transfers[i];
      operate_until(index(t.step));
      t.kind == Transfer::Kind::send ? send(t, done_[i]) : wait(t, done_[i]);
    }
    operate_until(overlap_.steps.size());
    return queue_.gpu();
  }

  const std::vector<double>& waited() const { return waited_; }

 private:
  void operate_until(std::size_t end) {
    for (; step_ < end; ++step_) launch(overlap_.steps[step_]);
  }

  void launch(const StepWork& work) { queue_.launch(work.call, work.run); }

  void copy(const Transfer& t) {
    for (std::int32_t i = 0; i < t.copies; ++i) launch(overlap_.copying(t.copied_bytes / t.copies));
  }

  std::size_t row_of(const Transfer& send) const {
    return index(std::ranges::find(rows_, send.row, &CommunicationRow::what) - rows_.begin());
  }

  void send(const Transfer& t, double& done) {
    copy(t);
    double begin = std::max(link_, queue_.host());
    if (t.after_operations) begin = std::max(begin, queue_.gpu());
    if (t.after_copy != kNone) begin = std::max(begin, done_[index(t.after_copy)]);
    const std::size_t row = row_of(t);
    const bool sent = sends_ && row < rows_.size() && rows_[row].bytes > 0;
    const double share = sent ? static_cast<double>(t.bytes) / static_cast<double>(rows_[row].bytes) : 0;
    done = link_ = begin + (sent ? *rows_[row].seconds * share : 0);
  }

  void wait(const Transfer& t, double& done) {
    const double there = done_[index(t.of)], ready = std::max(queue_.gpu(), queue_.host());
    const std::size_t row = row_of(overlap_.transfers[index(t.of)]);
    if (there > ready && row < rows_.size()) waited_[row] += there - ready;
    queue_.wait(there);
    copy(t);
    done = queue_.gpu();
  }

  std::span<const CommunicationRow> rows_;
  const Overlap& overlap_;
  bool sends_;
  Queue queue_;
  double link_ = 0;
  std::size_t step_ = 0;
  std::vector<double> done_;  // of each transfer: sent, or waited for and copied
  std::vector<double> waited_;
};

// While the GPU waits for the link the host runs ahead, so that waits may be more than the step is longer by.
void expose_transfers(std::span<const CommunicationRow> rows, const Overlap& overlap, double times, Exposed& exposed) {
  const Overlap nothing{{}, overlap.steps, {}};
  const double computing = Timeline(rows, nothing, false).run();
  const double copying = Timeline(rows, overlap, false).run();
  Timeline all(rows, overlap, true);
  const double longer = std::max(0.0, all.run() - copying);
  exposed.copy_seconds += times * std::max(0.0, copying - computing);
  const double waited = std::accumulate(all.waited().begin(), all.waited().end(), 0.0);
  if (waited <= 0) return;
  for (std::size_t i = 0; i < rows.size(); ++i) exposed.rows[i] += times * longer * all.waited()[i] / waited;
}

}  // namespace

Exposed exposed_seconds(std::span<const CommunicationRow> rows, const StepTime& time, const Overlap& overlap) {
  double forward = time.forward_seconds, backward = time.backward_seconds;
  Exposed exposed{std::vector<double>(rows.size()), 0};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const CommunicationRow& row = rows[i];
    if (std::ranges::any_of(overlap.transfers, [&](const Transfer& t) { return t.row == row.what; })) continue;
    const double seconds = row.seconds.value_or(0);
    exposed.rows[i] = seconds;
    if (row.copies > 0 && overlap.copying)
      exposed.copy_seconds += static_cast<double>(row.copies) * overlap.copying(row.copied_bytes / row.copies).run;
    if (!row.beside || row.bytes <= 0) continue;
    double& left = *row.beside == Phase::forward ? forward : backward;
    const double alone = seconds * static_cast<double>(row.alone_bytes) / static_cast<double>(row.bytes);
    const double hidden = std::clamp(seconds - alone, 0.0, left);
    left -= hidden;
    exposed.rows[i] -= hidden;
  }
  if (!overlap.transfers.empty()) expose_transfers(rows, overlap, 1, exposed);
  if (overlap.earlier_times > 0)
    expose_transfers(rows, {overlap.earlier, overlap.steps, overlap.copying},
                     static_cast<double>(overlap.earlier_times), exposed);
  return exposed;
}

RankTime rank_time(std::span<const CommunicationRow> rows, const StepTime& own, double alone_seconds,
                   const Overlap& overlap) {
  Exposed exposed = exposed_seconds(rows, own, overlap);
  RankTime time{own, std::move(exposed.rows), exposed.copy_seconds, alone_seconds};
  const double computing = own.seconds();
  time.step.communication_seconds = std::accumulate(time.exposed.begin(), time.exposed.end(), time.copy_seconds);
  if (computing > 0) time.step.flops_per_second *= computing / time.step.seconds();
  return time;
}

std::optional<RankTime> rank_time(const RankStep& step, std::span<const CommunicationRow> rows, HostCopy copy,
                                  const TimeModel& constants) {
  if (!std::ranges::all_of(rows, [](const CommunicationRow& row) { return row.seconds.has_value(); }))
    return std::nullopt;
  const Schedule& schedule = step.schedule();
  const SteppedShare share = stepped_by(step.graph, schedule, step.run, step.strategy);
  TimeModel slowest = constants;
  slowest.slower = slowest_of(step.strategy.gpus, constants.clock_spread);
  auto own = timed_step(step, step_update(share.graph, share.schedule, step.optimizer), copy, slowest);
  const OptimizerWork whole = optimizer_work(step.graph, schedule, step.run, step.gpu);
  const auto alone = timed_step(step, step_update(step.graph, schedule, whole), copy, constants);
  if (!own || !alone) return std::nullopt;
  const Processor on = make_processor(step.gpu, constants);
  const auto copying = [&](std::int64_t bytes) -> StepWork {
    const double moved = 2 * static_cast<double>(bytes);
    return {constants.host_backward, kernel_seconds(on) + moved / achieved_bandwidth(2 * bytes, on)};
  };
  const auto sent = [&](bool last) {
    return transfers(step.graph, step.micro_batches.schedules.back(), step.units, step.strategy, last);
  };
  Overlap overlap{sent(true), std::move(own->last_micro_batch), copying};
  if (step.strategy.data == DataParallel::fsdp && step.run.micro_batches > 1) {
    overlap.earlier = sent(false);
    overlap.earlier_times = step.run.micro_batches - 1;
  }
  RankTime time = rank_time(rows, own->time, alone->time.seconds(), overlap);
  time.slower = slowest.slower;
  return time;
}

}  // namespace gpuplan
