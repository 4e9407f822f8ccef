// Fits of several GPUs: which instances have them, what connects them, what a rank needs, margins and what to take.
#include <doctest/doctest.h>

#include <algorithm>

#include "estimator/plan/plan.h"
#include "estimator/report/fit_table.h"
#include "estimator/search/fit.h"
#include "estimator/search/offers.h"
#include "estimator/search/suggestions.h"
#include "estimator/search/throughput.h"
#include "layers/catalog.h"
#include "tests/support/model_time.h"
#include "tests/support/zoo_models.h"
#include "tools/options/run_options.h"

using namespace gpuplan;

namespace {

Gpu gpu_named(const std::string& name) { return *gpu_called(name); }

FitQuestion adam(std::vector<std::int64_t> gpus = {1}) {
  FitQuestion question;
  question.run.optimizer.kind = OptimizerKind::adam;
  question.gpus = std::move(gpus);
  return question;
}

Instance rented(const std::string& gpu, double count, double usd) {
  Instance i;
  i.provider = "x";
  i.name = gpu + "-" + std::to_string(static_cast<int>(count));
  i.gpu = gpu;
  i.gpu_count = count;
  i.usd = usd;
  i.price_date = "2026-11-01";
  return i;
}

Fit fit_of(const char* model, const FitQuestion& question, const std::string& gpu, const std::vector<Instance>& rented,
           std::size_t threads = 2, const ThroughputOf& throughput = {}) {
  const std::vector<Gpu> gpus = {gpu_named(gpu)};
  return find_fit(zoo_model(model), make_catalog(), question, gpus, rented, threads, throughput);
}

std::int64_t device_bytes(const char* model, RunConfig run, std::int64_t batch, const Strategy& strategy,
                          const Gpu& gpu) {
  run.batch = batch;
  return report_of(make_plan(zoo_model(model), make_catalog(), run, &gpu, strategy)).peak.device_bytes;
}

}  // namespace

TEST_CASE("an offer is one instance where any has so many GPUs, else several of the largest") {
  const std::vector<Instance> list = {rented("l4", 1, 1), rented("l4", 4, 6), rented("l4", 8, 8)};
  const FitQuestion question = adam();
  const auto offer = [&](std::int64_t gpus) { return std::optional(offers_of(list, gpus, question).front()); };
  CHECK_EQ(offer(1)->usd, 1);
  CHECK_EQ(offer(3)->usd, 6);  // the fourth is idle
  CHECK_EQ(offer(3)->gpus(), 4);
  CHECK_EQ(offer(8)->instance.name, "l4-8");
  CHECK_EQ(offer(16)->count, 2);
  CHECK_EQ(offer(16)->usd, 16);
  CHECK_EQ(offer(17)->count, 3);
  CHECK_EQ(offer(17)->gpus(), 24);
  CHECK_EQ(offers_of(list, 16, question).size(), 1);
  // GPUs sold one by one are connected by nothing that is known.
  CHECK(offers_of(std::span(list).first(1), 2, question).empty());
  CHECK(offers_of({}, 1, question).empty());
  CHECK_EQ(counts_offered(list), std::vector<std::int64_t>{1, 4, 8});
  CHECK_EQ(counts_offered({}), std::vector<std::int64_t>{1});
}

TEST_CASE("GPUs sold one by one are combined where their network is known, each at its price") {
  std::vector<Instance> list = {rented("l4", 1, 1), rented("l4", 4, 6)};
  FitQuestion question = adam();
  CHECK_EQ(offers_of(list, 4, question).size(), 1);
  list[0].network_gbps = 10;
  const std::vector<Offer> two = offers_of(list, 4, question);
  REQUIRE_EQ(two.size(), 2);
  CHECK_EQ(two[0].instance.name, "l4-4");
  CHECK_EQ(two[1].instance.name, "l4-1");
  CHECK_EQ(two[1].count, 4);
  CHECK_EQ(two[1].usd, 4);
  CHECK_EQ(two[1].gpus(), 4);
  // Each GPU is a node of its own, whose network is all that connects it.
  const Topology apart = topology_of(gpu_named("l4"), &two[1], question, 2);
  CHECK_EQ(link_of_group(apart, 4)->bytes_per_second, doctest::Approx(1.25e9));
  list[1].usd = 4;  // as cheap on one instance: there is no reason to
  CHECK_EQ(offers_of(list, 4, question).size(), 1);
  list[0].network_gbps.reset();
  question.network_gbps = 25;
  list[1].usd = 6;
  CHECK_EQ(offers_of(list, 2, question).front().usd, 6);
  CHECK_EQ(offers_of(std::span(list).first(1), 2, question).front().usd, 2);
}

TEST_CASE("what is sold by the GPU has as many in one machine as it says, each at its price") {
  Instance pod = rented("l4", 1, 2);
  pod.name = "1x_L4_SECURE";
  pod.vcpus = 6;
  pod.most_gpus = 8;
  FitQuestion question = adam({1});
  const Gpu l4 = gpu_named("l4");
  CHECK_EQ(rentable(l4, question, std::vector{pod}).size(), 1);
  question.gpus = {3};
  const std::vector<Instance> list = rentable(l4, question, std::vector{pod});
  REQUIRE_EQ(list.size(), 5);  // 1, 2, 3, 4 and 8
  CHECK_EQ(list[2].name, "3x_L4_SECURE");
  CHECK_EQ(list[2].gpu_count, 3);
  CHECK_EQ(*list[2].usd, 6);
  CHECK_EQ(*list[2].vcpus, 18);
  CHECK_EQ(counts_offered(list), std::vector<std::int64_t>{1, 2, 3, 4, 8});
  CHECK_EQ(offers_of(list, 3, question).front().count, 1);
  CHECK_EQ(offers_of(list, 3, question).front().usd, 6);
  question.gpus = {16};
  CHECK_EQ(offers_of(rentable(l4, question, std::vector{pod}), 16, question).front().count, 2);
}

TEST_CASE("a row rents what costs least a sample, together or apart") {
  FitQuestion question = adam({4});
  question.batch = 64;
  std::vector<Instance> list = {rented("l4", 1, 1), rented("l4", 4, 6)};
  list[0].network_gbps = 10;
  // Together a step takes 1 s; apart so many times as long.
  const auto chosen = [&](double slower) {
    const ThroughputOf throughput = [&](const RunConfig&, const Gpu&, const Strategy&) -> ThroughputOn {
      return [&](const Topology& t) { return StepThroughput{t.gpus_per_node == 1 ? slower : 1.0, 1.0}; };
    };
    return fit_of("resnet18", question, "l4", list, 1, throughput).rows.front();
  };
  CHECK_EQ(chosen(1.4).instances, 4);  // 4 * 1.4 < 6
  CHECK_EQ(*chosen(1.4).usd, 4);
  CHECK_EQ(*chosen(1.4).efficiency, doctest::Approx(1 / 1.4));
  CHECK_EQ(chosen(1.6).instances, 1);  // 4 * 1.6 > 6
  CHECK_EQ(*chosen(1.6).usd, 6);
}

TEST_CASE("what connects the GPUs of an instance is what it says") {
  const Gpu h100 = gpu_named("h100"), t4 = gpu_named("t4");
  const FitQuestion question = adam();
  // H100 SXM: 900 GB/s of NVLink in both directions; T4: PCIe 3.0 x16, of which an instance may wire eight lanes.
  Offer offer{rented("h100", 8, 20), 1, 20};
  CHECK_EQ(topology_of(h100, &offer, question, 8).within_node->bytes_per_second, doctest::Approx(370.8e9));
  CHECK_EQ(topology_of(h100, &offer, question, 8).gpus_per_node, 8);
  CHECK_FALSE(topology_of(h100, &offer, question, 8).between_nodes);
  offer.instance.interconnect = "pcie";
  CHECK_EQ(topology_of(h100, &offer, question, 8).within_node->bytes_per_second, doctest::Approx(48e9));
  offer = {rented("t4", 4, 4), 1, 4};
  offer.instance.interconnect = "pcie";
  offer.instance.pcie_width = 8;
  CHECK_EQ(topology_of(t4, &offer, question, 4).within_node->bytes_per_second, doctest::Approx(6e9));
  offer.instance.network_gbps = 100;
  CHECK_EQ(topology_of(t4, &offer, question, 4).between_nodes->bytes_per_second, doctest::Approx(12.5e9));
  FitQuestion told = question;
  told.network_gbps = 400;
  CHECK_EQ(topology_of(t4, &offer, told, 4).between_nodes->bytes_per_second, doctest::Approx(50e9));
  CHECK_EQ(topology_of(t4, nullptr, question, 4).gpus_per_node, 8);
}

TEST_CASE("each of several GPUs needs what a rank needs, and one sample more for each does not fit") {
  const Gpu gpu = gpu_named("t4");
  FitQuestion question = adam({2, 8});
  for (const DataParallel kind : {DataParallel::ddp, DataParallel::zero1, DataParallel::zero3, DataParallel::fsdp}) {
    question.kinds = {kind};
    for (const FitRow& row : fit_of("resnet18", question, "t4", {}).rows) {
      CHECK(row.fits);
      CHECK_EQ(row.strategy.data, kind);
      CHECK_EQ(row.largest.samples % row.strategy.gpus, 0);
      CHECK_EQ(row.largest.bytes, device_bytes("resnet18", question.run, row.largest.samples, row.strategy, gpu));
      CHECK_LE(row.largest.bytes, usable_bytes(gpu));
      CHECK_GT(device_bytes("resnet18", question.run, row.largest.samples + row.strategy.gpus, row.strategy, gpu),
               usable_bytes(gpu));
    }
  }
}

TEST_CASE("one GPU that is asked for is a process of DDP, as it is to plan --gpus 1") {
  const Gpu gpu = gpu_named("t4");
  FitQuestion question = adam({1, 2});
  const FitRow alone = fit_of("resnet18", question, "t4", {}).rows.front();
  CHECK_EQ(alone.strategy.data, DataParallel::none);
  CHECK_EQ(arguments_of(alone, question), "--batch " + std::to_string(alone.largest.samples) + " --gpu t4");
  question.one_alone = false;
  const FitRow row = fit_of("resnet18", question, "t4", {}).rows.front();
  CHECK_EQ(row.strategy.data, DataParallel::ddp);
  CHECK_EQ(row.largest.bytes, device_bytes("resnet18", question.run, row.largest.samples, row.strategy, gpu));
  CHECK_EQ(arguments_of(row, question), "--batch " + std::to_string(row.largest.samples) + " --gpu t4 --gpus 1");
  // Buckets hold all gradients a second time, 11,689,512 in fp32, which costs some samples.
  CHECK_LT(row.largest.samples, alone.largest.samples);
  question.kinds = {DataParallel::fsdp};
  CHECK_EQ(fit_of("resnet18", question, "t4", {}).rows.front().strategy.data, DataParallel::fsdp);
}

TEST_CASE("a batch is shared by all GPUs and their micro-batches in equal parts") {
  const Gpu gpu = gpu_named("t4");
  FitQuestion question = adam({1, 4});
  question.run.micro_batches = 2;
  question.batch = 400;
  const Fit fit = fit_of("resnet18", question, "t4", {});
  REQUIRE_EQ(fit.rows.size(), 2);
  CHECK_EQ(fit.rows[1].asked_bytes, device_bytes("resnet18", question.run, 400, fit.rows[1].strategy, gpu));
  CHECK_EQ(fit.rows[1].largest.samples % 8, 0);
  question.batch = 402;  // by 2, not by 8
  CHECK_EQ(fit_of("resnet18", question, "t4", {}).rows[1].asked_bytes, 0);
  question.gpus = {4};
  CHECK_THROWS_AS((void)fit_of("resnet18", question, "t4", {}), Error);
  // Of the numbers that instances have, those that share it.
  question.gpus = {};
  CHECK_EQ(fit_of("resnet18", question, "t4", {rented("t4", 4, 1), rented("t4", 1, 1)}).rows.size(), 1);
}

TEST_CASE("what DDP is too large for is asked of FSDP2, unless the question says how") {
  // 124,439,808 parameters take 16 bytes each under Adam: 1.85 GiB, and buckets of DDP 0.46 GiB more.
  Gpu small = gpu_named("t4");
  small.cuda_total_bytes = std::int64_t{3600} << 20;
  const Model model = zoo_model("gpt2");
  FitQuestion question = adam({1, 8});
  question.run.context_bytes = kAssumedContextBytes;  // NCCL's buffers in it
  question.run.loop = Loop::loss_only;
  Fit fit = find_fit(model, make_catalog(), question, {&small, 1}, {}, 2);
  REQUIRE_EQ(fit.rows.size(), 2);
  CHECK_FALSE(fit.rows[0].fits);
  CHECK(fit.rows[1].fits);
  CHECK_EQ(fit.rows[1].strategy.data, DataParallel::fsdp);
  question.kinds = {DataParallel::ddp};
  CHECK_FALSE(find_fit(model, make_catalog(), question, {&small, 1}, {}, 2).rows[1].fits);
  // A loop that FSDP2 is not planned with stays DDP's.
  question.kinds = {};
  question.run.layout = MemoryFormat::channels_last;
  fit = find_fit(model, make_catalog(), question, {&small, 1}, {}, 2);
  CHECK_FALSE(fit.rows[1].fits);
  CHECK_EQ(fit.rows[1].strategy.data, DataParallel::ddp);
}

TEST_CASE("an instance's price is shared by all GPUs that it is used with") {
  FitQuestion question = adam({1, 8});
  question.batch = 80;
  const ThroughputOf throughput = [](const RunConfig& run, const Gpu&, const Strategy& strategy) -> ThroughputOn {
    CHECK_EQ(run.batch, 80);
    return [gpus = strategy.gpus](const Topology& topology) {
      CHECK_EQ(topology.gpus_per_node, 8);
      return gpus == 1 ? StepThroughput{1, 1} : StepThroughput{0.16, 0.125};
    };
  };
  const Fit fit = fit_of("resnet18", question, "l4", {rented("l4", 8, 7.2)}, 1, throughput);
  CHECK_EQ(fit.rows[0].idle_gpus(), 7);
  CHECK_EQ(fit.rows[1].idle_gpus(), 0);
  CHECK_EQ(*fit.rows[0].usd, 7.2);
  CHECK_EQ(*fit.rows[1].usd, 7.2);
  // 80 samples a second cost 7.2 USD an hour: 0.002 a second, 25 a million. 500 a second: 4.
  CHECK_EQ(*usd_per_million(fit.rows[0], question), doctest::Approx(25));
  CHECK_EQ(*usd_per_million(fit.rows[1], question), doctest::Approx(4));
  CHECK_EQ(*fit.rows[1].efficiency, doctest::Approx(0.78125));
  CHECK_FALSE(fit.rows[0].efficiency);
  CHECK_EQ(*fit.chosen, 1);
  CHECK_EQ(arguments_of(fit.rows[1], question), "--batch 80 --gpu l4 --gpus 8");
}

TEST_CASE("beside a GPU of an instance that has more stands a row of all") {
  FitQuestion question = adam();
  question.uses_idle = true;
  const std::vector<Instance> instances = {rented("l4", 8, 7.2)};
  const Fit fit = fit_of("resnet18", question, "l4", instances);
  REQUIRE_EQ(fit.rows.size(), 2);
  CHECK_EQ(fit.rows[1].strategy.gpus, 8);
  CHECK_EQ(fit_of("resnet18", question, "l4", {rented("l4", 1, 1), rented("l4", 8, 7.2)}).rows.size(), 1);
  question.batch = 12;  // is not shared by 8
  CHECK_EQ(fit_of("resnet18", question, "l4", instances).rows.size(), 1);
  question.batch.reset();
  question.run.offload_optimizer = true;  // is not planned with several
  CHECK_EQ(fit_of("resnet18", question, "l4", instances).rows.size(), 1);
}

TEST_CASE("a margin stays free") {
  FitQuestion question = adam();
  const Gpu t4 = gpu_named("t4");
  CHECK_EQ(limit_bytes(t4, question), usable_bytes(t4));
  question.margin = 0.25;
  CHECK_EQ(limit_bytes(t4, question), usable_bytes(t4) / 4 * 3);
  const FitRow row = fit_of("resnet18", question, "t4", {}).rows.front();
  CHECK_LE(row.largest.bytes, limit_bytes(t4, question));
  question.margin = 0;
  question.batch = row.largest.samples + 1;
  CHECK_GT(fit_of("resnet18", question, "t4", {}).rows.front().asked_bytes, row.limit_bytes);
}

TEST_CASE("a step of several takes what one does and what nothing hides") {
  const Gpu gpu = gpu_named("h100");
  const Model model = zoo_model("resnet50");
  RunConfig run = adam().run;
  run.batch = 256;
  Strategy several;
  several.gpus = 8;
  several.data = DataParallel::ddp;
  Topology fast;
  fast.within_node = Link{450e9, 0};
  const auto throughput = [&](const Topology& topology) {
    return throughput_of(model, make_catalog(), run, gpu, several, HostCopy::pinned)(topology);
  };
  run.batch = 32;
  const double alone = step_time(model, make_catalog(), run, gpu)->seconds();
  CHECK_EQ(throughput_of(model, make_catalog(), run, gpu, {}, HostCopy::pinned)({})->seconds, alone);
  run.batch = 256;
  CHECK_GE(throughput(fast)->seconds, alone);
  // 102 MB of gradients take 1.75 of them through each rank; at 1 MB/s that is 179 s, and the rest nothing beside it.
  Topology slow;
  slow.within_node = Link{1e6, 0};
  CHECK_EQ(throughput(slow)->seconds, doctest::Approx(25'557'032 * 4 * 1.75 / 1e6).epsilon(0.01));
  CHECK_FALSE(throughput({}));  // the link is not known
}

TEST_CASE("several GPUs that are too small have suggestions, more GPUs and FSDP2 among them") {
  Gpu small = gpu_named("t4");
  small.cuda_total_bytes = std::int64_t{3600} << 20;
  const Model model = zoo_model("gpt2");
  RunConfig run = adam().run;
  run.batch = 4;
  run.context_bytes = kAssumedContextBytes;  // NCCL's buffers in it
  Strategy several;
  several.gpus = 2;
  several.data = DataParallel::ddp;
  const Report report = report_of(make_plan(model, make_catalog(), run, &small, several));
  const std::vector<Suggestion> suggestions = suggest(model, make_catalog(), report, small, {}, several);
  const auto fsdp = std::ranges::find_if(
      suggestions, [](const Suggestion& w) { return w.flags.find("--zero fsdp") != w.flags.npos; });
  REQUIRE(fsdp != suggestions.end());
  CHECK_LE(fsdp->device_bytes, *small.cuda_total_bytes);
}
