#include "estimator/time/transformer_time.h"

#include <algorithm>

#include "estimator/distributed/pipeline.h"
#include "estimator/distributed/stage_sends.h"
#include "estimator/time/layer_times.h"
#include "estimator/time/slowest_gpu.h"

namespace gpuplan {
namespace {

// Of one micro-batch.
struct StageTime {
  double products = 0, element_wise = 0, head = 0, host = 0, sends = 0;
  double seconds() const { return products + element_wise + head + host + sends; }
};

// The layers of a stage. `reduce`: seconds of one of the two all-reduces that a pass of a layer has.
StageTime layers_time(const Transformer& model, const TransformerRun& run, const GpuSpeed& gpu, double reduce) {
  const double layers = real(model.layers / run.pipeline);
  StageTime time;
  const auto add = [&](const PassSeconds& pass) {
    time.products += layers * pass.products;
    time.element_wise += layers * pass.element_wise;
    time.host += layers * std::max(0.0, pass.host - pass.products - pass.element_wise - 2 * reduce);
  };
  if (run.recompute == RecomputeMode::full) add(forward_of_layer(model, run, gpu, false));
  add(forward_of_layer(model, run, gpu));
  add(backward_of_layer(model, run, gpu));
  return time;
}

double reduce_seconds(const Transformer& model, const TransformerRun& run, const Topology& topology) {
  const std::optional<Link> link = link_of_group(topology, run.tensor);
  const double bytes = 2 * real(run.micro_batch) * real(model.sequence) * real(model.hidden);
  return run.tensor > 1 && link ? ring_seconds(Collective::all_reduce, bytes, run.tensor, *link) : 0;
}

// Nothing where a link is not known.
std::optional<std::vector<StageTime>> stage_times(const Transformer& model, const TransformerRun& run,
                                                  const GpuSpeed& gpu, const Topology& topology) {
  const StageTime layers = layers_time(model, run, gpu, reduce_seconds(model, run, topology));
  std::vector<StageTime> stages;
  for (std::int64_t stage = 0; stage < run.pipeline; ++stage) {
    const std::optional<double> sends = seconds_of(micro_batch_sends(model, run, stage, topology));
    if (!sends) return std::nullopt;
    stages.push_back(layers);
    stages.back().sends = *sends / real(run.micro_batches());
  }
  stages.back().head = head_seconds(model, run, gpu);
  return stages;
}

std::optional<TransformerTime> time_of(const Transformer& model, const TransformerRun& run, const GpuSpeed& gpu,
                                       const Topology& topology) {
  const auto stages = stage_times(model, run, gpu, topology);
  const std::optional<double> after = seconds_of(step_sends(model, run, 0, topology));
  if (!stages || !after) return std::nullopt;
  std::vector<double> seconds;
  for (const StageTime& stage : *stages) seconds.push_back(stage.seconds());
  TransformerTime time;
  for (std::size_t i = 0; i < seconds.size(); ++i)
    if (seconds[i] >= seconds[static_cast<std::size_t>(time.pace)]) time.pace = static_cast<std::int64_t>(i);
  const StageTime& slowest = (*stages)[static_cast<std::size_t>(time.pace)];
  const double times = real(run.micro_batches());
  time.products = times * slowest.products;
  time.element_wise = times * slowest.element_wise;
  time.head = times * slowest.head;
  time.host = times * slowest.host;
  time.sends = times * slowest.sends;
  const double running = pipeline_seconds(seconds, run.micro_batches());
  time.idle = running - times * slowest.seconds();
  time.after = *after;
  const double parameters = real(stage_parameters(model, run.tensor, run.pipeline, 0));
  time.optimizer = optimizer_seconds(run.shared_optimizer ? parameters / real(run.ranks()) : parameters, gpu);
  time.step = running + time.after + time.optimizer;
  time.teraflops_per_gpu = training_flops(model, run.batch, run.recompute) / (time.step * real(run.gpus)) / 1e12;
  return time;
}

}  // namespace

std::optional<TransformerTime> transformer_time(const Transformer& model, const TransformerRun& run,
                                                const GpuSpeed& gpu, const Topology& topology) {
  GpuSpeed slowest = gpu;
  const double slower = slowest_of(run.gpus, gpu.clock_spread);
  slowest.product = [&gpu, slower](double batch, double m, double n, double k) {
    return slower * gpu.product(batch, m, n, k);
  };
  std::optional<TransformerTime> time = time_of(model, run, slowest, topology);
  TransformerRun alone = run;
  alone.tensor = alone.pipeline = alone.gpus = 1;
  const std::optional<TransformerTime> one = time_of(model, alone, gpu, topology);
  if (!time || !one) return std::nullopt;
  time->gpus = run.gpus;
  time->slower = slower;
  time->alone_seconds = one->step;
  return time;
}

}  // namespace gpuplan
