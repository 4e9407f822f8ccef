// Steps that need more than the GPU has: PyTorch's allocator gives its cache back and asks again before it raises
// torch.OutOfMemoryError. Expected: torch 2.15's own allocator and operators on a T4's memory (tests/shadow_scripts/
// largest_batch.py under `gpuplan shadow --gpu t4`, cuDNN's workspaces included, 512 MiB of context).
#include <doctest/doctest.h>

#include "estimator/report/sweep_table.h"
#include "estimator/report/writers.h"
#include "estimator/search/figures.h"
#include "estimator/search/fit.h"
#include "layers/catalog.h"
#include "tests/support/zoo_models.h"
#include "tools/options/run_options.h"

namespace gpuplan {
namespace {

Report on_a_t4(const std::string& model, std::int64_t batch, OptimizerKind optimizer) {
  RunConfig run;
  run.batch = batch;
  run.optimizer.kind = optimizer;
  run.loop = Loop::plain;
  return plan_zoo(model, run, "t4");
}

}  // namespace

TEST_CASE("the largest batch that runs on a T4 is PyTorch's: ResNet-50 under Adam") {
  const Report fits = on_a_t4("resnet50", 152, OptimizerKind::adam);
  CHECK(verdict(fits).fits);
  CHECK_FALSE(fits.within_memory.has_value());

  const Report gives_back = on_a_t4("resnet50", 170, OptimizerKind::adam);
  CHECK_FALSE(verdict(gives_back).fits);
  CHECK(verdict(gives_back).runs);
  REQUIRE(gives_back.within_memory.has_value());
  CHECK(gives_back.within_memory->runs);
  CHECK_EQ(gives_back.within_memory->retries, 6);

  const Report fails = on_a_t4("resnet50", 171, OptimizerKind::adam);
  CHECK_FALSE(verdict(fails).runs);
  REQUIRE(fails.within_memory.has_value());
  CHECK_EQ(fails.within_memory->tried_bytes, 66 << 20);  // "Tried to allocate 66.00 MiB"
  CHECK_EQ(fails.within_memory->retries, 3);
  CHECK_EQ(fails.within_memory->step, 2);
  CHECK_EQ(fails.within_memory->phase, Phase::backward);
}

TEST_CASE("the largest batch that runs on a T4 is PyTorch's: GPT-2 under AdamW") {
  CHECK(verdict(on_a_t4("gpt2", 6, OptimizerKind::adamw)).runs);
  CHECK_FALSE(verdict(on_a_t4("gpt2", 7, OptimizerKind::adamw)).runs);
}

// A batch that runs by giving the cache back fits for none of them, or for all.
TEST_CASE("what fits is the same to a plan and to a fit") {
  FitQuestion question;
  question.run.optimizer.kind = OptimizerKind::adam;
  const Gpu t4 = *gpu_called("t4");
  for (const std::int64_t batch : {152, 153, 170, 171}) {
    question.batch = batch;
    const Report report = on_a_t4("resnet50", batch, OptimizerKind::adam);
    CHECK_EQ(verdict(report).fits,
             find_fit(zoo_model("resnet50"), make_catalog(), question, {&t4, 1}, {}, 1).rows.front().fits);
    CHECK_EQ(verdict(report).fits, sweep_figures(report).fits);
    CHECK_EQ(verdict(report).runs, sweep_figures(report).runs);
  }
}

TEST_CASE("a model that does not fit fails while it is made") {
  RunConfig run;
  const Report report = plan_zoo("llama3_8b", run, "t4");
  REQUIRE(report.within_memory.has_value());
  CHECK_FALSE(report.within_memory->runs);
  CHECK_EQ(report.within_memory->step, 0);
}

}  // namespace gpuplan
