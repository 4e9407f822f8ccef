// What is offered to share a step: GPUs of one kind, so many of them, in one instance or in several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/market/instance.h"
#include "estimator/search/fit_question.h"
#include "estimator/search/offers.h"
#include "tools/answers/mesh_ways.h"

namespace gpuplan {

struct OfferedQuestion {
  RunOptions run;  // --batch is of all GPUs; --gpu is none
  std::vector<std::string> names;
  std::vector<Gpu> gpus;    // so called
  SeveralGpusOptions fsdp;  // --fsdp of all ways
  FitQuestion market;       // what may be rented; `gpus`: how many, none: any
  bool checkpoints = false, micro_batches = false;
};

struct OfferedPlace {
  std::size_t kind = 0;  // of OfferedQuestion::gpus
  std::int64_t gpus = 1;
  std::optional<Offer> offer;  // nothing: no instance has them
  MeshQuestion mesh;           // that is asked of them
  std::string words;           // "--gpu h100 --gpus 16 --network 3200"
};

/// Of any number those that instances have, and twice as many of the largest.
constexpr std::int64_t kMostJoined = 512;

/// The cheapest offer of each kind and number that the question allows. Several instances are joined where their
/// network is known.
std::vector<OfferedPlace> offered_places(const OfferedQuestion& question, std::span<const Instance> instances);

}  // namespace gpuplan
