#include "tools/options/accelerate_config.h"

#include <doctest/doctest.h>

#include "estimator/base/error.h"
#include "tests/support/temporary_folder.h"

namespace gpuplan {
namespace {

struct Flags {
  SeveralGpusOptions several;
  RunOptions run;
};

Flags read(const std::string& text, Flags flags = {}) {
  const tests::Folder folder;
  flags.several.accelerate = folder.with("accelerate.yaml", text);
  read_accelerate(flags.several, flags.run);
  return flags;
}

TEST_CASE("one GPU and DDP train under autocast") {
  const Flags one = read("distributed_type: 'NO'\nmixed_precision: fp16\nnum_processes: 1\n");
  CHECK_EQ(one.run.amp, "fp16");
  CHECK_FALSE(strategy_of(one.several));
  const Flags ddp = read("distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_processes: 16\nnum_machines: 4\n");
  CHECK_EQ(ddp.run.amp, "bf16");
  const Strategy strategy = *strategy_of(ddp.several);
  CHECK_EQ(strategy.data, DataParallel::ddp);
  CHECK_EQ(strategy.gpus, 16);
  CHECK_EQ(strategy.gpus_per_node, 4);
}

TEST_CASE("FSDP2 is wrapped as Accelerate wraps, with a policy of mixed precision") {
  const Flags flags = read(
      "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n"
      "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_reshard_after_forward: false\n"
      "  fsdp_activation_checkpointing: true\n  fsdp_offload_params: true\n");
  CHECK_EQ(flags.run.checkpoint, "block");
  CHECK_EQ(flags.run.amp, "");
  const Strategy strategy = *strategy_of(flags.several);
  CHECK_EQ(strategy.data, DataParallel::fsdp);
  CHECK(strategy.wraps_ends);
  CHECK(strategy.loads_whole);
  CHECK(strategy.offloads);
  CHECK_FALSE(strategy.reshard_after_forward);
  CHECK_EQ(strategy.param_type, DType::bf16);
  CHECK_EQ(strategy.reduce_type, DType::bf16);
}

const std::string kFsdp =
    "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n"
    "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n";

TEST_CASE("FSDP1 has the defaults of accelerate launch, and a policy that casts buffers, too") {
  const Flags flags = read(
      "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config:\n"
      "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_sharding_strategy: SHARD_GRAD_OP\n"
      "  fsdp_backward_prefetch: BACKWARD_PRE\n  fsdp_activation_checkpointing: true\n");
  CHECK_EQ(flags.run.checkpoint, "block");
  const Strategy strategy = *strategy_of(flags.several);
  REQUIRE(strategy.flat);
  CHECK_FALSE(strategy.reshard_after_forward);
  CHECK(strategy.flat->original_parameters);
  CHECK(strategy.flat->sends_states);
  CHECK_EQ(strategy.flat->prefetch, FlatSettings::Prefetch::before);
  CHECK_EQ(strategy.flat->buffer_type, DType::bf16);
  CHECK_EQ(strategy.reduce_type, DType::bf16);
  CHECK(strategy.as_accelerate);
  CHECK_FALSE(strategy.wraps_ends);
  CHECK_FALSE(strategy.loads_whole);
}

TEST_CASE("without efficient loading each unit is moved to the GPU") {
  const Strategy strategy = *strategy_of(read(kFsdp + "  fsdp_cpu_ram_efficient_loading: false\n").several);
  CHECK(strategy.moves_units);
  CHECK_FALSE(strategy.loads_whole);
}

TEST_CASE("a mesh is of replicas, shards and ranks of a context") {
  const auto mesh = [](const std::string& sizes) { return read(kFsdp + "parallelism_config:\n" + sizes); };
  const Strategy strategy = *strategy_of(mesh("  parallelism_config_dp_replicate_size: 2\n"
                                              "  parallelism_config_dp_shard_size: 2\n"
                                              "  parallelism_config_cp_size: 2\n")
                                             .several);
  CHECK_EQ(strategy.replicas, 2);
  CHECK_EQ(strategy.context, 2);
  CHECK_EQ(strategy.shards(), 4);
  const auto refused = [&](const std::string& sizes, const char* words) {
    CHECK_THROWS_WITH_AS(mesh(sizes), doctest::Contains(words), Error);
  };
  refused("  parallelism_config_cp_size: 4\n", "is of 4 processes, and num_processes is 8");
  refused("  parallelism_config_tp_size: 2\n", "tensor parallelism is not planned as Accelerate");
  refused("  parallelism_config_sp_size: 2\n", "sequence parallelism is not planned");
  refused("  parallelism_config_cp_backend: deepspeed\n", "cp_backend must be one of");
  refused("  parallelism_config_cp_comm_strategy: alltoall\n", "as they are gathered");
  refused("  parallelism_config_dp_replicate_size: 2\n  parallelism_config_cp_size: 4\n", "pure data parallelism");
  refused("  parallelism_config_dp_replicate_size: 8\n", "without a dimension to shard across");
  refused("  cp_size: 8\n", "cp_size");
  CHECK_THROWS_WITH_AS(read("distributed_type: MULTI_GPU\nnum_processes: 8\nparallelism_config:\n"
                            "  parallelism_config_cp_size: 8\n"),
                       doctest::Contains("without FSDP2"), Error);
}

TEST_CASE("DeepSpeed is its stage, or its own file") {
  const Flags flags = read(
      "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 4\ndeepspeed_config:\n  zero_stage: 3\n"
      "  offload_optimizer_device: cpu\n  gradient_accumulation_steps: 4\n  gradient_clipping: 1.0\n"
      "  zero3_init_flag: false\n");
  CHECK_EQ(flags.run.precision, "bf16");
  CHECK_EQ(flags.run.micro_batches, "4");
  CHECK_EQ(flags.run.clip, "1.0");
  const Strategy strategy = *strategy_of(flags.several);
  CHECK_EQ(strategy.data, DataParallel::zero3);
  CHECK(strategy.overlaps_reductions);
  CHECK(strategy.offloads);
  CHECK_FALSE(strategy.made_partitioned);
  const tests::Folder folder;
  const std::string file = folder.with("ds.json", R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}})");
  const Flags named =
      read("distributed_type: DEEPSPEED\nnum_processes: 4\ndeepspeed_config:\n  deepspeed_config_file: " + file + "\n");
  CHECK_EQ(strategy_of(named.several)->data, DataParallel::zero2);
  CHECK_EQ(named.run.precision, "bf16");
}

TEST_CASE("what Accelerate does not know, or is not planned, points at its place") {
  const auto refused = [](const std::string& text, const std::string& message, Flags flags = {}) {
    try {
      (void)read(text, flags);
      FAIL(text);
    } catch (const Error& error) {
      CHECK_MESSAGE(error.message().find(message) != std::string::npos, error.message());
      CHECK(error.line() > 0);
    }
  };
  refused("num_proceses: 4\n", "num_proceses");
  refused("distributed_type: XLA\nnum_processes: 4\n", "distributed_type XLA is not planned");
  refused("distributed_type: MULTI_GPU\n", "num_processes is missing");
  refused("distributed_type: MULTI_GPU\nnum_processes: 8\nnum_machines: 3\n", "does not divide");
  refused("distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 3\n", "is 1 or 2, not 3");
  const std::string flat =
      "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n";
  refused(flat + "  fsdp_reshard_after_forward: SHARD_GRAD_OP\n", "says FULL_SHARD to FSDP1");
  refused(flat + "  fsdp_sharding_strategy: FULL_SHRD\n", "did you mean \"FULL_SHARD\"");
  refused(flat + "  fsdp_backward_prefetch: BACKWARD\n", "BACKWARD_PRE");
  refused(flat + "  fsdp_sync_module_states: false\n", "fsdp_sync_module_states");
  refused(
      "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n  fsdp_auto_wrap_policy: NO_WRAP\n",
      "TRANSFORMER_BASED_WRAP");
  refused(
      "distributed_type: FSDP\nmixed_precision: fp16\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n"
      "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n",
      "scales gradients");
  refused("distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  zero_stage: 0\n", "without ZeRO");
  refused(
      "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  zero_stage: 2\n"
      "  offload_optimizer_device: cpu\n  offload_param_device: cpu\n",
      "of stage 3");
  refused("distributed_type: MULTI_GPU\nnum_processes: 8\nmixed_precision: fp8\n", "bf16 or fp16");
  refused("distributed_type: MULTI_GPU\nnum_processes: 8\ndynamo_config: {dynamo_backend: INDUCTOR}\n",
          "dynamo_config is not planned");
  Flags given;
  given.several.gpus = "4";
  refused("distributed_type: MULTI_GPU\nnum_processes: 8\n", "--gpus says 4, and the file 8", given);
  refused("distributed_type: 'NO'\n", "that nothing is distributed", given);
}

}  // namespace
}  // namespace gpuplan
