#include "tools/options/megatron_arguments.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/amount.h"
#include "estimator/base/integers.h"
#include "tools/importers/import.h"
#include "tools/importers/megatron_model.h"
#include "tools/options/megatron_script.h"
#include "tools/options/words.h"
#include "tools/process/read_source.h"

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
                                           "sequence-parallel",
                                           "micro-batch-size",
                                           "global-batch-size",
                                           "bf16",
                                           "fp16",
                                           "optimizer",
                                           "clip-grad",
                                           "use-distributed-optimizer",
                                           "overlap-grad-reduce",
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

class MegatronReader {
 public:
  MegatronReader(const Source& script, SeveralGpusOptions& several, RunOptions& run)
      : several_(several), run_(run), arguments_(script_arguments(script)) {
    std::vector<std::string> all = kPlanned;
    all.insert(all.end(), kWithoutEffect.begin(), kWithoutEffect.end());
    for (const ScriptArgument& a : arguments_) {
      if (knows(all, a.name)) continue;
      const std::string near = nearest(a.name, all);
      throw Error("--" + a.name + " of Megatron-LM is not planned")
          .at(a.mark)
          .help(near.empty() ? "without Megatron's source, its memory is not known: leave it out, or run the script by "
                               "gpuplan shadow"
                             : "did you mean --" + near + "?");
    }
  }

  MegatronModel read() {
    read_ranks();
    read_state();
    read_batch();
    read_recomputation();
    refuse_others();
    return model();
  }

 private:
  const ScriptArgument* find(std::string_view name) const {  // the last one counts
    const auto found = std::ranges::find(arguments_.rbegin(), arguments_.rend(), name, &ScriptArgument::name);
    return found == arguments_.rend() ? nullptr : &*found;
  }
  bool flag(std::string_view name) const { return find(name) != nullptr; }
  std::string word(std::string_view name, std::string otherwise) const {
    const ScriptArgument* const a = find(name);
    if (a == nullptr) return otherwise;
    if (a->values.size() != 1) throw Error("--" + a->name + " has one value").at(a->mark);
    if (a->values[0].find('$') != std::string::npos)
      throw Error("--" + a->name + " is a variable of the shell: " + a->values[0])
          .at(a->mark)
          .help("write its value: no shell is run");
    return a->values[0];
  }
  std::optional<std::int64_t> whole(std::string_view name) const {
    const ScriptArgument* const a = find(name);
    if (a == nullptr) return std::nullopt;
    const std::string text = word(name, "");
    constexpr std::int64_t kMost = 1'000'000'000;
    const std::optional<std::int64_t> value = decimal(text);
    if (!value || *value < 1 || *value > kMost)
      throw Error("--" + a->name + " expects a whole number from 1, not \"" + text + "\"").at(a->mark);
    return value;
  }
  std::int64_t whole(std::string_view name, std::int64_t otherwise) const { return whole(name).value_or(otherwise); }
  std::int64_t needed(std::string_view name) const {
    if (const std::optional<std::int64_t> value = whole(name)) return *value;
    throw Error(several_.megatron + " does not say --" + std::string(name));
  }
  double real(std::string_view name, double otherwise) const {
    const ScriptArgument* const a = find(name);
    if (a == nullptr) return otherwise;
    const std::string text = word(name, "");
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (end != text.c_str() + text.size() || text.empty() || !std::isfinite(value) || value < 0)
      throw Error("--" + a->name + " expects a number, not \"" + text + "\"").at(a->mark);
    return value;
  }
  [[noreturn]] void refuse(std::string_view name, std::string message, std::string help) const {
    Error error(std::move(message));
    if (const ScriptArgument* const a = find(name)) error.at(a->mark);
    error.help(std::move(help));
    throw error;
  }
  void expect(std::string_view name, const std::string& wanted, const std::string& otherwise,
              const std::string& why) const {
    if (word(name, otherwise) != wanted) refuse(name, why, "--" + std::string(name) + " " + wanted);
  }
  void expect_flag(std::string_view name, const std::string& why) const {
    if (!flag(name)) refuse(name, why, "--" + std::string(name));
  }
  void set(const char* name, std::string& option, const std::string& value) const {
    if (!option.empty() && option != value)
      throw Error(std::string(name) + " says " + option + ", and " + several_.megatron + " says " + value,
                  ErrorKind::usage)
          .help("leave out " + std::string(name));
    option = value;
  }

  void read_ranks() {
    const std::int64_t gpus = whole_number("--gpus", several_.gpus, 1, kMostGpus);
    tensor_ = whole("tensor-model-parallel-size", 1);
    for (const char* name : {"pipeline-model-parallel-size", "context-parallel-size"})
      if (whole(name, 1) > 1)
        refuse(name, "--" + std::string(name) + " is planned of no run of Megatron-core yet",
               "leave it out; --pp and --cp plan PyTorch's");
    if (flag("sequence-parallel") && tensor_ > 1)
      refuse("sequence-parallel",
             "Megatron-core refuses sequence parallelism with PyTorch's norms: \"sequence parallel not supported by "
             "torch LayerNorm\"",
             "without Apex and Transformer Engine, leave it out");
    if (gpus % tensor_ != 0)
      refuse("tensor-model-parallel-size",
             "--gpus " + several_.gpus + " is not a multiple of " + std::to_string(tensor_), "");
    ranks_ = gpus / tensor_;
    set("--tp", several_.tensor, std::to_string(tensor_));
  }

  void read_state() {
    if (flag("fp16") || !flag("bf16")) refuse("fp16", "Megatron-core is planned in bf16", "--bf16");
    expect("optimizer", "adam", "adam", "of Megatron-core's optimizers, Adam is planned");
    MegatronSettings& m = several_.megatron_settings.emplace();
    m.distributed_optimizer = flag("use-distributed-optimizer");
    m.fp32_gradients = !flag("grad-reduce-in-bf16");  // of bf16, arguments.py says --accumulate-allreduce-grads-in-fp32
    m.overlaps_reductions = flag("overlap-grad-reduce");
    m.bucket_elements = whole("ddp-bucket-size", 0);
    set("--precision", run_.precision, "bf16");
    set("--opt", run_.optimizer, "adamw");  // torch.optim.AdamW stands in for Apex's FusedAdam (optimizer/__init__.py)
    set("--loop", run_.loop, "function");
    if (real("clip-grad", 1) > 0 && run_.clip.empty()) run_.clip = word("clip-grad", "1.0");
  }

  void read_batch() {
    const std::int64_t each = needed("micro-batch-size"), together = checked_mul(each, ranks_);
    const std::int64_t all = whole("global-batch-size", together);
    if (all % together != 0)
      refuse("global-batch-size",
             "--global-batch-size " + std::to_string(all) + " is not a multiple of --micro-batch-size times " +
                 std::to_string(ranks_) + " data-parallel ranks",
             "the next one is " + std::to_string((all / together + 1) * together));
    set("--batch", run_.batch, std::to_string(all));
    set("--micro-batches", run_.micro_batches, std::to_string(all / together));
  }

  void read_recomputation() {
    const std::string kind = word("recompute-granularity", flag("recompute-activations") ? "selective" : "");
    if (kind == "full") {
      expect("recompute-method", "uniform", "", "of full recomputation, that of each layer is planned");
      expect("recompute-num-layers", "1", "1", "of full recomputation, that of each layer is planned");
      set("--checkpoint", run_.checkpoint, "block,reentrant");
    } else if (kind == "selective") {
      expect("recompute-modules", "core_attn", "core_attn",
             "of selective recomputation, that of core attention is planned");
      recomputes_attention_ = true;
    } else if (!kind.empty()) {
      refuse("recompute-granularity", "--recompute-granularity is full or selective, not \"" + kind + "\"", "");
    }
  }

  // Megatron-core's modules without Apex and Transformer Engine: what was recorded.
  void refuse_others() const {
    expect("transformer-impl", "local", "transformer_engine",
           "Transformer Engine, Megatron's default, is not planned: its kernels keep other activations. With local "
           "modules, "
           "parameters, gradients and the optimizer are the same");
    const std::string apex = "Apex's kernels are not planned: ";
    expect_flag("no-masked-softmax-fusion", apex + "its softmax is fused");
    expect_flag("no-gradient-accumulation-fusion", apex + "they add a product to the main gradient");
    expect_flag("no-persist-layer-norm", "PyTorch's norms are planned, and Megatron-core refuses to persist them");
    expect_flag("no-create-attention-mask-in-dataloader", "a mask from the data loader is not planned");
    expect_flag("swiglu", "models with SwiGLU are planned");
    expect_flag("disable-bias-linear", "models without biases are planned");
    expect_flag("untie-embeddings-and-output-weights", "models with a head of their own are planned");
    expect("position-embedding-type", "rope", "learned_absolute", "models with rotary positions are planned");
    for (const char* name : {"hidden-dropout", "attention-dropout"})
      if (real(name, 0.1) != 0) refuse(name, "models without dropout are planned", "--" + std::string(name) + " 0");
  }

  MegatronModel model() const {
    MegatronModel m;
    m.layers = needed("num-layers");
    m.hidden = needed("hidden-size");
    m.heads = needed("num-attention-heads");
    m.tokens = needed("seq-length");
    m.groups = flag("group-query-attention") ? whole("num-query-groups", 1) : m.heads;
    m.head = whole("kv-channels", m.hidden / m.heads);
    constexpr std::int64_t kOfInner = 64;  // arguments.py, of swiglu: int((4 * hidden * 2 / 3) / 64) * 64
    m.inner = whole("ffn-hidden-size", checked_mul(8, m.hidden) / 3 / kOfInner * kOfInner);
    m.vocabulary = vocabulary();
    m.ranks = tensor_;
    const std::string norm = word("normalization", "LayerNorm");
    if (norm != "RMSNorm") refuse("normalization", "models with RMSNorm are planned", "--normalization RMSNorm");
    m.root_mean_square = true;
    m.epsilon = real("norm-epsilon", 1e-5);
    m.recomputes_attention = recomputes_attention_;
    const std::pair<const char*, std::int64_t> divided[] = {{"num-attention-heads", m.heads},
                                                            {"num-query-groups", m.groups},
                                                            {"ffn-hidden-size", m.inner},
                                                            {"padded-vocab-size", m.vocabulary}};
    for (const auto& [name, size] : divided)
      if (size % tensor_ != 0)
        refuse(name,
               "--" + std::string(name) + " " + std::to_string(size) +
                   " is not a multiple of --tensor-model-parallel-size " + std::to_string(tensor_),
               "");
    if (m.heads % m.groups != 0)
      refuse("num-query-groups", "--num-query-groups does not divide --num-attention-heads", "");
    if (m.head % 2 != 0)
      refuse("kv-channels", "a head of " + std::to_string(m.head) + " has no halves to rotate",
             "an even --kv-channels");
    return m;
  }

  // tokenizer.py, _vocab_size_with_padding; a NullTokenizer has an end of document beside --vocab-size.
  std::int64_t vocabulary() const {
    if (const std::optional<std::int64_t> padded = whole("padded-vocab-size")) return *padded;
    if (word("tokenizer-type", "") != "NullTokenizer")
      throw Error(several_.megatron + " does not say how many tokens its tokenizer has")
          .help("--padded-vocab-size 128256, which its log prints");
    return round_up(needed("vocab-size") + 1, checked_mul(whole("make-vocab-size-divisible-by", 128), tensor_));
  }

  SeveralGpusOptions& several_;
  RunOptions& run_;
  std::vector<ScriptArgument> arguments_;
  std::int64_t tensor_ = 1, ranks_ = 1;
  bool recomputes_attention_ = false;
};

}  // namespace

void read_megatron(SeveralGpusOptions& several, RunOptions& run) {
  if (several.gpus.empty()) throw Error("--megatron needs --gpus", ErrorKind::usage).help("for example --gpus 8");
  if (!run.model.empty())
    throw Error("--megatron reads the model, too, and " + run.model + " is another one", ErrorKind::usage)
        .help("leave out one of them");
  if (!several.zero.empty() || !several.fsdp.empty())
    throw Error("--megatron says how ranks share the model", ErrorKind::usage).help("leave out --zero and --fsdp");
  const std::shared_ptr<const Source> script = read_file_source(several.megatron);
  const MegatronModel model = MegatronReader(*script, several, run).read();
  run.model = several.megatron;
  run.piped = std::make_shared<const Source>(Source{import_name(several.megatron), megatron_spec(model)});
}

}  // namespace gpuplan
