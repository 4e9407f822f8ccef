// What one command plans is bounded by a count of layers, whatever a few lines ask for.
#include <doctest/doctest.h>

#include <memory>

#include "estimator/plan/plan.h"
#include "estimator/search/fit.h"
#include "estimator/search/suggestions.h"
#include "estimator/spec/read.h"
#include "estimator/spec/work.h"
#include "layers/catalog.h"
#include "tools/options/run_options.h"
#include "tools/process/read_source.h"

using namespace gpuplan;

namespace {

Model repeated(std::int64_t times) {
  const auto source = std::make_shared<Source>(Source{"wide.yaml", R"(gpuplan: 1
vars: {n: 1}
input: {shape: [8]}
blocks:
  B:
    layers:
      - residual: {body: [ReLU()], shortcut: [Identity()]}
      - parallel: {branches: [[Identity()], [ReLU()]], join: add}
layers:
  - fc: Linear(_, 8)
  - {name: l, block: B, repeat: $n}
loss: mean
)"});
  return read_model(source, {.set = {{"n", times}}, .open = {}});
}

std::string refusal(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.render();
  }
  return "nothing was refused";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("layers are counted in every kind of entry") {
  CHECK(layers_of(repeated(1)) == 1 + 4);
  CHECK(layers_of(repeated(1'000)) == 1 + 4'000);
  RunConfig run;
  CHECK(planning_work(repeated(8), run) == 33);
  run.batch = run.micro_batches = 65;
  CHECK(planning_work(repeated(8), run) == 33 + 33 * 64 / 32);
}

TEST_CASE("real models of a thousand layers are far below what one command plans") {
  for (const char* name : {"llama3_70b", "gpt2", "bert_base", "opt_125m", "mixtral_8x7b"}) {
    const Model model = read_model(read_zoo_source(name), {.set = {{"layers", 1'000}}, .open = open_extended});
    CAPTURE(name);
    CHECK(may_search(model, {}));
    RunConfig run;
    run.batch = run.micro_batches = 1'024;
    CHECK(planning_work(model, run) < kMostLayersPlanned);
  }
}

TEST_CASE("fit refuses at once what would take it minutes, at the line that asks for it") {
  FitQuestion question;
  const std::vector<Gpu> gpus = gpu_table();
  const Model model = repeated(25'000);
  const std::string message = refusal([&] { (void)find_fit(model, make_catalog(), question, gpus, {}, 1); });
  CHECK(has(message,
            "error: the model has 100001 layers, and each GPU and batch that is tried plans all of "
            "them: one command plans at most 2000000 in all\n"));
  CHECK(has(message, "wide.yaml:11:"));
  CHECK(has(message, "100000 of them"));
}

TEST_CASE("micro-batches of a large model are bounded together with its layers") {
  RunConfig run;
  run.batch = run.micro_batches = 10'000;
  const std::string message = refusal([&] { (void)plan(repeated(2'500), make_catalog(), run); });
  CHECK(has(message, "the model has 10001 layers, and 10000 micro-batches run each of them"));
}

TEST_CASE("no changes are looked for where each of them would take seconds") {
  RunConfig run;
  run.batch = 1'000'000;
  Gpu gpu = *gpu_called("t4");
  const auto ways = [&](std::int64_t times) {
    const Model model = repeated(times);
    Report report = plan(model, make_catalog(), run, &gpu);
    report.peak.device_bytes = std::int64_t{1} << 50;  // whatever it takes
    report.within_memory.reset();
    return suggest(model, make_catalog(), report, gpu).size();
  };
  CHECK(ways(1) > 0);
  CHECK(ways(kMostLayersPlanned / kTriesOfSearch / 4 + 1) == 0);
}
