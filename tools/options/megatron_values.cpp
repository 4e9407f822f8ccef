#include "tools/options/megatron_values.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "estimator/device/read_number.h"

namespace gpuplan {
namespace {

// megatron/training/arguments.py, and the arguments that megatron/core's configurations become, of 0.16.
const std::vector<std::string> kPlanned = {"num-layers",
                                           "hidden-size",
                                           "ffn-hidden-size",
                                           "num-attention-heads",
                                           "group-query-attention",
                                           "num-query-groups",
                                           "kv-channels",
                                           "seq-length",
                                           "max-position-embeddings",
                                           "position-embedding-type",
                                           "normalization",
                                           "norm-epsilon",
                                           "swiglu",
                                           "disable-bias-linear",
                                           "untie-embeddings-and-output-weights",
                                           "vocab-size",
                                           "padded-vocab-size",
                                           "make-vocab-size-divisible-by",
                                           "tokenizer-type",
                                           "hidden-dropout",
                                           "attention-dropout",
                                           "transformer-impl",
                                           "no-masked-softmax-fusion",
                                           "no-gradient-accumulation-fusion",
                                           "no-persist-layer-norm",
                                           "no-create-attention-mask-in-dataloader",
                                           "attention-softmax-in-fp32",
                                           "attention-backend",
                                           "no-rope-fusion",
                                           "tensor-model-parallel-size",
                                           "pipeline-model-parallel-size",
                                           "context-parallel-size",
                                           "cp-comm-type",
                                           "sequence-parallel",
                                           "micro-batch-size",
                                           "global-batch-size",
                                           "bf16",
                                           "fp16",
                                           "optimizer",
                                           "clip-grad",
                                           "use-distributed-optimizer",
                                           "overlap-grad-reduce",
                                           "overlap-param-gather",
                                           "ddp-bucket-size",
                                           "accumulate-allreduce-grads-in-fp32",
                                           "grad-reduce-in-bf16",
                                           "recompute-granularity",
                                           "recompute-method",
                                           "recompute-num-layers",
                                           "recompute-activations",
                                           "recompute-modules"};
// What changes no memory, or only values.
const std::vector<std::string> kWithoutEffect = {"use-mcore-models",
                                                 "rotary-base",
                                                 "rotary-percent",
                                                 "init-method-std",
                                                 "seed",
                                                 "lr",
                                                 "min-lr",
                                                 "lr-decay-style",
                                                 "lr-decay-iters",
                                                 "lr-decay-samples",
                                                 "lr-warmup-iters",
                                                 "lr-warmup-fraction",
                                                 "lr-warmup-samples",
                                                 "weight-decay",
                                                 "adam-beta1",
                                                 "adam-beta2",
                                                 "adam-eps",
                                                 "train-iters",
                                                 "train-samples",
                                                 "eval-iters",
                                                 "eval-interval",
                                                 "exit-interval",
                                                 "exit-duration-in-mins",
                                                 "data-path",
                                                 "train-data-path",
                                                 "valid-data-path",
                                                 "test-data-path",
                                                 "data-cache-path",
                                                 "split",
                                                 "mock-data",
                                                 "num-workers",
                                                 "tokenizer-model",
                                                 "vocab-file",
                                                 "merge-file",
                                                 "save",
                                                 "load",
                                                 "save-interval",
                                                 "ckpt-format",
                                                 "no-load-optim",
                                                 "no-load-rng",
                                                 "log-interval",
                                                 "log-throughput",
                                                 "tensorboard-dir",
                                                 "wandb-project",
                                                 "wandb-exp-name",
                                                 "distributed-backend",
                                                 "distributed-timeout-minutes"};

bool knows(const std::vector<std::string>& list, const std::string& name) {
  return std::ranges::find(list, name) != list.end();
}

}  // namespace

MegatronArguments::MegatronArguments(const Source& script) : script_(script), arguments_(script_arguments(script)) {
  std::vector<std::string> all = kPlanned;
  all.insert(all.end(), kWithoutEffect.begin(), kWithoutEffect.end());
  for (const ScriptArgument& a : arguments_) {
    if (knows(all, a.name)) continue;
    const std::string near = nearest(a.name, all);
    throw Error("--" + a.name + " of Megatron-LM is not planned")
        .at(a.mark)
        .help(near.empty() ? "what it takes is not known here: leave it out, or run the script by gpuplan shadow"
                           : "did you mean --" + near + "?");
  }
}

// The last one counts.
const ScriptArgument* MegatronArguments::find(std::string_view name) const {
  const auto found = std::ranges::find(arguments_.rbegin(), arguments_.rend(), name, &ScriptArgument::name);
  return found == arguments_.rend() ? nullptr : &*found;
}

bool MegatronArguments::flag(std::string_view name) const {
  const ScriptArgument* const a = find(name);
  if (a != nullptr && !a->values.empty())
    throw Error("--" + a->name + " has no value, and " + a->values[0] + " stands behind it").at(a->mark);
  return a != nullptr;
}

std::string MegatronArguments::word(std::string_view name, std::string otherwise) const {
  const ScriptArgument* const a = find(name);
  if (a == nullptr) return otherwise;
  if (a->values.size() != 1)
    throw Error("--" + a->name + " has one value, and here " + std::to_string(a->values.size())).at(a->mark);
  if (a->values[0].find('$') != std::string::npos)
    throw Error("--" + a->name + " is a variable of the shell: " + a->values[0])
        .at(a->mark)
        .help("write its value: no shell is run");
  return a->values[0];
}

std::optional<std::int64_t> MegatronArguments::whole(std::string_view name) const {
  const ScriptArgument* const a = find(name);
  if (a == nullptr) return std::nullopt;
  const std::string text = word(name, "");
  constexpr std::int64_t kMost = 1'000'000'000;
  const std::optional<std::int64_t> value = decimal(text);
  if (!value || *value < 1 || *value > kMost)
    throw Error("--" + a->name + " expects a whole number from 1 to " + std::to_string(kMost) + ", not \"" + text +
                "\"")
        .at(a->mark);
  return value;
}

std::int64_t MegatronArguments::needed(std::string_view name) const {
  if (const std::optional<std::int64_t> value = whole(name)) return *value;
  throw Error(source_name() + " does not say --" + std::string(name)).help("--" + std::string(name) + " N");
}

double MegatronArguments::real(std::string_view name, double otherwise) const {
  const ScriptArgument* const a = find(name);
  if (a == nullptr) return otherwise;
  const std::string text = word(name, "");
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size() || text.empty() || !std::isfinite(value) || value < 0)
    throw Error("--" + a->name + " expects a number from 0, not \"" + text + "\"").at(a->mark);
  return value;
}

void MegatronArguments::refuse(std::string_view name, std::string message, std::string help) const {
  Error error(std::move(message));
  const ScriptArgument* const a = find(name);
  if (a != nullptr) error.at(a->mark);
  if (!help.empty()) error.help(std::move(help));
  throw error;
}

void MegatronArguments::expect(std::string_view name, const std::string& wanted, const std::string& otherwise,
                               std::string why) const {
  if (word(name, otherwise) != wanted) refuse(name, std::move(why), "--" + std::string(name) + " " + wanted);
}

void MegatronArguments::expect_flag(std::string_view name, std::string why) const {
  if (!flag(name)) refuse(name, std::move(why), "--" + std::string(name));
}

}  // namespace gpuplan
