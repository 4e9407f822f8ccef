#include "tools/answers/offered_places.h"

#include <algorithm>
#include <utility>

#include "estimator/base/number_text.h"
#include "estimator/distributed/collectives.h"
#include "estimator/report/rent_job.h"

namespace gpuplan {
namespace {

// The cheapest; several instances are joined by a network that is known.
std::optional<Offer> offer_of(const std::vector<Instance>& rented, std::int64_t gpus, const FitQuestion& question) {
  std::vector<Instance> joinable = rented;
  const bool together =
      std::ranges::any_of(rented, [&](const Instance& i) { return static_cast<std::int64_t>(i.gpu_count) == gpus; });
  std::erase_if(joinable, [&](const Instance& i) {
    const auto whole = static_cast<std::int64_t>(i.gpu_count);
    return together ? whole != gpus : gpus % whole != 0 || whole == 1 || (!question.network_gbps && !i.network_gbps);
  });
  const std::vector<Offer> offers = offers_of(joinable, gpus, question);
  if (offers.empty() || (question.most_usd && offers.front().usd > *question.most_usd)) return std::nullopt;
  return offers.front();
}

std::vector<std::int64_t> counts_of(const std::vector<Instance>& rented, const FitQuestion& question) {
  if (!question.gpus.empty()) return question.gpus;
  std::vector<std::int64_t> counts = counts_offered(rented);
  for (std::int64_t joined = 2 * counts.back(); counts.back() > 1 && joined <= kMostJoined; joined *= 2)
    counts.push_back(joined);
  return counts;
}

OfferedPlace place_of(const OfferedQuestion& question, std::size_t kind, std::int64_t gpus,
                      std::optional<Offer> offer) {
  OfferedPlace place;
  place.kind = kind;
  place.gpus = gpus;
  place.mesh = {question.run, question.fsdp, question.checkpoints, question.micro_batches};
  place.mesh.run.gpu = question.names[kind];
  place.words = "--gpu " + shell_word(question.names[kind]);
  if (gpus > 1) {
    SeveralGpusOptions& several = place.mesh.several;
    several.gpus = std::to_string(gpus);
    place.words += " --gpus " + several.gpus;
    const std::int64_t node = offer ? static_cast<std::int64_t>(offer->instance.gpu_count) : 8;
    if (node != 8 && gpus > std::min<std::int64_t>(node, 8)) several.gpus_per_node = std::to_string(node);
    if (!several.gpus_per_node.empty()) place.words += " --gpus-per-node " + several.gpus_per_node;
    const Gpu& gpu = question.gpus[kind];
    const Topology offered = topology_of(gpu, offer ? &*offer : nullptr, question.market, gpus);
    const std::optional<Link>& link = offered.within_node;
    const std::optional<Link> assumed =
        link_within_node(gpu, std::min<std::int64_t>(gpus, several.gpus_per_node.empty() ? 8 : node));
    const bool unbridged = link_within_pair(gpu) && !offered.within_pair;
    if (node > 1 && link && (!assumed || unbridged || link->bytes_per_second != assumed->bytes_per_second))
      several.link = number_text(link->bytes_per_second / 1e9);
    if (!several.link.empty()) place.words += " --link " + several.link;
    std::optional<double> gbps = question.market.network_gbps;
    if (!gbps && offer) gbps = offer->instance.network_gbps;
    if (gbps && gpus > node) several.network = number_text(*gbps);
    if (!several.network.empty()) place.words += " --network " + several.network;
  } else {
    place.mesh.several = {};
  }
  place.offer = std::move(offer);
  return place;
}

}  // namespace

std::vector<OfferedPlace> offered_places(const OfferedQuestion& question, std::span<const Instance> instances) {
  std::vector<OfferedPlace> places;
  for (std::size_t kind = 0; kind < question.gpus.size(); ++kind) {
    const std::vector<Instance> rented = rentable(question.gpus[kind], question.market, instances);
    for (const std::int64_t gpus : counts_of(rented, question.market)) {
      std::optional<Offer> offer = offer_of(rented, gpus, question.market);
      if (offer || !question.market.gpus.empty()) places.push_back(place_of(question, kind, gpus, std::move(offer)));
    }
  }
  return places;
}

}  // namespace gpuplan
