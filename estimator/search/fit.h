// Which GPUs a run fits, up to which batch, and what renting them costs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/distributed/collectives.h"
#include "estimator/graph/layer.h"
#include "estimator/market/instance.h"
#include "estimator/search/fit_question.h"
#include "estimator/search/largest_batch.h"
#include "estimator/spec/model.h"

namespace gpuplan {

/// How long a step takes.
struct StepThroughput {
  double seconds = 0;
  double alone_seconds = 0;  // of a GPU that has nothing to send
};
/// Of a step, on GPUs that are connected so; nothing where it is not known.
using ThroughputOn = std::function<std::optional<StepThroughput>(const Topology& topology)>;
/// Of that run, whose batch is the whole step's, on GPUs that share it.
using ThroughputOf = std::function<ThroughputOn(const RunConfig& run, const Gpu& gpu, const Strategy& strategy)>;

/// What there is to say of some GPUs of a kind. A batch is the whole step's, of all of them: a multiple of the GPUs
/// times the run's micro-batches. Bytes are those of one GPU.
struct FitRow {
  Gpu gpu;
  Strategy strategy;  // Strategy::gpus of them; DataParallel::none of one alone
  std::int64_t usable_bytes = 0;
  std::int64_t limit_bytes = 0;        // what may be taken of it
  std::string refused;                 // why the run is none for this GPU; then there is nothing below but an instance
  std::int64_t asked_bytes = 0;        // what the batch asked for needs; 0: none was, or it cannot be run
  bool fits = false;                   // the batch asked for, or any
  FittingBatch largest;                // see largest_batch.h: one sample more does not fit
  FittingBatch again;                  // the largest of kAskedAgain batches beyond it that fits, where one does
  FittingBatch power_of_two;           // samples of a micro-batch of one GPU are one
  std::optional<Instance> instance;    // the cheapest with so many of them that the question allows
  std::int64_t instances = 1;          // how many of it, each rented whole
  std::optional<double> usd;           // an hour of all
  std::optional<double> step_seconds;  // of the batch asked for, or of the largest
  std::optional<double> efficiency;    // of several: a GPU's speed over that of one that sends nothing
  bool pareto = false;  // no other row that may be chosen is as fast a sample and as cheap, and better in one

  /// GPUs that are paid for and not used.
  std::int64_t idle_gpus() const {
    return instance ? instances * static_cast<std::int64_t>(instance->gpu_count) - strategy.gpus : 0;
  }
};

/// So many batches beyond the first that does not fit are asked whether they do, unless their tensors alone are too
/// large; of several GPUs that share a step, kAskedOfSeveral. None where that is too much to plan for all rows
/// (work.h).
constexpr std::int64_t kAskedAgain = 128, kAskedOfSeveral = 16;

/// What the question's margin leaves of a GPU's memory.
std::int64_t limit_bytes(const Gpu& gpu, const FitQuestion& question);

/// The batch to take on a row's GPUs: the one asked for, or the largest.
std::int64_t batch_of(const FitRow& row, const FitQuestion& question);
/// Of that batch, all GPUs together; nothing where its time is not known.
std::optional<double> samples_per_second(const FitRow& row, const FitQuestion& question);
/// US dollars that a million samples cost; nothing where their time or the price is not known.
std::optional<double> usd_per_million(const FitRow& row, const FitQuestion& question);

/// Seconds of an epoch of so many samples; nothing where the question has none or the time is not known.
std::optional<double> epoch_seconds(const FitRow& row, const FitQuestion& question);
/// US dollars that the row's instances cost for so long; nothing where their price is not known.
std::optional<double> usd_for(const FitRow& row, std::optional<double> seconds);

struct Fit {
  std::vector<FitRow> rows;  // of each GPU, in the order given, those of FitQuestion::gpus and kinds
  std::optional<std::size_t>
      chosen;       // the row to take: fits, and costs least a sample, or an hour where times are not known
  std::string why;  // "the cheapest that fits"
};

/// Plans each row on `threads` threads. `instances`: what is rented. Throws Error where the run is refused whatever the
/// batch and the GPU, its batch is not shared in equal parts by any of FitQuestion::gpus, or the model is too large to
/// be planned so often (work.h).
Fit find_fit(const Model& model, Catalog catalog, const FitQuestion& question, std::span<const Gpu> gpus,
             std::span<const Instance> instances, std::size_t threads, const ThroughputOf& throughput = {});

}  // namespace gpuplan
