// What starts a plan, for each program that runs it (estimator/launch). That the script for torchrun does what was
// planned is compared with PyTorch by tests/torch/launches.sh.
#include <doctest/doctest.h>

#include "estimator/base/error.h"
#include "estimator/launch/launch.h"
#include "tests/support/temporary_folder.h"
#include "tools/options/deepspeed_config.h"

namespace gpuplan {
namespace {

Launch launch_of(Strategy strategy, RunConfig run = {}) {
  Launch launch;
  launch.model = "mine";
  launch.plan = "mine.yaml --gpus 8";
  launch.script = "train.py";
  launch.strategy = std::move(strategy);
  if (launch.strategy.gpus == 1) launch.strategy.gpus = 8;
  launch.run = std::move(run);
  if (launch.run.optimizer.kind == OptimizerKind::sgd) launch.run.optimizer.kind = OptimizerKind::adamw;
  launch.run.batch = launch.strategy.ranks() * launch.run.micro_batches;
  return launch;
}

std::string refusal(const Launch& launch, LaunchTarget target) {
  try {
    (void)launch_text(launch, target);
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The file as --deepspeed reads it, beside what the script says itself.
Strategy read_back(const Launch& launch, RunOptions& run) {
  const tests::Folder folder;
  SeveralGpusOptions several;
  several.gpus = std::to_string(launch.strategy.gpus);
  several.deepspeed = folder.with("ds_config.json", launch_text(launch, LaunchTarget::deepspeed).file);
  read_deepspeed(several, run);
  return *strategy_of(several);
}

TEST_CASE("modules that are numbered are counted") {
  CHECK_EQ(python_list({}), "[]");
  CHECK_EQ(python_list({"layers.0", "layers.1", "layers.2"}), R"([f"layers.{i}" for i in range(3)])");
  CHECK_EQ(python_list({"h.2", "h.3"}), R"([f"h.{i}" for i in range(2, 4)])");
  CHECK_EQ(python_list({"a.0", "b.0.x", "b.1.x", "head"}), R"(["a.0"] + [f"b.{i}.x" for i in range(2)] + ["head"])");
}

TEST_CASE("a path is a literal of Python's") {
  CHECK_EQ(python_string("a b"), "\"a b\"");
  CHECK_EQ(python_string("a\"\\b"), "\"a\\\"\\\\b\"");
}

TEST_CASE("a DeepSpeed config is read back as it was planned") {
  for (const DataParallel data : {DataParallel::zero2, DataParallel::zero3})
    for (const bool overlaps : {false, true})
      for (const bool other : {false, true}) {
        Strategy strategy;
        strategy.data = data;
        strategy.overlaps_reductions = overlaps;
        strategy.reduce_bucket_elements = other ? 20'000'000 : 500'000'000;
        strategy.partitions_gradients = data == DataParallel::zero3 || !other;  // stage 1
        if (other) strategy.partition = {1'000'000, 2'000'000, 3'000'000, 4'000, 5'000'000};
        strategy.offloads = strategy.offloads_parameters = other && data == DataParallel::zero3;
        RunConfig run;
        run.precision = other ? DType::fp16 : DType::bf16;
        run.micro_batches = other ? 3 : 1;
        run.clip_grad_norm = other;
        const Launch launch = launch_of(strategy, run);
        RunOptions options;
        const Strategy s = read_back(launch, options);
        CHECK_EQ(s.data, data);
        CHECK_EQ(s.overlaps_reductions, overlaps);
        CHECK_EQ(s.reduce_bucket_elements, strategy.reduce_bucket_elements);
        CHECK_EQ(s.partitions_gradients, strategy.partitions_gradients);
        CHECK_EQ(s.offloads, strategy.offloads);
        CHECK_EQ(s.offloads_parameters, strategy.offloads_parameters);
        if (data == DataParallel::zero3) {
          CHECK_EQ(s.partition.prefetch_elements, strategy.partition.prefetch_elements);
          CHECK_EQ(s.partition.live_elements, strategy.partition.live_elements);
          CHECK_EQ(s.partition.reuse_elements, strategy.partition.reuse_elements);
          CHECK_EQ(s.partition.persistence_elements, strategy.partition.persistence_elements);
          CHECK_EQ(s.partition.part_elements, strategy.partition.part_elements);
        }
        CHECK_EQ(options.precision, other ? "fp16" : "bf16");
        CHECK_EQ(options.micro_batches, other ? "3" : "");
        CHECK_EQ(options.batch, std::to_string(launch.run.batch));
        CHECK_EQ(options.clip, other ? "1.0" : "");
      }
}

TEST_CASE("what a target has no words for is refused, and who has is said") {
  Strategy ddp, fsdp, deepspeed;
  ddp.data = DataParallel::ddp;
  fsdp.data = DataParallel::fsdp;
  fsdp.param_type = DType::bf16;
  fsdp.reduce_type = DType::fp32;
  deepspeed.data = DataParallel::zero2;
  CHECK_EQ(refusal(launch_of(ddp), LaunchTarget::torchrun), "");
  CHECK_EQ(refusal(launch_of(fsdp), LaunchTarget::torchrun), "");
  CHECK_EQ(refusal(launch_of(ddp), LaunchTarget::torchtitan), "--emit torchtitan has no words for --zero ddp");
  CHECK_EQ(refusal(launch_of(deepspeed), LaunchTarget::torchrun), "--emit torchrun has no words for DeepSpeed's ZeRO");
  CHECK_EQ(refusal(launch_of(fsdp), LaunchTarget::deepspeed), "--emit deepspeed has no words for --zero fsdp");
  CHECK_EQ(refusal(launch_of(fsdp), LaunchTarget::megatron),
           "--emit megatron has no words for a plan of PyTorch's own modules");
  RunConfig run;
  run.lora = Lora{};
  CHECK_EQ(refusal(launch_of(fsdp, run), LaunchTarget::torchrun), "--emit torchrun has no words for --lora");
  CHECK_EQ(refusal(launch_of(deepspeed, run), LaunchTarget::deepspeed), "");  // the script's
  CHECK(contains(launch_text(launch_of(deepspeed, run), LaunchTarget::deepspeed).notes.front(), "--lora"));
  run = {};
  run.master_weights = true;
  CHECK_EQ(refusal(launch_of(fsdp, run), LaunchTarget::torchrun), "--emit torchrun has no words for --master");
}

TEST_CASE("torchtitan runs its own models: one of another size is refused") {
  Strategy fsdp;
  fsdp.data = DataParallel::fsdp;
  fsdp.param_type = DType::bf16;
  fsdp.reduce_type = DType::fp32;
  fsdp.replicas = 2;
  fsdp.reshard_after_forward = false;
  Launch launch = launch_of(fsdp);
  CHECK(contains(refusal(launch, LaunchTarget::torchtitan), "mine has 0 parameters"));
  launch.parameters = 8'030'261'248;  // arXiv:2407.21783
  launch.sequence = 1024;
  const std::string file = launch_text(launch, LaunchTarget::torchtitan).file;
  CHECK(contains(file, "model_registry(\"8B\""));
  CHECK(contains(file, "data_parallel_replicate_degree = 2\n"));
  CHECK(contains(file, "data_parallel_shard_degree = 4\n"));
  CHECK(contains(file, "fsdp_reshard_after_forward = \"never\"\n"));
  CHECK(contains(file, "training.seq_len = 1024\n"));
  CHECK(contains(file, "training.global_batch_size = 8\n"));
  CHECK(contains(file, "activation_checkpoint = None\n"));
}

TEST_CASE("several nodes meet at the first one") {
  Strategy fsdp;
  fsdp.data = DataParallel::fsdp;
  fsdp.gpus = 16;
  RunConfig run;
  run.alloc_conf = "expandable_segments:True";
  CHECK_EQ(torchrun_command(launch_of(fsdp, run)),
           "PYTORCH_ALLOC_CONF='expandable_segments:True' torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint "
           "$HEAD:29500 --nproc-per-node 8");
}

}  // namespace
}  // namespace gpuplan
