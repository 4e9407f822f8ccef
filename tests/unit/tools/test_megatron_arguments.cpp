#include "tools/options/megatron_arguments.h"

#include <doctest/doctest.h>

#include "estimator/base/error.h"
#include "tests/support/temporary_folder.h"
#include "tools/options/megatron_script.h"

namespace gpuplan {
namespace {

constexpr const char* kLlama = R"(#!/bin/bash
# --num-layers 99 is a comment
export CUDA_DEVICE_MAX_CONNECTIONS=1
torchrun --nproc-per-node 8 pretrain_gpt.py \
  --transformer-impl local --no-masked-softmax-fusion --no-gradient-accumulation-fusion \
  --no-persist-layer-norm --no-create-attention-mask-in-dataloader --attention-softmax-in-fp32 --no-rope-fusion \
  --num-layers 6 --hidden-size 768 \
  --num_attention_heads=16 --group-query-attention --num-query-groups 8 --seq-length 1024 \
  --normalization "RMSNorm" --swiglu --disable-bias-linear --position-embedding-type rope \
  --untie-embeddings-and-output-weights --hidden-dropout 0 --attention-dropout 0.0 --bf16 --micro-batch-size 2 )";

struct Flags {
  SeveralGpusOptions several;
  RunOptions run;
};

Flags read(const std::string& more, const std::string& script = kLlama) {
  const tests::Folder folder;
  Flags flags;
  flags.several.gpus = "16";
  flags.several.megatron = folder.with("run.sh", script + more);
  read_megatron(flags.several, flags.run);
  return flags;
}

std::string refusal(const std::string& more, const std::string& script = kLlama) {
  try {
    (void)read(more, script);
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

TEST_CASE("a script's words are those of a shell") {
  const Source script{"run.sh", "python pretrain_gpt.py --one 1 \\\n --two 'a b' --three=3 # --four\n--five 5\n"};
  const std::vector<ScriptArgument> all = script_arguments(script);
  REQUIRE_EQ(all.size(), 3);
  CHECK_EQ(all[0].values, std::vector<std::string>{"1"});
  CHECK_EQ(all[1].values, std::vector<std::string>{"a b"});
  CHECK_EQ(all[1].mark.line, 2);
  CHECK_EQ(all[2].name, "three");
  CHECK_EQ(all[2].values, std::vector<std::string>{"3"});
}

TEST_CASE("arguments may be in variables of the script") {
  const Source script{
      "run.sh",
      "N=2\nMODEL=(\n  --one $N\n  --two\n)\nMORE=\"--three 3\"\r\ntorchrun pretrain_gpt.py ${MODEL[@]} \\\r\n $MORE"};
  const std::vector<ScriptArgument> all = script_arguments(script);
  REQUIRE_EQ(all.size(), 3);
  CHECK_EQ(all[0].values, std::vector<std::string>{"2"});
  CHECK_EQ(all[1].name, "two");
  CHECK_EQ(all[2].values, std::vector<std::string>{"3"});
}

TEST_CASE("a script that does not start pretrain_gpt.py, or says what is not known, is refused") {
  const auto error_of = [](const char* text) {
    const Source script{"run.sh", text};
    try {
      (void)script_arguments(script);
    } catch (const Error& e) {
      return e.message();
    }
    return std::string();
  };
  CHECK_EQ(error_of("python pretrain_bert.py --bf16"),
           "--megatron plans pretrain_gpt.py, and this is pretrain_bert.py");
  CHECK_EQ(error_of("echo hello"), "run.sh does not start pretrain_gpt.py");
  CHECK_EQ(error_of("python pretrain_gpt.py --a\npython pretrain_gpt.py --b"), "run.sh starts pretrain_gpt.py twice");
  CHECK_EQ(error_of("python pretrain_gpt.py --bf16 \"$@\""), "what $@ holds is not known, and it may be arguments");
  CHECK_EQ(error_of("--lr 1 $MORE"), "what $MORE holds is not known, and it may be arguments");
  CHECK_EQ(error_of("--lr $LR --bf16"), "");
}

TEST_CASE("Megatron's arguments are flags") {
  const Flags flags = read(
      "--padded-vocab-size 32000 --tensor-model-parallel-size 4 --global-batch-size 32 --use-distributed-optimizer "
      "--overlap-grad-reduce --clip-grad 0.5 --lr $LR");
  CHECK_EQ(flags.several.tensor, "4");
  CHECK_EQ(flags.run.batch, "32");
  CHECK_EQ(flags.run.micro_batches, "4");  // 32 of 4 ranks of data parallelism, 2 at a time
  CHECK_EQ(flags.run.precision, "bf16");
  CHECK_EQ(flags.run.clip, "true");
  const std::optional<Strategy> strategy = strategy_of(flags.several);
  REQUIRE(strategy);
  CHECK(strategy->is_megatron());
  CHECK_EQ(strategy->ranks(), 4);
  CHECK(strategy->megatron.distributed_optimizer);
  CHECK(strategy->megatron.fp32_gradients);
  CHECK(strategy->megatron.overlaps_reductions);
  const std::string& spec = flags.run.piped->text;
  for (const char* line : {"vocabulary: 8000\n", "heads: 4\n", "groups: 2\n", "inner: 512\n", "head: 48\n"})
    CHECK_MESSAGE(spec.find(line) != std::string::npos, line);  // of a rank; 2,048 is int(4 * 768 * 2 / 3 / 64) * 64
}

TEST_CASE("a NullTokenizer has an end of document, and ranks share a multiple of 128 rows each") {
  const Flags flags = read("--tokenizer-type NullTokenizer --vocab-size 32000 --tensor-model-parallel-size 8");
  CHECK(flags.run.piped->text.find("vocabulary: 4096\n") != std::string::npos);  // 32,001 up to 32 * 1,024, by 8
}

TEST_CASE("Transformer Engine is the default, and has sequence parallelism") {
  std::string script = kLlama;
  for (const std::string word : {"--transformer-impl local ", "--no-rope-fusion "})
    script.erase(script.find(word), word.size());
  const std::string rest = "--padded-vocab-size 32000 --tensor-model-parallel-size 2 ";
  const Flags flags = read(rest + "--sequence-parallel", script);
  const std::optional<Strategy> strategy = strategy_of(flags.several);
  REQUIRE(strategy);
  CHECK(strategy->megatron.transformer_engine);
  CHECK(strategy->megatron.sequence_parallel);
  CHECK(flags.run.piped->text.find("TELayerNormLinear(_, ${2*inner}, sequence=True)") != std::string::npos);
  CHECK(refusal(rest + "--attention-backend flash", script).starts_with("of Transformer Engine's attention"));
  CHECK(refusal(rest + "--sequence-parallel --seq-length 1023", script).starts_with("--sequence-parallel divides"));
  CHECK_FALSE(strategy_of(read(rest, script).several)->megatron.sequence_parallel);
}

TEST_CASE("ranks of a context have the same samples, and part of the tokens") {
  std::string script = kLlama;
  for (const std::string word : {"--transformer-impl local ", "--no-rope-fusion "})
    script.erase(script.find(word), word.size());
  const std::string rest = "--padded-vocab-size 32000 --tensor-model-parallel-size 2 --context-parallel-size 4 ";
  const Flags flags = read(rest + "--global-batch-size 16", script);
  CHECK_EQ(flags.run.micro_batches, "4");  // of two groups of ranks, 2 at a time
  const std::optional<Strategy> strategy = strategy_of(flags.several);
  REQUIRE(strategy);
  CHECK_EQ(strategy->context, 4);
  CHECK_EQ(strategy->ranks(), 8);
  CHECK_EQ(strategy->sample_groups(), 2);
  CHECK(flags.run.piped->text.find("seq: 256\n") != std::string::npos);
  CHECK(flags.run.piped->text.find("TERingAttention(4)") != std::string::npos);
  CHECK(refusal(rest + "--seq-length 1020", script).starts_with("Megatron-core cuts samples"));
  CHECK(refusal(rest + "--cp-comm-type a2a", script).starts_with("of context parallelism, the ring"));
  CHECK(refusal(rest + "--context-parallel-size 3", script).starts_with("--gpus 16 is not a multiple of 6"));
  CHECK(refusal("--padded-vocab-size 32000 --context-parallel-size 2").starts_with("Megatron-core refuses contexts"));
}

TEST_CASE("what is not planned of Megatron-core is refused") {
  const std::string rest = "--padded-vocab-size 32000 ";
  CHECK_EQ(refusal(rest), "");
  CHECK_EQ(refusal(rest + "--nun-layers 3"), "--nun-layers of Megatron-LM is not planned");
  CHECK_EQ(refusal(rest + "--seq-length $S"), "--seq-length is a variable of the shell: $S");
  CHECK_EQ(refusal(rest + "--pipeline-model-parallel-size 2"),
           "--pipeline-model-parallel-size is planned of no run of Megatron-core yet");
  CHECK(refusal(rest + "--tensor-model-parallel-size 2 --sequence-parallel").starts_with("Megatron-core refuses"));
  CHECK(refusal(rest + "--transformer-impl transformer_engine").starts_with("with Transformer Engine"));
  CHECK_EQ(refusal(rest + "--hidden-dropout 0.1"), "models without dropout are planned");
  CHECK(refusal(rest + "--global-batch-size 33").starts_with("--global-batch-size 33 is not a multiple"));
  CHECK(refusal("").ends_with("does not say how many tokens its tokenizer has"));
  CHECK(
      refusal(rest + "--num-query-groups 3 --tensor-model-parallel-size 2").starts_with("--num-query-groups 3 is not"));
}

}  // namespace
}  // namespace gpuplan
