// Which GPUs a run fits, up to which batch, and what renting one costs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/graph/layer.h"
#include "estimator/market/instance.h"
#include "estimator/run_config.h"
#include "estimator/search/largest_batch.h"
#include "estimator/spec/model.h"

namespace gpuplan {

/// Seconds of a step of that run on that GPU; nothing where they are not known.
using StepSeconds = std::function<std::optional<double>(const RunConfig& run, const Gpu& gpu)>;

struct FitQuestion {
  RunConfig run;                       // but for its batch
  std::optional<std::int64_t> batch;   // one that has to fit; nothing: any
  std::int64_t most = 1'000'000'000;   // samples of a batch
  std::optional<double> most_usd;      // an hour of the instance
  bool spot = false;                   // at the price of preemptible instances
  std::vector<std::string> providers;  // none: all
  std::string region;                  // "": all
  std::optional<double> samples;       // of an epoch
  double epochs = 1;
};

/// What there is to say of one kind of GPU. A batch is a multiple of the run's micro-batches.
struct FitRow {
  Gpu gpu;
  std::int64_t usable_bytes = 0;
  std::string refused;                 // why the run is none for this GPU; then there is nothing below but an instance
  std::int64_t asked_bytes = 0;        // what the batch asked for needs; 0: none was, or it cannot be run
  bool fits = false;                   // the batch asked for, or any
  FittingBatch largest;                // see largest_batch.h
  FittingBatch power_of_two;           // samples of a micro-batch are one
  std::optional<Instance> instance;    // the cheapest with such a GPU, whole, that the question allows
  std::optional<double> usd;           // an hour of it
  std::optional<double> step_seconds;  // of the batch asked for, or of the largest
  bool pareto = false;  // no other row that may be chosen is as fast a sample and as cheap, and better in one
};

/// The batch to take on a row's GPU: the one asked for, or the largest.
std::int64_t batch_of(const FitRow& row, const FitQuestion& question);
/// Of that batch; nothing where its time is not known.
std::optional<double> samples_per_second(const FitRow& row, const FitQuestion& question);
/// US dollars that a million samples cost; nothing where their time or the price is not known.
std::optional<double> usd_per_million(const FitRow& row, const FitQuestion& question);

/// Seconds of an epoch of so many samples; nothing where the question has none or the time is not known.
std::optional<double> epoch_seconds(const FitRow& row, const FitQuestion& question);
/// US dollars that an instance costs for so long; nothing where its price is not known.
std::optional<double> usd_for(const FitRow& row, std::optional<double> seconds);

struct Fit {
  std::vector<FitRow> rows;  // a GPU each, in the order given
  std::optional<std::size_t>
      chosen;       // the row to take: fits, and costs least a sample, or an hour where times are not known
  std::string why;  // "the cheapest that fits"
};

/// The instances with such a GPU, a whole one at least, that the question allows, cheapest first; those without a price
/// are none of them.
std::vector<Instance> rentable(const Gpu& gpu, const FitQuestion& question, std::span<const Instance> instances);
/// An hour of it: on demand, or of a preemptible one where the question is about those.
std::optional<double> price_of(const Instance& instance, const FitQuestion& question);

/// Plans each GPU on `threads` threads. `instances`: what is rented. Throws Error where the run is refused whatever the
/// batch and the GPU.
Fit find_fit(const Model& model, Catalog catalog, const FitQuestion& question, std::span<const Gpu> gpus,
             std::span<const Instance> instances, std::size_t threads, const StepSeconds& step_seconds = {});

}  // namespace gpuplan
