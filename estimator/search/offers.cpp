#include "estimator/search/offers.h"

#include <algorithm>
#include <cmath>

#include "estimator/distributed/nccl_fabric.h"

namespace gpuplan {
namespace {

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

std::int64_t whole_gpus(const Instance& instance) { return static_cast<std::int64_t>(instance.gpu_count); }

// The cheapest of what is wanted, as many as it takes, where there is any.
void add_cheapest(std::vector<Offer>& offers, std::span<const Instance> rented, std::int64_t gpus,
                  const FitQuestion& question, const auto& wanted) {
  std::optional<Offer> cheapest;
  for (const Instance& i : rented) {
    if (!wanted(i)) continue;
    const std::int64_t count = (gpus + whole_gpus(i) - 1) / whole_gpus(i);
    const double usd = static_cast<double>(count) * *price_of(i, question);
    if (!cheapest || usd < cheapest->usd) cheapest = Offer{i, count, usd};
  }
  if (cheapest) offers.push_back(*std::move(cheapest));
}

// Of those that are sold by the GPU: pairs, fours and eights, and what the question names.
std::vector<std::int64_t> sizes_of(const Instance& instance, const FitQuestion& question) {
  std::vector<std::int64_t> sizes = question.gpus;
  if (sizes == std::vector<std::int64_t>{1}) return {};
  for (std::int64_t n = 2; n <= instance.most_gpus.value_or(1); n *= 2) sizes.push_back(n);
  std::erase_if(sizes, [&](std::int64_t n) { return n < 2 || n > instance.most_gpus.value_or(1); });
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

// The same with so many GPUs in one machine. SkyPilot's names begin with how many: "1x_H100-SXM_SECURE".
Instance with_gpus(Instance i, std::int64_t gpus) {
  i.gpu_count = static_cast<double>(gpus);
  for (std::optional<double>* value : {&i.vcpus, &i.host_memory_gib, &i.usd, &i.spot_usd})
    if (*value) **value *= static_cast<double>(gpus);
  if (i.name.starts_with("1x")) i.name.replace(0, 1, std::to_string(gpus));
  return i;
}

// What the GPU's own file says is taken as `gpuplan plan` takes it, another rate as --link says it.
std::optional<Link> pcie_link(const Gpu& gpu, const Instance& instance, std::int64_t gpus) {
  std::optional<double> rate = pcie_bytes_per_second(gpu);
  if (!rate) return std::nullopt;
  const std::optional<int> lanes = gpu.datasheet->pcie_lanes;
  if (instance.pcie_width && lanes && *lanes > 0) *rate *= std::min(1.0, 1.0 * *instance.pcie_width / *lanes);
  const std::optional<Link> own = link_within_node(gpu, gpus);
  return own && own->bytes_per_second == *rate ? *own : Link{*rate, 0};
}

}  // namespace

std::optional<double> price_of(const Instance& instance, const FitQuestion& question) {
  return question.spot ? instance.spot_usd : instance.usd;
}

// A share of a GPU has a share of its memory, and is none of these.
std::vector<Instance> rentable(const Gpu& gpu, const FitQuestion& question, std::span<const Instance> instances) {
  std::vector<Instance> list;
  for (const Instance& i : instances) {
    if (i.gpu != gpu.name || i.gpu_count < 1 || !price_of(i, question)) continue;
    if (!question.providers.empty() && !contains(question.providers, i.provider)) continue;
    if (!question.region.empty() && i.region != question.region) continue;
    list.push_back(i);
    for (const std::int64_t gpus : sizes_of(i, question)) list.push_back(with_gpus(i, gpus));
  }
  std::ranges::stable_sort(list, {}, [&](const Instance& i) { return *price_of(i, question); });
  return list;
}

std::vector<Offer> offers_of(std::span<const Instance> rented, std::int64_t gpus, const FitQuestion& question) {
  std::int64_t most = 0;
  for (const Instance& i : rented) most = std::max(most, whole_gpus(i));
  const std::int64_t together = std::min(gpus, most);
  std::vector<Offer> offers;
  if (together == gpus || together > 1)
    add_cheapest(offers, rented, gpus, question, [&](const Instance& i) { return whole_gpus(i) >= together; });
  // What --network says is of instances that have several, where there are any.
  const bool told = question.network_gbps && offers.empty();
  add_cheapest(offers, rented, gpus, question, [&](const Instance& i) {
    return whole_gpus(i) < gpus && (told || (i.network_gbps && !question.network_gbps));
  });
  if (offers.size() > 1 && offers[1].usd >= offers[0].usd) offers.pop_back();
  return offers;
}

std::vector<std::int64_t> counts_offered(std::span<const Instance> rented) {
  std::vector<std::int64_t> counts = {1};
  for (const Instance& i : rented) counts.push_back(whole_gpus(i));
  std::ranges::sort(counts);
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

Topology topology_of(const Gpu& gpu, const Offer* offer, const FitQuestion& question, std::int64_t gpus) {
  Topology t;
  t.gpus_per_node = offer != nullptr ? whole_gpus(offer->instance) : question.strategy.gpus_per_node;
  const std::int64_t together = std::min(gpus, t.gpus_per_node);
  const bool bridged = offer == nullptr || offer->instance.interconnect != "pcie";
  t.within_node = bridged ? link_within_node(gpu, together) : pcie_link(gpu, offer->instance, together);
  if (bridged) t.within_pair = link_within_pair(gpu);
  std::optional<double> gbps = question.network_gbps;
  if (!gbps && offer != nullptr) gbps = offer->instance.network_gbps;
  if (gbps) t.between_nodes = network_link(*gbps);
  return t;
}

}  // namespace gpuplan
