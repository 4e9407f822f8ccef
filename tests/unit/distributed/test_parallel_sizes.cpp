// What ranks keep, by the definitions: torch.chunk, the reducer's buckets, ZeRO's paper, pipeline schedules.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "estimator/base/error.h"
#include "estimator/distributed/collectives.h"
#include "estimator/distributed/ddp_buckets.h"
#include "estimator/distributed/nccl_buffers.h"
#include "estimator/distributed/pipeline.h"
#include "estimator/distributed/shard_sizes.h"
#include "estimator/distributed/zero_states.h"
#include "tools/options/run_options.h"

namespace gpuplan {
namespace {

Strategy strategy(DataParallel data, std::int64_t gpus, std::int64_t rank = 0) {
  Strategy s;
  s.data = data;
  s.gpus = gpus;
  s.rank = rank;
  return s;
}

}  // namespace

TEST_CASE("rows are shared as torch.chunk does") {
  // torch.chunk(torch.empty(515), 4): sizes 129, 129, 129, 128; of 3 rows in 8 chunks: 1, 1, 1, and none after that.
  CHECK(padded_rows(515, 4) == 129);
  CHECK(rows_of_rank(515, 4, 2) == 129);
  CHECK(rows_of_rank(515, 4, 3) == 128);
  CHECK(rows_of_rank(3, 8, 2) == 1);
  CHECK(rows_of_rank(3, 8, 3) == 0);
  CHECK(shard_of(Shape{515, 784}, 4, 3) == Shape{128, 784});
  CHECK(padded_shard_elements(Shape{515, 784}, 4) == 129 * 784);
  // 10 rows in 8 chunks are ceil(10 / 8) = 2 each: five ranks have some.
  CHECK(rows_of_rank(10, 8, 4) == 2);
  CHECK(rows_of_rank(10, 8, 5) == 0);
}

TEST_CASE("ZeroRedundancyOptimizer gives the largest parameter to the emptiest rank") {
  // In turn 7 -> rank 0, 5 -> 1, 4 -> 1 (5 < 7), 3 -> 0 (7 < 9), 2 -> 1 (9 < 10), 1 -> 0 (10 < 11).
  const std::vector<std::int64_t> sizes = {1, 2, 3, 4, 5, 7};
  CHECK(parameters_of_rank(sizes, 2, 0) == std::vector<std::int32_t>{5, 2, 0});
  CHECK(parameters_of_rank(sizes, 2, 1) == std::vector<std::int32_t>{4, 3, 1});
}

TEST_CASE("buckets are closed once they reach their limit") {
  // Limits 1 MiB = 1,048,576 B, then 25 MiB = 26,214,400 B. 1,000,000 B stay below the first and 400,000 more close it;
  // 20,000,000 + 8,000,000 reach the second; what is left is the last bucket.
  const std::vector<GradientSize> gradients = {{250'000, DType::fp32},
                                               {100'000, DType::fp32},
                                               {5'000'000, DType::fp32},
                                               {2'000'000, DType::fp32},
                                               {1'000, DType::fp32}};
  const auto bytes_of = [](std::span<const GradientSize> sizes, std::int64_t cap) {
    std::vector<std::int64_t> bytes;
    for (const DdpBucket& b : ddp_buckets(sizes, kFirstBucketBytes, cap)) bytes.push_back(b.bytes);
    return bytes;
  };
  CHECK(bytes_of(gradients, std::int64_t{25} << 20) == std::vector<std::int64_t>{1'400'000, 28'000'000, 4'000});
  CHECK_EQ(ddp_buckets(gradients, kFirstBucketBytes, std::int64_t{25} << 20)[1].last, 3);
  // Types are never in one bucket.
  const std::vector<GradientSize> mixed = {{10, DType::fp32}, {10, DType::bf16}, {10, DType::fp32}};
  CHECK(bytes_of(mixed, kFirstBucketBytes) == std::vector<std::int64_t>{80, 20});
}

TEST_CASE("ZeRO's stages take what the paper's figure 1 says") {
  // arXiv:1910.02054, figure 1: 7.5 billion parameters, 64 GPUs, K = 12: 120 GB, 31.4, 16.6 and 1.9 GB.
  const std::vector<Shape> model(64, Shape{117'187'500});
  constexpr std::int64_t kPsi = 7'500'000'000;
  const auto total = [&](DataParallel d) { return state_bytes(model, {}, strategy(d, 64)).total(); };
  CHECK(total(DataParallel::ddp) == 16 * kPsi);
  CHECK(total(DataParallel::zero1) == 4 * kPsi + 12 * kPsi / 64);
  // 117,187,500 is even and 7.5e9 a multiple of 2 * 64, and each parameter lacks 20 elements of a multiple of 64.
  CHECK(total(DataParallel::zero2) == 2 * kPsi + 14 * kPsi / 64);
  CHECK(total(DataParallel::zero3) == 16 * 64 * ((117'187'500 + 63) / 64));
  CHECK(static_cast<double>(total(DataParallel::zero1)) / 1e9 == doctest::Approx(31.4).epsilon(0.002));
  CHECK(static_cast<double>(total(DataParallel::zero2)) / 1e9 == doctest::Approx(16.6).epsilon(0.003));
  CHECK(static_cast<double>(total(DataParallel::zero3)) / 1e9 == doctest::Approx(1.9).epsilon(0.02));
}

TEST_CASE("states that are shared are padded as their programs pad") {
  const std::vector<Shape> model = {Shape{515, 784}, Shape{515}, Shape{3}};  // 403,760 + 515 + 3 = 404,278 elements
  const StateSizes fp32{4, 4, 8};
  // Stage 2: up to a multiple of 2 * 4 elements, 404,280; a quarter of them is 101,070.
  CHECK(state_bytes(model, fp32, strategy(DataParallel::zero2, 4)) ==
        StateBytes{404'278 * 4, 101'070 * 4, 101'070 * 8});
  // Stage 3: each alone: 100,940 + 129 + 1.
  CHECK(state_bytes(model, fp32, strategy(DataParallel::zero3, 4)) ==
        StateBytes{101'070 * 4, 101'070 * 4, 101'070 * 8});
  // FSDP2: 129 rows of 784, 129 and 1; the last rank has 128, 128 and no row of them.
  const std::int64_t padded = 129 * 784 + 129 + 1;
  CHECK(state_bytes(model, fp32, strategy(DataParallel::fsdp, 4, 3)) ==
        StateBytes{padded * 4, padded * 4, (128 * 784 + 128) * 8});
}

TEST_CASE("FSDP2's and ZeRO's states are those that PyTorch reported") {
  // The model of recorders/several_gpus.py called uneven, under Adam.
  const std::vector<Shape> uneven = {Shape{515, 784}, Shape{515}, Shape{250, 515}, Shape{250}, Shape{3, 250}, Shape{3}};
  std::ifstream file(GPUPLAN_SOURCE_DIR "/tests/parallel/recorded.jsonl");
  std::string line;
  int runs = 0;
  while (std::getline(file, line)) {
    const nlohmann::json r = nlohmann::json::parse(line);
    const std::string kind = r.at("kind");
    if (r.at("model") != "uneven" || kind.starts_with("ddp") || kind.starts_with("deepspeed") ||
        kind.starts_with("fsdp1") || kind.find("offload") != kind.npos)
      continue;
    Strategy s = strategy(kind == "zero1" ? DataParallel::zero1 : DataParallel::fsdp, r.at("world"), r.at("rank"));
    if (kind.find("hsdp2") != kind.npos) s.replicas = 2;
    CHECK(state_bytes(uneven, {4, 4, 8}, s).optimizer_state == r.at("optimizer_state").get<std::int64_t>());
    ++runs;
  }
  CHECK(runs == 34);  // of FSDP2, with policies, replicas and micro-batches, and of ZeRO-1
}

TEST_CASE("1F1B holds as many micro-batches as stages follow") {
  for (const std::int64_t stage : {0, 1, 2, 3}) CHECK(micro_batches_in_flight(stage, 4, 8) == 4 - stage);
  CHECK(micro_batches_in_flight(0, 4, 2) == 2);
  // Equal stages: m + p - 1 of them one after another.
  CHECK(pipeline_seconds(std::vector<double>{2, 2, 2, 2}, 8) == doctest::Approx(2 * (8 + 3)));
  // One slow stage sets the pace: 1 + 3 + 1, then seven more times 3.
  CHECK(pipeline_seconds(std::vector<double>{1, 3, 1}, 8) == doctest::Approx(5 + 21));
}

TEST_CASE("rings move 2 (n - 1) / n of an all-reduce") {
  const Link link{100e9, 1e-6};
  // 1 GB among 4: 1.5 GB through each link in 6 hops; half of both for either half of it.
  CHECK(ring_bytes(Collective::all_reduce, 1e9, 4) == doctest::Approx(1.5e9));
  CHECK(ring_seconds(Collective::all_reduce, 1e9, 4, link) == doctest::Approx(0.015 + 6e-6));
  CHECK(ring_seconds(Collective::reduce_scatter, 1e9, 4, link) == doctest::Approx(0.0075 + 3e-6));
  CHECK(ring_seconds(Collective::all_gather, 1e9, 4, link) == doctest::Approx(0.0075 + 3e-6));
  CHECK(ring_seconds(Collective::send, 1e9, 2, link) == doctest::Approx(0.010 + 1e-6));
  CHECK(ring_seconds(Collective::all_reduce, 1e9, 1, link) == 0);
}

TEST_CASE("a ring is as wide as its narrowest link, and an unknown one gives no answer") {
  Topology nodes;
  nodes.within_node = Link{300e9, 0};
  CHECK(link_of_group(nodes, 8)->bytes_per_second == 300e9);
  CHECK(!link_of_group(nodes, 16));
  nodes.between_nodes = Link{200e9, 0};
  // All eight of each node are in the ring: the node's network carries it. With one of each node there are eight rings.
  CHECK(link_of_group(nodes, 16)->bytes_per_second == 200e9);
  CHECK(link_of_group(nodes, 2, 8)->bytes_per_second == 25e9);
  Gpu none;
  CHECK(!link_within_node(none, 8));
}

TEST_CASE("links are as fast as NCCL's rings, and calls wait for each hop") {
  const auto rate = [](const char* gpu, std::int64_t gpus) {
    return link_within_node(*gpu_called(gpu), gpus)->bytes_per_second / 1e9;
  };
  // github.com/NVIDIA/nccl-tests/issues/212, by its maintainer: 370 GB/s of eight H100s' 450 without the switch's sums.
  CHECK(rate("h100", 8) == doctest::Approx(370).epsilon(0.01));
  // FlagPerf's all-reduce of eight A100s: 467.87 GB/s in both directions
  // (base/benchmarks/interconnect-MPI_intraserver).
  CHECK(rate("a100-40gb", 8) == doctest::Approx(467.87 / 2).epsilon(0.03));
  CHECK_EQ(rate("a100-pcie-80gb", 2), doctest::Approx(240));  // over a bridge
  CHECK_EQ(rate("a100-pcie-80gb", 4), doctest::Approx(24));   // of which there is one a pair
  CHECK_EQ(rate("t4", 4), doctest::Approx(12));
  const Link a100 = *link_within_node(*gpu_called("a100-80gb"), 8);
  // 8 bytes: LL, 6.6 us and 14 hops of 0.6.
  CHECK(ring_seconds(Collective::all_reduce, 8, 8, a100) == doctest::Approx(15e-6).epsilon(1e-3));
  // 1 GB: Simple, whose 56 us are nothing beside the 7.3 ms of 1.75 GB.
  CHECK(ring_seconds(Collective::all_reduce, 1e9, 8, a100) == doctest::Approx(1.75 / 240 + 56e-6));
  // 1 MB each: LL, which carries 87.7 GB/s at most.
  CHECK(ring_seconds(Collective::all_reduce, 1e9, 8, a100, 1000) == doctest::Approx(1000 * (15e-6 + 1.75e6 / 87.7e9)));
  Topology nodes;
  nodes.within_node = a100;
  nodes.between_nodes = network_link(1600);
  const Link far = *link_of_group(nodes, 16);
  CHECK_EQ(far.nodes, 2);
  // 30 hops, of which two are the network's, as ncclTopoTuneModel counts them since 2.23.
  CHECK(ring_seconds(Collective::all_reduce, 8, 16, far) ==
        doctest::Approx((6.6 + 28 * 0.6 + 2 * 2.7) * 1e-6).epsilon(1e-3));
  // With one rank a node, the Tree's 5 us.
  CHECK(ring_seconds(Collective::all_reduce, 8, 2, *link_of_group(nodes, 2, 8)) ==
        doctest::Approx((6.6 + 2 * 5.0) * 1e-6).epsilon(1e-3));
  // LL carries 39 GB/s between two Intel nodes and 20.4 between more: 1 MB each, where it is the fastest.
  CHECK_EQ(far.most_of_ll, 39e9);
  CHECK_EQ(link_of_group(nodes, 24)->most_of_ll, 20.4e9);
}

TEST_CASE("a rate that is given within a node has no latency there, and keeps the network's") {
  Topology nodes;
  nodes.within_node = Link{370e9, 0};
  nodes.between_nodes = network_link(3200);
  const Link far = *link_of_group(nodes, 16);
  CHECK(ring_seconds(Collective::all_reduce, 8, 16, far) == doctest::Approx((6.6 + 2 * 2.7) * 1e-6).epsilon(1e-3));
  // 1 GB: Simple, whose 36.4 us are fewer than those of NVLink's 28 hops more.
  const double given = ring_seconds(Collective::all_reduce, 1e9, 16, far);
  CHECK(given == doctest::Approx(1.875 / 370 + 36.4e-6));
  nodes.within_node = link_within_node(*gpu_called("h100"), 8);
  CHECK(ring_seconds(Collective::all_reduce, 1e9, 16, *link_of_group(nodes, 16)) ==
        doctest::Approx(given + 28 * 3.4e-6).epsilon(0.01));
}

TEST_CASE("LL's most and LL128 are those of the GPU's generation") {
  const auto link = [](const char* gpu) { return *link_within_node(*gpu_called(gpu), 8); };
  CHECK_EQ(link("v100-sxm2-32gb").most_of_ll, 39e9);
  CHECK_EQ(link("h100").most_of_ll, 141e9);
  CHECK_EQ(link("b200").most_of_ll, 282e9);
  CHECK(link("v100-sxm2-32gb").has_ll128);
  CHECK(!link("p100-sxm2").has_ll128);
}

TEST_CASE("a bridge joins two neighbours of a node of PCIe cards, for time and for memory") {
  const Gpu card = *gpu_called("a100-pcie-80gb");
  Topology node;
  node.within_node = link_within_node(card, 8);
  node.within_pair = link_within_pair(card);
  CHECK_EQ(link_of_group(node, 2)->bytes_per_second, doctest::Approx(240e9));
  CHECK_EQ(link_of_group(node, 2, 4)->bytes_per_second, doctest::Approx(24e9));
  CHECK_EQ(link_of_group(node, 4)->bytes_per_second, doctest::Approx(24e9));
  CHECK(!link_within_pair(*gpu_called("a100-80gb")));
  const auto buffers = [&](std::int64_t stride) {
    return nccl_buffers({.ranks = 2, .local_ranks = 2, .stride = stride}, card, nccl_of(215)).planned;
  };
  CHECK_EQ(buffers(1), std::int64_t{24} * 12 << 20);  // of 24 channels
  CHECK_EQ(buffers(4), std::int64_t{4} * 12 << 20);   // of PCIe 4.0's four
}

}  // namespace gpuplan
