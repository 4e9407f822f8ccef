#include "tools/options/deepspeed_config.h"

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
  if (flags.several.gpus.empty()) flags.several.gpus = "4";
  flags.several.deepspeed = folder.with("ds_config.json", text);
  read_deepspeed(flags.several, flags.run);
  return flags;
}

TEST_CASE("a DeepSpeed config is flags") {
  const Flags flags = read(R"({"bf16": {"enabled": true}, "gradient_accumulation_steps": 2, "gradient_clipping": 1.0,
      "train_micro_batch_size_per_gpu": 3, "zero_optimization": {"stage": 2, "overlap_comm": true,
      "reduce_bucket_size": 2e8, "offload_optimizer": {"device": "none"}}})");
  CHECK_EQ(flags.several.zero, "2");
  CHECK_EQ(flags.run.precision, "bf16");
  CHECK_EQ(flags.run.micro_batches, "2");
  CHECK_EQ(flags.run.batch, "24");  // 3 of each of 4 ranks, twice
  CHECK_EQ(flags.run.clip, "1.0");
  REQUIRE(flags.several.deepspeed_options);
  CHECK(flags.several.deepspeed_options->overlaps);
  CHECK_EQ(flags.several.deepspeed_options->bucket_elements, 200'000'000);
  const std::optional<Strategy> strategy = strategy_of(flags.several);
  REQUIRE(strategy);
  CHECK_EQ(strategy->data, DataParallel::zero2);
  CHECK(strategy->partitions_gradients);
  CHECK_EQ(strategy->reduce_bucket_elements, 200'000'000);
}

TEST_CASE("\"auto\" is what the flags say") {
  Flags given;
  given.run.batch = "8";
  given.run.precision = "bf16";
  const Flags flags = read(R"({"train_batch_size": "auto", "bf16": {"enabled": "auto"}, "gradient_clipping": "auto",
      "zero_optimization": {"stage": 1, "reduce_bucket_size": "auto"}})",
                           given);
  CHECK_EQ(flags.run.batch, "8");
  CHECK_EQ(flags.run.clip, "");
  CHECK(flags.several.deepspeed_options->bucket_is_auto);
  CHECK_FALSE(strategy_of(flags.several)->partitions_gradients);
}

TEST_CASE("stage 3 gathers ahead as its config says") {
  const Flags flags = read(R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 3, "sub_group_size": 1e8,
      "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto", "stage3_max_live_parameters": 2e9,
      "stage3_max_reuse_distance": 3e8, "stage3_param_persistence_threshold": 5000}})");
  const DeepSpeedOptions& options = *flags.several.deepspeed_options;
  CHECK(options.overlaps);  // stage 3's default
  CHECK(options.bucket_is_auto);
  CHECK(options.prefetch_is_auto);
  CHECK_FALSE(options.persistence_is_auto);
  const Strategy strategy = *strategy_of(flags.several);
  CHECK_EQ(strategy.data, DataParallel::zero3);
  CHECK(strategy.overlaps_reductions);
  CHECK_EQ(strategy.partition.live_elements, 2'000'000'000);
  CHECK_EQ(strategy.partition.reuse_elements, 300'000'000);
  CHECK_EQ(strategy.partition.persistence_elements, 5000);
  CHECK_EQ(strategy.partition.part_elements, 100'000'000);
}

TEST_CASE("DeepSpeed's Adam is one kernel over all") {
  const auto read_optimizer = [](const std::string& optimizer) {
    return read(R"({"zero_optimization": {"stage": 2}, "optimizer": )" + optimizer + "}").run;
  };
  CHECK_EQ(read_optimizer(R"({"type": "AdamW", "params": {"lr": "auto"}})").optimizer, "adamw");
  CHECK_EQ(read_optimizer(R"({"type": "AdamW"})").optimizer_impl, "fused");
  CHECK_EQ(read_optimizer(R"({"type": "Adam", "params": {"adam_w_mode": false}})").optimizer, "adam");
  CHECK_EQ(read_optimizer(R"({"type": "Adam", "params": {"torch_adam": true}})").optimizer_impl, "");
}

TEST_CASE("what DeepSpeed does not know, or is not planned, points at its place") {
  const auto refused = [](const std::string& text, const std::string& message) {
    try {
      (void)read(text);
      FAIL(text);
    } catch (const Error& error) {
      CHECK_MESSAGE(error.message().find(message) != std::string::npos, error.message());
      CHECK(error.line() > 0);
    }
  };
  refused("[]", "is an object");
  refused("{}", "\"zero_optimization\" is missing");
  refused(R"({"zero_optimisation": {}})", "did you mean \"zero_optimization\"?");
  refused(R"({"zero_optimization": {"stagge": 2}})", "did you mean \"stage\"?");
  refused(R"({"zero_optimization": {"stage": 4}})", "stages 1 to 3");
  refused(R"({"zero_optimization": {"stage": 1.5}})", "a whole number from 0");
  refused(R"({"zero_optimization": {"stage": "two"}})", "is a number or \"auto\"");
  refused(R"({"zero_optimization": {"stage": 1}})", "in bf16");
  refused(R"({"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}})", "secondary partitions");
  refused(R"({"zero_optimization": {"stage": 3, "stage3_prefetch_bucket": 8}})",
          "did you mean \"stage3_prefetch_bucket_size\"?");
  refused(R"({"bf16": true, "zero_optimization": {"stage": 2}})", "is an object, not");
  refused(R"({"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}})",
          "\"offload_param\" is planned of stage 3, to \"cpu\"");
  refused(R"({"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "nvme"}}})", "is planned to \"cpu\"");
  refused(R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}}})", "to \"cpu\"");
  refused(R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}})",
          "with the optimizer there, too");
  refused(R"({"zero_optimization": {"stage": 2, "contiguous_gradients": false}})", "not contiguous");
  refused(R"({"optimizer": {"type": "OneBitAdam"}, "zero_optimization": {"stage": 2}})", "Adam and AdamW are planned");
  refused(R"({"bf16": {"enabled": true}, "fp16": {"enabled": true}, "zero_optimization": {"stage": 2}})",
          "--precision says bf16, and the file fp16");
}

}  // namespace
}  // namespace gpuplan
