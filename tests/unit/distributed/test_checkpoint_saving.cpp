// What is allocated while a checkpoint is saved. Whole models: tests/parallel/recorded.jsonl, kinds with a save...
// word.
#include <doctest/doctest.h>

#include "estimator/distributed/checkpoint_saving.h"
#include "estimator/plan/plan.h"
#include "layers/catalog.h"
#include "tests/support/test_spec.h"

namespace gpuplan {
namespace {

Strategy three_ranks(std::int64_t rank) {
  Strategy strategy;
  strategy.data = DataParallel::fsdp;
  strategy.gpus = 3;
  strategy.rank = rank;
  return strategy;
}

// 10 rows of 6, and 10: three ranks have room for 4 rows each, and the last one has 2.
OptimizerProgram saved_of(SavedCheckpoint save, const Strategy& strategy,
                          OptimizerKind optimizer = OptimizerKind::adamw) {
  RunConfig run;
  run.batch = 3;
  run.optimizer.kind = optimizer;
  run.save = save;
  const Model model = testing::read_spec("gpuplan: 1\nname: one\ninput: {shape: [6]}\nlayers:\n  - Linear(6, 10)\n");
  return make_step(model, make_catalog(), run, assumed_gpu(), strategy).saving;
}

OptimizerProgram saved(SavedCheckpoint save, std::int64_t rank, OptimizerKind optimizer = OptimizerKind::adamw) {
  return saved_of(save, three_ranks(rank), optimizer);
}

std::vector<std::int64_t> allocated(const OptimizerProgram& program) {
  std::vector<std::int64_t> sizes;
  for (const OptimizerEvent& e : program.events)
    if (e.kind == OptimizerEvent::Kind::alloc_tensor) sizes.push_back(e.bytes);
  return sizes;
}

TEST_CASE("a full checkpoint makes each parameter and each state of it whole, padded to equal parts") {
  constexpr std::int64_t kWeight = 12 * 6 * 4, kBias = 12 * 4;  // of three parts of 4 rows
  CHECK(allocated(saved(SavedCheckpoint::model, 0)) == std::vector{kWeight, kBias});
  CHECK(allocated(saved(SavedCheckpoint::full, 0)) == std::vector{kWeight, kBias, kWeight, kWeight, kBias, kBias});
  CHECK(allocated(saved(SavedCheckpoint::full, 0, OptimizerKind::sgd)) == std::vector{kWeight, kBias});
}

TEST_CASE("a rank that has less than others pads its part first") {
  CHECK(allocated(saved(SavedCheckpoint::model, 2)) == std::vector<std::int64_t>{96, 288, 16, 48});
}

TEST_CASE("FSDP1 makes a flat parameter whole, and all states of it at once") {
  Strategy strategy = three_ranks(2);
  strategy.flat.emplace();
  constexpr std::int64_t kWhole = 3 * 24 * 4;  // 70 elements
  CHECK(allocated(saved_of(SavedCheckpoint::model, strategy)) == std::vector{kWhole});
  CHECK(allocated(saved_of(SavedCheckpoint::full, strategy)) == std::vector(3, kWhole));
  CHECK_THROWS_AS(saved_of(SavedCheckpoint::sharded, strategy), Error);
}

TEST_CASE("with use_orig_params FSDP1 has one buffer for all states, and puts together what the rank has of each") {
  Strategy strategy = three_ranks(2);
  strategy.flat.emplace().original_parameters = true;
  constexpr std::int64_t kWhole = 288, kPart = 96, kPadding = 8;  // the last rank has the two elements behind the bias
  CHECK(allocated(saved_of(SavedCheckpoint::full, strategy)) ==
        std::vector{kWhole, kWhole, kPadding, kPart, kPadding, kPart});
  strategy.rank = 0;
  CHECK(allocated(saved_of(SavedCheckpoint::full, strategy)) == std::vector{kWhole, kWhole, kPart, kPart});
}

TEST_CASE("what each rank saves of its own takes nothing") {
  CHECK(saved(SavedCheckpoint::sharded, 0).events.empty());
  CHECK(saved(SavedCheckpoint::none, 0).events.empty());
}

}  // namespace
}  // namespace gpuplan
