// Loads whose figures follow by hand from steps of a constant time.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "estimator/base/error.h"
#include "estimator/serve/slo.h"
#include "tools/options/load_options.h"

namespace gpuplan {
namespace {

const StepSeconds kTenth = [](const EngineStep&) { return 0.1; };

std::string temporary_lengths(const char* text) {
  const std::string path = std::filesystem::temp_directory_path() / "gpuplan_test_lengths.txt";
  std::ofstream(path) << text;
  return path;
}

EngineLimits limits(std::int64_t cache, std::int64_t sequences = 256, std::int64_t batched = 2048) {
  return {.cache_tokens = cache, .block_tokens = 16, .sequences = sequences, .batched_tokens = batched, .length = 4096};
}

TEST_CASE("one request: a step for the prompt, and one for each further token") {
  const Request one{.arrival = 5, .prompt = 100, .answer = 11};
  const ServedLoad load = simulate_load({&one, 1}, limits(4096), kTenth);
  CHECK(load.first_token.p50 == doctest::Approx(0.1));
  CHECK(load.token.p50 == doctest::Approx(0.1));
  CHECK(load.seconds == doctest::Approx(1.1));
  CHECK(load.output_rate == doctest::Approx(10));
  CHECK(load.most_running == 1);
  CHECK(load.limit == "arrivals");
}

TEST_CASE("a prompt that is longer than a step comes in parts") {
  const Request one{.arrival = 0, .prompt = 1000, .answer = 1};
  std::vector<EngineStep> steps;
  const StepSeconds recorded = [&](const EngineStep& s) {
    steps.push_back(s);
    return 0.1;
  };
  const ServedLoad load = simulate_load({&one, 1}, limits(4096, 256, 400), recorded);
  REQUIRE(steps.size() == 3);
  CHECK(steps[2].prefill_tokens == 200);
  // 400^2 / 2, 400 * (400 + 200), 200 * (800 + 100): every token attends to those before it.
  CHECK(steps[0].prefill_pairs + steps[1].prefill_pairs + steps[2].prefill_pairs == doctest::Approx(1000 * 1000 / 2));
  CHECK(load.first_token.p50 == doctest::Approx(0.3));
}

TEST_CASE("one place: the second request waits for the first") {
  const std::vector<Request> two = {{0, 10, 5}, {0, 10, 5}};
  const ServedLoad load = simulate_load(two, limits(4096, 1), kTenth);
  CHECK(load.first_token.mean == doctest::Approx((0.1 + 0.6) / 2));
  CHECK(load.mean_running == doctest::Approx(1));
  CHECK(load.limit == "sequences");
}

TEST_CASE("waiting for one place: M/D/1") {
  // A service of 0.5 s, arrivals at 1/s: the mean wait is rho s / (2 (1 - rho)) = 0.5 * 0.5 / (2 * 0.5) = 0.25 s.
  std::vector<Request> requests;
  for (const double at : poisson_arrivals(1, 40000, 1)) requests.push_back({at, 10, 5});
  const ServedLoad load = simulate_load(requests, limits(4096, 1), kTenth);
  CHECK(load.first_token.mean - 0.1 == doctest::Approx(0.25).epsilon(0.05));
  CHECK(load.mean_running == doctest::Approx(0.5).epsilon(0.03));  // Little: 1/s for 0.5 s each
}

TEST_CASE("where blocks run out, the sequence that came last is computed again") {
  // 8 blocks of 16: two prompts of 48 take 3 each; their answers of 33 would take 6 each.
  const std::vector<Request> two = {{0, 48, 33}, {0, 48, 33}};
  const ServedLoad load = simulate_load(two, limits(8 * 16), kTenth);
  CHECK(load.preemptions == 1);
  CHECK(load.requests == 2);
  CHECK(load.most_cache <= 8 * 16);
}

TEST_CASE("a prefix that all share is computed and held once") {
  std::vector<Request> requests(10, Request{0, 1000, 2});
  std::int64_t computed = 0;
  const StepSeconds counted = [&](const EngineStep& s) {
    computed += s.prefill_tokens;
    return 0.1;
  };
  const ServedLoad load = simulate_load(requests, limits(2048), counted, 960);
  CHECK(computed == 1000 + 9 * 40);
  CHECK(load.most_cache <= 2048);
  CHECK(load.requests == 10);
}

TEST_CASE("a prompt is admitted where all of it finds room") {
  // Two prompts of 1,600 tokens in parts of 400, a cache of 2,048: the second waits, and nobody is computed again.
  const std::vector<Request> two = {{0, 1600, 2}, {0, 1600, 2}};
  const ServedLoad load = simulate_load(two, limits(2048, 256, 400), kTenth);
  CHECK(load.preemptions == 0);
  CHECK(load.most_running == 1);
  CHECK(load.first_token.mean == doctest::Approx((0.4 + 0.9) / 2));
}

TEST_CASE("prompts and answers are drawn apart") {
  LoadOptions options;
  options.prompt = options.answer = "lognormal:mean=400,max=4000";
  int equal = 0;
  for (const Request& r : load_of(options).requests) equal += r.prompt == r.answer ? 1 : 0;
  CHECK(equal < 100);
}

TEST_CASE("what cannot be served is refused") {
  const Request longer{0, 4000, 97}, larger{0, 2000, 10};
  CHECK_THROWS_WITH_AS(simulate_load({&longer, 1}, limits(100000), kTenth), doctest::Contains("longer than the engine"),
                       Error);
  CHECK_THROWS_WITH_AS(simulate_load({&larger, 1}, limits(1024), kTenth), doctest::Contains("larger than the cache"),
                       Error);
}

TEST_CASE("arrivals are Poisson's, and the same every time") {
  const std::vector<double> a = poisson_arrivals(4, 10000, 7);
  CHECK(a == poisson_arrivals(4, 10000, 7));
  CHECK(std::ranges::is_sorted(a));
  CHECK(a.back() / 9999 == doctest::Approx(0.25).epsilon(0.05));
}

TEST_CASE("service levels: the highest rate that meets them") {
  std::vector<Request> requests;
  for (const double at : poisson_arrivals(1, 2000, 0)) requests.push_back({at, 10, 5});
  const LoadedEngine engine(requests, limits(4096, 1), kTenth, 0);  // 2 requests a second at the most
  CHECK(engine.most_requests() == doctest::Approx(2));
  const std::optional<LoadPoint> best = engine.highest(read_slo("ttft=1s,p90"));
  REQUIRE(best);
  CHECK(best->rate > 0.5);
  CHECK(best->rate < 2);
  CHECK(best->load.first_token.p90 <= 1);
  CHECK_FALSE(engine.highest(read_slo("ttft=50ms")));  // a step takes 100
}

TEST_CASE("a file of lengths is read again where it is short, and a prefix is shorter than the prompts") {
  const std::string file = temporary_lengths("300\n500\n");
  LoadOptions options;
  options.prompt = file;
  options.requests = "5";
  const AskedLoad load = load_of(options);
  REQUIRE(load.requests.size() == 5);
  CHECK(load.requests[4].prompt == 300);
  options.prefix = "300";
  CHECK_THROWS_WITH_AS(load_of(options), doctest::Contains("no shorter than the shortest prompt"), Error);
  std::remove(file.c_str());
}

TEST_CASE("levels and loads that are not understood") {
  for (const char* text : {"", "ttft", "ttft=5", "ttft=-1s", "tpot=0ms", "p95", "p90", "ttft=1s,foo=2"})
    CHECK_THROWS_AS(read_slo(text), Error);
  CHECK(*read_slo("tpot=50ms,p99").token == doctest::Approx(0.05));
  LoadOptions options;
  options.rate = "90/min";
  CHECK(*load_of(options).rate == doctest::Approx(1.5));
  for (const char* rate : {"4", "0/s", "x/s", "1/h", "1e-310/s", "1e-5/s"}) {
    options.rate = rate;
    CHECK_THROWS_AS(load_of(options), Error);
  }
  options.rate = "1/s";
  options.prompt = "uniform:3";
  CHECK_THROWS_AS(load_of(options), Error);
}

}  // namespace
}  // namespace gpuplan
