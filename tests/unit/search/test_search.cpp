// The largest batch that fits, GPUs side by side, and work on several threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <stdexcept>

#include "estimator/search/device_bytes.h"
#include "estimator/search/fit.h"
#include "estimator/search/largest_batch.h"
#include "estimator/search/workers.h"
#include "layers/catalog.h"
#include "tests/support/zoo_models.h"
#include "tools/options/run_options.h"

using namespace gpuplan;

namespace {

constexpr std::int64_t kMany = 1'000'000'000;

Gpu gpu_named(const std::string& name) { return *gpu_called(name); }

RunConfig adam() {
  RunConfig run;
  run.optimizer.kind = OptimizerKind::adam;
  return run;
}

Instance rented(const std::string& provider, const std::string& gpu, double usd, double count = 1) {
  Instance i;
  i.provider = provider;
  i.name = provider + "-" + gpu;
  i.gpu = gpu;
  i.gpu_count = count;
  i.usd = usd;
  i.price_date = "2026-11-01";
  return i;
}

Fit fit_of(const FitQuestion& question, const std::vector<std::string>& names, const std::vector<Instance>& instances,
           std::size_t threads = 2) {
  std::vector<Gpu> gpus;
  for (const std::string& name : names) gpus.push_back(gpu_named(name));
  return find_fit(zoo_model("resnet18"), make_catalog(), question, gpus, instances, threads);
}

}  // namespace

TEST_CASE("the largest batch of a line is where it meets the limit") {
  const NeedOfBatch line = [](std::int64_t n) { return std::optional(100 + 7 * n); };
  CHECK_EQ(largest_batch(line, 1000, kMany).samples, 128);  // 100 + 7 * 128 = 996
  CHECK_EQ(largest_batch(line, 1000, kMany).bytes, 996);
  CHECK_EQ(largest_batch(line, 996, kMany).samples, 128);
  CHECK_EQ(largest_batch(line, 995, kMany).samples, 127);
  CHECK_EQ(largest_batch(line, 1000, 50).samples, 50);
  CHECK_EQ(largest_batch(line, 107, kMany).samples, 1);
  CHECK_EQ(largest_batch(line, 106, kMany).samples, 0);
  CHECK_EQ(largest_batch(line, 106, kMany).bytes, 107);
  CHECK_EQ(largest_batch(line, 100 + 7 * kMany, kMany).samples, kMany);
}

TEST_CASE("some six calls find the largest batch of a line") {
  int calls = 0;
  const NeedOfBatch line = [&](std::int64_t n) {
    ++calls;
    return std::optional(300'000'000 + 91'234'567 * n);
  };
  CHECK_EQ(largest_batch(line, 80'000'000'000, kMany).samples, 873);  // (80e9 - 0.3e9) / 91,234,567 = 873.6
  CHECK_LE(calls, 6);
}

TEST_CASE("a flat need fits whatever is asked for, and one that jumps is cut at the jump") {
  CHECK_EQ(largest_batch([](std::int64_t) { return std::optional<std::int64_t>(5); }, 5, 1000).samples, 1000);
  CHECK_EQ(
      largest_batch([](std::int64_t n) { return std::optional<std::int64_t>(n < 777 ? 5 : 50); }, 6, kMany).samples,
      776);
}

TEST_CASE("batches that cannot be run do not fit") {
  // A single sample is refused, and so is what overflows.
  const NeedOfBatch need = [](std::int64_t n) -> std::optional<std::int64_t> {
    return n == 1 || n > 4000 ? std::nullopt : std::optional(n);
  };
  CHECK_EQ(largest_batch(need, 1'000'000, kMany).samples, 4000);
  CHECK_EQ(largest_batch(need, 300, kMany).samples, 300);
  CHECK_EQ(largest_batch(need, 1, kMany).samples, 0);
  CHECK_EQ(largest_batch(need, 1, kMany).least, 2);
  CHECK_EQ(largest_batch([](std::int64_t) { return std::optional<std::int64_t>(); }, 300, kMany).samples, 0);
}

TEST_CASE("the answer fits and one sample more does not, however what is needed goes up and down") {
  std::mt19937 random(8);
  for (int round = 0; round < 200; ++round) {
    const auto slope = static_cast<std::int64_t>(random() % 100),
               noise = static_cast<std::int64_t>(random() % 2000 + 1);
    const auto seed = static_cast<std::int64_t>(random() % 1000);
    const NeedOfBatch need = [&](std::int64_t n) {
      return std::optional(1000 + slope * n + (n * 7919 + seed * 104729) % noise);
    };
    constexpr std::int64_t kLimit = 20'000, kMost = 5'000;
    const FittingBatch found = largest_batch(need, kLimit, kMost);
    if (found.samples == 0) {
      CHECK_GT(*need(1), kLimit);
      continue;
    }
    CHECK_LE(*need(found.samples), kLimit);
    CHECK_EQ(*need(found.samples), found.bytes);
    CHECK((found.samples == kMost || *need(found.samples + 1) > kLimit));
  }
}

TEST_CASE("a rising need has one largest batch, which trying all of them finds too") {
  std::mt19937 random(9);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int64_t> needs = {0};
    for (int n = 1; n <= 600; ++n)
      needs.push_back(needs.back() + static_cast<std::int64_t>(random() % 3 == 0 ? random() % 1000 : 0));
    const auto limit = static_cast<std::int64_t>(random() % 200'000);
    const auto tried = std::ranges::upper_bound(needs, limit) - needs.begin() - 1;
    const NeedOfBatch need = [&](std::int64_t n) { return std::optional(needs[static_cast<std::size_t>(n)]); };
    CHECK_EQ(largest_batch(need, limit, 600).samples, tried);
  }
}

TEST_CASE("the largest power of two is one that fits") {
  const NeedOfBatch line = [](std::int64_t n) { return std::optional(n); };
  CHECK_EQ(largest_power_of_two(line, 200, 200).samples, 128);
  CHECK_EQ(largest_power_of_two(line, 128, 128).samples, 128);
  CHECK_EQ(largest_power_of_two(line, 127, 127).samples, 64);
  CHECK_EQ(largest_power_of_two(line, 1, 0).samples, 0);
  // 128 needs more than 200 does.
  const NeedOfBatch bump = [](std::int64_t n) { return std::optional(n == 128 ? 1000 : n); };
  CHECK_EQ(largest_power_of_two(bump, 200, 200).samples, 64);
}

TEST_CASE("a batch beyond the first that is too large may fit again") {
  // 11 to 14, and all above 19, need too much.
  const NeedOfBatch need = [](std::int64_t n) -> std::optional<std::int64_t> {
    if (n == 17) return std::nullopt;
    return n <= 10 || (n >= 15 && n <= 19) ? n : 1000;
  };
  CHECK_EQ(largest_batch(need, 100, 10).samples, 10);
  CHECK_EQ(largest_again(need, 100, 12, 100).samples, 19);
  CHECK_EQ(largest_again(need, 100, 12, 100).bytes, 19);
  CHECK_EQ(largest_again(need, 100, 12, 17).samples, 16);
  CHECK_EQ(largest_again(need, 100, 12, 14).samples, 0);
  CHECK_EQ(largest_again(need, 100, 12, 11).samples, 0);
}

TEST_CASE("what a search asks for is what a plan says") {
  RunConfig run = adam();
  run.batch = 6;
  for (const char* gpu : {"t4", "a100-40gb", "h200"})
    for (const std::int64_t parts : {1, 3}) {
      run.micro_batches = parts;
      const Report report = plan_zoo("resnet18", run, gpu);
      const Model model = zoo_model("resnet18");
      const Gpu named = gpu_named(gpu);
      const Plan planned = make_plan(model, make_catalog(), run, &named);
      CHECK_EQ(reserved_bytes(planned), report.peak.reading.reserved_bytes);
      CHECK_EQ(device_bytes(planned), report.peak.device_bytes);
    }
}

TEST_CASE("a fit finds what planning every batch finds") {
  Gpu small = gpu_named("t4");
  const Model model = zoo_model("resnet18");
  for (const std::int64_t mebibytes : {900, 1200, 2000}) {
    small.cuda_total_bytes = mebibytes << 20;
    FitQuestion question;
    question.run = adam();
    const FitRow row = find_fit(model, make_catalog(), question, {&small, 1}, {}, 1).rows.front();
    // ResNet-18's needs rise with every sample here, so that the first batch that is too large is the only border.
    RunConfig run = question.run;
    std::int64_t largest = 0;
    for (run.batch = 1; run.batch < 64; ++run.batch)
      if (device_bytes(make_plan(model, make_catalog(), run, &small)) <= *small.cuda_total_bytes) largest = run.batch;
    CHECK_GT(largest, 0);
    CHECK_LT(largest, 63);
    CHECK_EQ(row.largest.samples, largest);
  }
}

// cuDNN's workspaces go up and down with the batch, and VGG's are large (see largest_batch.h).
TEST_CASE("a fit names the batch that planning every batch finds beyond a hole") {
  Gpu small = gpu_named("t4");
  const Model model = zoo_model("vgg11");
  FitQuestion question;
  question.run = adam();
  question.run.autocast = DType::fp16;
  RunConfig run = question.run;
  std::vector<std::int64_t> needs = {0};  // of each batch
  for (run.batch = 1; run.batch <= 110; ++run.batch)
    needs.push_back(device_bytes(make_plan(model, make_catalog(), run, &small)));
  int holes = 0;
  for (std::int64_t limit = needs[8]; limit < needs[60]; limit += std::int64_t{200} << 20) {
    small.cuda_total_bytes = limit;
    const FitRow row = find_fit(model, make_catalog(), question, {&small, 1}, {}, 1).rows.front();
    std::int64_t most = 0;
    for (std::size_t n = 1; n < needs.size(); ++n)
      if (needs[n] <= limit) most = static_cast<std::int64_t>(n);
    CHECK_EQ(std::max(row.largest.samples, row.again.samples), most);
    CHECK_EQ(row.again.samples > 0, most > row.largest.samples);
    if (row.again.samples > 0) CHECK_EQ(row.again.bytes, needs[static_cast<std::size_t>(most)]);
    holes += row.again.samples > 0 ? 1 : 0;
  }
  CHECK_GT(holes, 0);
}

TEST_CASE("the largest batch on a T4 is PyTorch's") {
  // torch 2.15's allocator gives its cache back from 153 on: tests/unit/plan/test_within_memory.cpp, and its script.
  FitQuestion question;
  question.run = adam();
  const std::vector<Gpu> gpus = {gpu_named("t4")};
  const Fit fit = find_fit(zoo_model("resnet50"), make_catalog(), question, gpus, {}, 1);
  CHECK_EQ(fit.rows[0].largest.samples, 152);
  CHECK_EQ(fit.rows[0].power_of_two.samples, 128);
  question.run.micro_batches = 4;
  const FitRow row = find_fit(zoo_model("resnet50"), make_catalog(), question, gpus, {}, 1).rows[0];
  CHECK_EQ(row.largest.samples % 4, 0);
  CHECK_GT(row.largest.samples, 4 * 128);  // a quarter of it is less than 152 by the gradients that wait
  CHECK_EQ(row.power_of_two.samples, 4 * 128);
}

TEST_CASE("the cheapest that fits is chosen") {
  const std::vector<std::string> names = {"t4", "l4", "a100-40gb"};
  const std::vector<Instance> instances = {rented("aws", "t4", 0.5), rented("gcp", "t4", 0.4), rented("gcp", "l4", 0.7),
                                           rented("aws", "a100-40gb", 22, 8), rented("gcp", "l4", 0.1, 0.5)};
  FitQuestion question;
  question.run = adam();
  Fit fit = fit_of(question, names, instances);
  REQUIRE(fit.chosen.has_value());
  CHECK_EQ(*fit.chosen, 0);
  CHECK_EQ(fit.why, "the cheapest that fits");
  CHECK_EQ(fit.rows[0].instance->provider, "gcp");
  CHECK_EQ(*fit.rows[1].usd, 0.7);  // half of a GPU is none
  CHECK_EQ(*fit.rows[2].usd, 22);   // whole, with all eight

  question.providers = {"aws"};
  fit = fit_of(question, names, instances);
  CHECK_EQ(*fit.rows[0].usd, 0.5);
  CHECK_FALSE(fit.rows[1].usd.has_value());

  question.providers.clear();
  question.batch = fit.rows[0].largest.samples + 1;  // too much for the T4
  fit = fit_of(question, names, instances);
  CHECK_FALSE(fit.rows[0].fits);
  CHECK_EQ(*fit.chosen, 1);
  question.most_usd = 0.6;
  CHECK_FALSE(fit_of(question, names, instances).chosen.has_value());
  question.most_usd.reset();
  CHECK_EQ(*fit_of(question, names, {}).chosen, 1);  // without prices the one with least memory
  CHECK_EQ(fit_of(question, names, {}).why, "the smallest that fits");
  question.spot = true;
  CHECK_FALSE(fit_of(question, names, instances).chosen.has_value());
}

TEST_CASE("where times are known, what lowest cost per sample is chosen") {
  FitQuestion question;
  question.run = adam();
  question.batch = 100;
  // 100 samples take 1, 0.4 and 0.39 s: at 1, 2 and 20 USD an hour the L4's cost least.
  const ThroughputOf throughput = [](const RunConfig& run, const Gpu& gpu, const Strategy& strategy) -> ThroughputOn {
    CHECK_EQ(run.batch, 100);
    CHECK_EQ(strategy.gpus, 1);
    return [name = gpu.name](const Topology&) -> std::optional<StepThroughput> {
      if (name == "rtx4090") return std::nullopt;
      const double seconds = name == "t4" ? 1.0 : name == "l4" ? 0.4 : 0.39;
      return StepThroughput{seconds, seconds};
    };
  };
  std::vector<Gpu> gpus;
  for (const char* name : {"t4", "l4", "a100-40gb", "rtx4090"}) gpus.push_back(gpu_named(name));
  const std::vector<Instance> instances = {rented("x", "t4", 1), rented("x", "l4", 2), rented("x", "a100-40gb", 20),
                                           rented("x", "rtx4090", 0.5)};
  const Fit fit = find_fit(zoo_model("resnet18"), make_catalog(), question, gpus, instances, 1, throughput);
  REQUIRE(fit.chosen.has_value());
  CHECK_EQ(*fit.chosen, 1);
  CHECK_EQ(fit.why, "lowest cost per sample");
  CHECK_EQ(*samples_per_second(fit.rows[1], question), doctest::Approx(250));
  CHECK_EQ(*usd_per_million(fit.rows[1], question), doctest::Approx(2 * 4000 / 3600.0));  // a million takes 4,000 s
  CHECK_FALSE(fit.rows[0].pareto);  // slower and dearer than the L4
  CHECK(fit.rows[1].pareto);
  CHECK(fit.rows[2].pareto);  // the fastest
  CHECK_FALSE(fit.rows[3].pareto);
}

TEST_CASE("a GPU without native arithmetic of the type is no answer") {
  FitQuestion question;
  question.run = adam();
  question.run.autocast = DType::bf16;
  const Fit fit = fit_of(question, {"t4", "l4"}, {rented("gcp", "t4", 0.1), rented("gcp", "l4", 0.7)});
  CHECK_FALSE(fit.rows[0].refused.empty());
  CHECK_FALSE(fit.rows[0].fits);
  CHECK(fit.rows[1].refused.empty());
  CHECK_EQ(*fit.chosen, 1);
}

TEST_CASE("a fit is the same on any number of threads") {
  FitQuestion question;
  question.run = adam();
  question.batch = 100;
  const std::vector<std::string> names = {"t4", "l4", "rtx4090", "a100-40gb", "h100", "h200"};
  const Fit one = fit_of(question, names, {}, 1), many = fit_of(question, names, {}, 5);
  for (std::size_t i = 0; i < names.size(); ++i) {
    CHECK_EQ(one.rows[i].largest.samples, many.rows[i].largest.samples);
    CHECK_EQ(one.rows[i].asked_bytes, many.rows[i].asked_bytes);
  }
}

TEST_CASE("a model that cannot be run is an error, not a batch of 0") {
  FitQuestion question;
  question.run = adam();
  const Model model = zoo_model("resnet18");
  Catalog none = make_catalog().first(1);
  const std::vector<Gpu> gpus = {gpu_named("t4")};
  CHECK_THROWS_AS((void)find_fit(model, none, question, gpus, {}, 2), Error);
}

TEST_CASE("workers do every piece once, on any number of threads") {
  for (const std::size_t threads : {1U, 2U, 7U}) {
    std::vector<std::atomic<int>> times(100);
    std::size_t last = 0;
    run_on_workers(
        times.size(), threads, [&](std::size_t i) { ++times[i]; },
        [&](std::size_t done) {
          CHECK_GE(done, last);
          last = done;
        });
    CHECK(std::ranges::all_of(times, [](const auto& n) { return n == 1; }));
  }
  run_on_workers(0, 3, [](std::size_t) { FAIL("there is nothing to do"); });
}

TEST_CASE("of what workers throw the first piece's is thrown") {
  const auto work = [](std::size_t i) {
    if (i >= 10) throw std::runtime_error(std::to_string(i));
  };
  CHECK_THROWS_WITH_AS(run_on_workers(100, 1, work), "10", std::runtime_error);
  for (int round = 0; round < 20; ++round) CHECK_THROWS_AS(run_on_workers(100, 4, work), std::runtime_error);
  CHECK_THROWS_WITH_AS(run_on_workers(
                           5, 2, [](std::size_t) {}, [](std::size_t) { throw std::runtime_error("between"); }),
                       "between", std::runtime_error);
}
