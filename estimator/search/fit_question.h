// What `gpuplan fit` asks, as values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/distributed/strategy.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

struct FitQuestion {
  RunConfig run;                       // but for its batch
  std::optional<std::int64_t> batch;   // of the whole step, which has to fit; nothing: any
  std::int64_t most = 1'000'000'000;   // samples of a batch
  double margin = 0;                   // part of what a GPU has that is to stay free
  std::optional<double> most_usd;      // an hour of all instances together
  bool spot = false;                   // at the price of preemptible instances
  std::vector<std::string> providers;  // none: all
  std::string region;                  // "": all
  std::optional<double> samples;       // of an epoch
  double epochs = 1;

  std::vector<std::int64_t> gpus = {1};  // that share a step, a row each; none: as many as instances have
  bool one_alone = true;                 // one GPU has a plain step; else what `kinds` do with one process
  bool uses_idle = false;                // a row besides for GPUs that would be rented and idle
  std::vector<DataParallel> kinds;       // how several do, a row each; none: DDP, and FSDP2 where that does not fit
  Strategy strategy;                     // all else of it
  std::optional<double> network_gbps;    // of a node, in one direction; nothing: as instances say
};

}  // namespace gpuplan
