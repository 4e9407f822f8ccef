#include "tools/options/megatron_arguments.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "tools/importers/import.h"
#include "tools/importers/megatron_model.h"
#include "tools/options/megatron_values.h"
#include "tools/options/words.h"
#include "tools/process/read_source.h"

namespace gpuplan {
namespace {

constexpr const char* kTransformerEngine = "transformer_engine";

class MegatronReader : MegatronArguments {
 public:
  MegatronReader(const Source& script, SeveralGpusOptions& several, RunOptions& run)
      : MegatronArguments(script), several_(several), run_(run) {}

  MegatronModel read() {
    read_ranks();
    read_state();
    read_batch();
    read_recomputation();
    refuse_others();
    return model();
  }

 private:
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
    context_ = whole("context-parallel-size", 1);
    if (whole("pipeline-model-parallel-size", 1) > 1)
      refuse("pipeline-model-parallel-size", "--pipeline-model-parallel-size is planned of no run of Megatron-core yet",
             "leave it out; --pp plans PyTorch's");
    if (context_ > 1 && !transformer_engine())
      refuse("context-parallel-size",
             "Megatron-core refuses contexts with its own attention: \"Context parallelism is only supported by "
             "TEDotProductAttention!\"",
             "--transformer-impl transformer_engine, or leave it out");
    expect("cp-comm-type", "p2p", "p2p", "of context parallelism, the ring is planned");
    if (flag("sequence-parallel") && tensor_ > 1 && !transformer_engine())
      refuse("sequence-parallel",
             "Megatron-core refuses sequence parallelism with PyTorch's norms: \"sequence parallel not supported by "
             "torch LayerNorm\"",
             "--transformer-impl transformer_engine, or leave it out");
    const std::int64_t together = checked_mul(tensor_, context_);
    if (gpus % together != 0)
      refuse(context_ > 1 ? "context-parallel-size" : "tensor-model-parallel-size",
             "--gpus " + several_.gpus + " is not a multiple of " + std::to_string(together), "");
    ranks_ = gpus / together;
    set("--tp", several_.tensor, std::to_string(tensor_));
    if (context_ > 1) set("--cp", several_.context, std::to_string(context_));
  }

  void read_state() {
    if (flag("fp16") || !flag("bf16")) refuse("fp16", "Megatron-core is planned in bf16", "--bf16");
    expect("optimizer", "adam", "adam", "of Megatron-core's optimizers, Adam is planned");
    MegatronSettings& m = several_.megatron_settings.emplace();
    m.distributed_optimizer = flag("use-distributed-optimizer");
    m.fp32_gradients = !flag("grad-reduce-in-bf16");  // of bf16, arguments.py says --accumulate-allreduce-grads-in-fp32
    m.overlaps_reductions = flag("overlap-grad-reduce");
    m.overlaps_gathers = flag("overlap-param-gather");
    if (m.overlaps_gathers && !(m.distributed_optimizer && m.overlaps_reductions))
      refuse("overlap-param-gather",
             "Megatron-LM refuses it without --use-distributed-optimizer and --overlap-grad-reduce", "");
    m.bucket_elements = whole("ddp-bucket-size", 0);
    m.transformer_engine = transformer_engine();
    m.sequence_parallel = flag("sequence-parallel") && tensor_ > 1;  // arguments.py: with one rank there is none
    set("--precision", run_.precision, "bf16");
    set("--opt", run_.optimizer, "adamw");  // torch.optim.AdamW stands in for Apex's FusedAdam (optimizer/__init__.py)
    set("--loop", run_.loop, "function");
    set("--clip-grad-norm", run_.clip, real("clip-grad", 1) > 0 ? "true" : "false");
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
    const std::string kind = flag("recompute-activations") ? "selective" : word("recompute-granularity", "");
    if (kind == "full") {
      expect("recompute-method", "uniform", "", "of full recomputation, that of each layer is planned");
      expect("recompute-num-layers", "1", "1", "of full recomputation, that of each layer is planned");
      set("--checkpoint", run_.checkpoint, "block,reentrant");
    } else if (kind == "selective") {
      expect("recompute-modules", "core_attn", "core_attn",
             "of selective recomputation, that of core attention is planned");
      for (const char* name : {"recompute-method", "recompute-num-layers"})
        if (!word(name, "").empty())
          refuse(name, "--" + std::string(name) + " is of full recomputation", "leave it out");
      recomputes_attention_ = true;
    } else if (!kind.empty()) {
      refuse("recompute-granularity", "--recompute-granularity is full or selective, not \"" + kind + "\"", "");
    }
  }

  bool transformer_engine() const { return word("transformer-impl", kTransformerEngine) == kTransformerEngine; }

  // Megatron-core's modules without Apex: what was recorded.
  void refuse_others() const {
    if (transformer_engine())
      refuse_other_engine();
    else
      refuse_other_local();
    expect_flag("no-gradient-accumulation-fusion",
                "Apex's kernels are not planned: they add a product to the main gradient");
    expect_flag("no-create-attention-mask-in-dataloader", "a mask from the data loader is not planned");
    expect_flag("swiglu", "models with SwiGLU are planned");
    expect_flag("disable-bias-linear", "models without biases are planned");
    expect_flag("untie-embeddings-and-output-weights", "models with a head of their own are planned");
    expect("position-embedding-type", "rope", "learned_absolute", "models with rotary positions are planned");
    for (const char* name : {"hidden-dropout", "attention-dropout"})
      if (real(name, 0.1) != 0) refuse(name, "models without dropout are planned", "--" + std::string(name) + " 0");
  }

  void refuse_other_engine() const {
    if (flag("no-rope-fusion")) refuse("no-rope-fusion", "with Transformer Engine, its fused rotation is planned", "");
    const std::string attention = word("attention-backend", "auto");
    if (attention != "auto" && attention != "fused")
      refuse("attention-backend", "of Transformer Engine's attention, cuDNN's is planned, which it takes by itself",
             "--attention-backend fused");
  }

  void refuse_other_local() const {
    expect("transformer-impl", "local", kTransformerEngine, "there is transformer_engine, the default, and local");
    expect_flag("no-masked-softmax-fusion", "Apex's kernels are not planned: its softmax is fused");
    expect_flag("no-persist-layer-norm", "PyTorch's norms are planned, and Megatron-core refuses to persist them");
    expect_flag("attention-softmax-in-fp32", "scores are planned in fp32, as Megatron-core's own default is");
    expect_flag("no-rope-fusion", "the fused rotation is Transformer Engine's, and Megatron-core refuses it without");
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
    m.epsilon = real("norm-epsilon", 1e-5);
    m.recomputes_attention = recomputes_attention_;
    m.transformer_engine = transformer_engine();
    m.sequence_parallel = flag("sequence-parallel") && tensor_ > 1;
    m.context = context_;
    if (context_ > 1 && m.tokens % (2 * context_) != 0)
      refuse("seq-length",
             "Megatron-core cuts samples into twice as many pieces as --context-parallel-size: --seq-length " +
                 std::to_string(m.tokens) + " is no multiple of " + std::to_string(2 * context_),
             "");
    if (m.sequence_parallel && m.tokens / context_ % tensor_ != 0)
      refuse("seq-length", "--sequence-parallel divides a rank's tokens by --tensor-model-parallel-size", "");
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
    if (!whole("kv-channels") && m.hidden % m.heads != 0)
      refuse("hidden-size", "--hidden-size is no multiple of --num-attention-heads", "or say --kv-channels");
    if (const std::optional<std::int64_t> most = whole("max-position-embeddings"); most && *most < m.tokens)
      refuse("max-position-embeddings", "Megatron-LM refuses --max-position-embeddings below --seq-length", "");
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
      throw Error(source_name() + " does not say how many tokens its tokenizer has")
          .help("--padded-vocab-size 128256, which its log prints");
    return round_up(needed("vocab-size") + 1, checked_mul(whole("make-vocab-size-divisible-by", 128), tensor_));
  }

  SeveralGpusOptions& several_;
  RunOptions& run_;
  std::int64_t tensor_ = 1, context_ = 1;
  std::int64_t ranks_ = 1;  // that have samples of their own, or groups of `context_` that do
  bool recomputes_attention_ = false;
};

// Flags of what Megatron-core does otherwise, or not at all.
void refuse_flags(const SeveralGpusOptions& several, const RunOptions& run) {
  const std::pair<const char*, bool> flags[] = {{"--zero", !several.zero.empty()},
                                                {"--fsdp", !several.fsdp.empty()},
                                                {"--wrap", !several.wrap.empty()},
                                                {"--no-reshard", several.keep_unsharded},
                                                {"--bucket-view", several.bucket_view},
                                                {"--find-unused-parameters", several.find_unused},
                                                {"--pp", !several.pipeline.empty()},
                                                {"--pp-schedule", !several.pipeline_schedule.empty()},
                                                {"--ep", !several.experts.empty()},
                                                {"--cp", !several.context.empty()},
                                                {"--set", !run.set.empty()},
                                                {"--seq", !run.seq.empty()},
                                                {"--checkpoint", !run.checkpoint.empty()},
                                                {"--pytorch", !run.pytorch.empty()},
                                                {"--weight-decay", !run.weight_decay.empty()},
                                                {"--mode", !run.mode.empty()},
                                                {"--opt-impl", !run.optimizer_impl.empty()},
                                                {"--zero-grad", !run.zero_grad.empty()},
                                                {"--amp", !run.amp.empty()},
                                                {"--layout", !run.layout.empty()},
                                                {"--attention", !run.attention.empty()},
                                                {"--kernels", !run.kernels.empty()},
                                                {"--like", !run.like.empty()},
                                                {"--master", !run.master.empty()},
                                                {"--offload", !run.offload.empty()},
                                                {"--optimizer-in-backward", run.optimizer_in_backward},
                                                {"--weights", !run.weights.empty()},
                                                {"--lora", !run.lora.empty()},
                                                {"--peft", !run.peft.empty()},
                                                {"--input", !run.inputs.empty()},
                                                {"--arg", !run.arguments.empty()}};
  for (const auto& [flag, given] : flags)
    if (given)
      throw Error(std::string(flag) + " is not planned with --megatron, whose file says what is run", ErrorKind::usage)
          .help("leave out " + std::string(flag));
}

}  // namespace

void read_megatron(SeveralGpusOptions& several, RunOptions& run) {
  if (!several.accelerate.empty() || !several.deepspeed.empty())
    throw Error("--megatron, --accelerate and --deepspeed say what is run each", ErrorKind::usage)
        .help("leave out all but one");
  if (several.gpus.empty()) throw Error("--megatron needs --gpus", ErrorKind::usage).help("for example --gpus 8");
  if (!run.model.empty())
    throw Error("--megatron reads the model, too, and " + run.model + " is another one", ErrorKind::usage)
        .help("leave out one of them");
  refuse_flags(several, run);
  const std::shared_ptr<const Source> script = read_file_source(several.megatron);
  const MegatronModel model = MegatronReader(*script, several, run).read();
  run.model = several.megatron;
  run.piped = std::make_shared<const Source>(Source{import_name(several.megatron), megatron_spec(model)});
}

}  // namespace gpuplan
