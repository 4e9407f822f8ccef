// DeepSpeed's stage 3 on an MLP of three layers, by hand from partitioned_param_coordinator.py; recorded ranks are the
// scoreboard's.
#include "estimator/distributed/deepspeed_partitioned.h"

#include <doctest/doctest.h>

#include <string>

#include "estimator/distributed/module_calls.h"
#include "estimator/distributed/partitioned_construction.h"
#include "estimator/distributed/saved_views.h"
#include "estimator/plan/plan.h"
#include "layers/catalog.h"
#include "tools/options/run_options.h"

namespace gpuplan {
namespace {

Plan plan_of(const std::string& file, const PartitionSettings& settings = {}) {
  RunOptions options;
  options.model = GPUPLAN_SOURCE_DIR "/tests/parallel/models/" + file;
  RunConfig run;
  run.batch = 8;
  run.precision = DType::bf16;
  run.optimizer.kind = OptimizerKind::adamw;
  Strategy s;
  s.data = DataParallel::zero3;
  s.gpus = 4;
  s.overlaps_reductions = true;
  s.partition = settings;
  return make_plan(load_model(options), make_catalog(), run, nullptr, s);
}

// "+802816 -" of a phase: what comes and goes, in order, on the stream of gathers.
std::string gathers(const Plan& plan, std::size_t round, Phase phase) {
  const CollectiveMemory& memory = *plan.step.collectives;
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(memory.slots), 0);
  std::string text;
  for (const CollectivePoint& point : memory.rounds[round].front())
    for (std::int32_t i = point.events.begin; i < point.events.end; ++i) {
      const CollectiveEvent& e = memory.events[static_cast<std::size_t>(i)];
      const bool takes = e.kind == CollectiveEvent::Kind::allocate && e.category == Category::parameters;
      const bool gives = e.kind == CollectiveEvent::Kind::free || e.kind == CollectiveEvent::Kind::free_later;
      if (takes) bytes[static_cast<std::size_t>(e.slot)] = e.bytes;
      if (point.phase != phase || !(takes || (gives && bytes[static_cast<std::size_t>(e.slot)] > 0))) continue;
      text += (text.empty() ? "" : " ") + std::string(takes ? "+" : "-") +
              std::to_string(bytes[static_cast<std::size_t>(e.slot)]);
    }
  return text;
}

TEST_CASE("the first forward gathers module by module, and lets go of all") {
  // Weights of 401,408, 131,072 and 2,560 elements and their biases of 512, 256 and 10; two of a module come in one
  // buffer, which goes when both are copied out of it. 10 elements are padded to 12.
  CHECK_EQ(gathers(plan_of("mlp.yaml"), 0, Phase::forward),
           "+803840 +802816 +1024 -803840 -802816 -1024 "
           "+262656 +262144 +512 -262656 -262144 -512 "
           "+5144 +5120 +20 -5144 -5120 -20");
}

TEST_CASE("the second forward gathers ahead and keeps what backward needs") {
  // 100,000 elements and less stay whole since the first step, so that two weights are left. All of them are gathered
  // at the first call of a module, and needed again within 1e9 elements.
  CHECK_EQ(gathers(plan_of("mlp.yaml"), 1, Phase::forward), "+1064960 +802816 +262144 -1064960");
  // The first layer's input has no gradient: its module never ends, and backward lets it go when all is done.
  CHECK_EQ(gathers(plan_of("mlp.yaml"), 1, Phase::backward), "-262144 -802816");
}

TEST_CASE("prefetching stops at what may be live, and what is not needed soon goes") {
  PartitionSettings settings;
  settings.prefetch_elements = 1;
  settings.live_elements = 500'000;
  settings.reuse_elements = 1;
  settings.persistence_elements = 0;
  const Plan plan = plan_of("mlp.yaml", settings);
  // The model is called first, which gathers the first weight ahead: one element is enough for it. Its bias comes with
  // the layer, and what is next ahead at each call of a module. Each goes after its layer.
  const std::string forward = gathers(plan, 1, Phase::forward);
  CHECK(forward.starts_with("+802816 "));
  CHECK(forward.find("-802816") != std::string::npos);
  CHECK(forward.find("-262144") != std::string::npos);
}

TEST_CASE("a part of the optimizer's ends where it has sub_group_size elements") {
  const Plan plan = plan_of("mlp.yaml");
  Strategy s = plan.step.strategy;
  REQUIRE_EQ(partitioned_parts(plan.step.graph, s).size(), 1);
  CHECK_EQ(partitioned_parts(plan.step.graph, s).front().each,
           std::vector<std::int64_t>{100352, 128, 32768, 64, 640, 3});
  s.partition.part_elements = 100'000;
  const std::vector<PartitionedPart> parts = partitioned_parts(plan.step.graph, s);
  REQUIRE_EQ(parts.size(), 2);
  CHECK_EQ(parts[0].elements(), 100352);
  CHECK_EQ(parts[1].elements(), 128 + 32768 + 64 + 640 + 3);
}

TEST_CASE("modules are entered from the model to the layer, and begun backward likewise") {
  const Plan plan = plan_of("llama.json");
  const ModuleCalls calls = module_calls(plan.step.graph, plan.step.schedule());
  std::string entered, begun;
  for (const ModuleCall& call : calls.calls) {
    const std::string& path = calls.modules[static_cast<std::size_t>(call.module)].path;
    if (call.kind == ModuleCall::Kind::enter && entered.find("down_proj") == std::string::npos) entered += path + " ";
    if (call.kind == ModuleCall::Kind::before_backward) begun += path + " ";
  }
  // model.layers is a list, which nobody calls.
  CHECK_EQ(entered,
           " model model.embed_tokens model.rotary_emb model.layers.0 model.layers.0.input_layernorm "
           "model.layers.0.self_attn model.layers.0.self_attn.q_proj model.layers.0.self_attn.k_proj "
           "model.layers.0.self_attn.v_proj model.layers.0.self_attn.o_proj model.layers.0.post_attention_layernorm "
           "model.layers.0.mlp model.layers.0.mlp.gate_proj model.layers.0.mlp.act_fn model.layers.0.mlp.up_proj "
           "model.layers.0.mlp.down_proj ");
  CHECK_MESSAGE(begun.starts_with(" lm_head model model.norm model.layers.5 model.layers.5.mlp "
                                  "model.layers.5.mlp.down_proj "),
                begun);
  // Only the embedding's input has no gradient.
  REQUIRE_EQ(calls.without_after.size(), 1);
  CHECK_EQ(calls.modules[static_cast<std::size_t>(calls.without_after.front())].path, "model.embed_tokens");
}

TEST_CASE("experts' weights are saved as views, a linear layer's are not") {
  const Plan mixtral = plan_of("mixtral.json"), llama = plan_of("llama.json");
  CHECK_EQ(saved_views(mixtral.step.graph, mixtral.step.schedule()).size(), 4);  // two a layer, two layers
  CHECK(saved_views(llama.step.graph, llama.step.schedule()).empty());
}

}  // namespace
}  // namespace gpuplan
