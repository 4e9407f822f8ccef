// Which instances have so many GPUs of a kind, what renting them costs, and what connects the GPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/distributed/collectives.h"
#include "estimator/market/instance.h"
#include "estimator/search/fit_question.h"

namespace gpuplan {

/// Instances that are rented together, each whole.
struct Offer {
  Instance instance;
  std::int64_t count = 1;  // of them
  double usd = 0;          // an hour of all
  std::int64_t gpus() const { return count * static_cast<std::int64_t>(instance.gpu_count); }
};

/// An hour of it: on demand, or of a preemptible one where the question is about those.
std::optional<double> price_of(const Instance& instance, const FitQuestion& question);

/// The instances with such a GPU, a whole one at least, that the question allows, cheapest first; those without a price
/// are none of them. Where several are asked about, one sold by the GPU stands there with two, four and eight of them
/// too, at as many times its price.
std::vector<Instance> rentable(const Gpu& gpu, const FitQuestion& question, std::span<const Instance> instances);

/// The ways to rent `gpus` of them, of `rented`, what rentable() says. First the cheapest that keeps them together: one
/// instance where any has so many, else several of those that have most, where that is two at least. Then, where it is
/// cheaper or there is no other, several of any with a network that is known, also of GPUs sold one by one; --network's
/// only where there is no other. Which costs least a sample depends on the links (topology_of).
std::vector<Offer> offers_of(std::span<const Instance> rented, std::int64_t gpus, const FitQuestion& question);

/// How many GPUs those instances have, ascending, and 1.
std::vector<std::int64_t> counts_offered(std::span<const Instance> rented);

/// What connects `gpus` of an offer; without one, of a node of the user's own. An instance says whether NVLink does,
/// and how many PCIe lanes a GPU has where that was measured.
Topology topology_of(const Gpu& gpu, const Offer* offer, const FitQuestion& question, std::int64_t gpus);

}  // namespace gpuplan
