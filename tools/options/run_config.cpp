// From the flags to a RunConfig.
#include "tools/options/library_words.h"
#include "tools/options/run_values.h"

namespace gpuplan {

namespace {

// "1.13", "2.0" ... "2.15" as major * 100 + minor.
Choices<PyTorchVersion> pytorch_versions() {
  Choices<PyTorchVersion> versions = {{"1.13", 113}};
  for (PyTorchVersion v = 200; v <= kNewestPyTorch; ++v) versions.emplace_back("2." + std::to_string(v - 200), v);
  return versions;
}

PyTorchVersion pytorch_version(const std::string& text) {
  for (const auto& [name, version] : pytorch_versions())
    if (name == text) return version;
  throw Error("--pytorch models 1.13 and 2.0 to 2." + std::to_string(kNewestPyTorch - 200) + ", not \"" + text + "\"",
              ErrorKind::usage);
}

std::int64_t size_of_flag(const std::string& flag, const std::string& text) {
  if (const std::optional<std::int64_t> bytes = size_in_bytes(text)) return *bytes;
  throw Error(flag + " expects a size with its unit, such as \"512 MiB\", not \"" + text + "\"", ErrorKind::usage);
}

// Flags that mean nothing in the other mode are refused, not ignored.
void refuse_training_flags(const RunOptions& o) {
  const std::pair<const char*, bool> flags[] = {{"--opt", !o.optimizer.empty()},
                                                {"--opt-impl", !o.optimizer_impl.empty()},
                                                {"--weight-decay", !o.weight_decay.empty()},
                                                {"--clip-grad-norm", !o.clip.empty()},
                                                {"--save", !o.save.empty()},
                                                {"--like", !o.like.empty()},
                                                {"--micro-batches", !o.micro_batches.empty()},
                                                {"--checkpoint", !o.checkpoint.empty()},
                                                {"--master", !o.master.empty()},
                                                {"--optimizer-in-backward", o.optimizer_in_backward},
                                                {"--lora", !o.lora.empty()},
                                                {"--offload", !o.offload.empty()},
                                                {"--zero-grad", !o.zero_grad.empty()}};
  for (const auto& [name, given] : flags)
    if (given) throw Error(std::string(name) + " is for training: leave it out with --mode infer", ErrorKind::usage);
}

void refuse_inference_flags(const RunOptions& o) {
  const std::pair<const char*, bool> flags[] = {{"--phase", !o.phase.empty()},
                                                {"--prompt", !o.prompt.empty()},
                                                {"--generate", !o.generate.empty()},
                                                {"--cache", !o.cache.empty()},
                                                {"--labels", o.labels}};
  for (const auto& [name, given] : flags)
    if (given) throw Error(std::string(name) + " needs --mode infer", ErrorKind::usage);
}

Loop loop_of(const RunOptions& o, Mode mode) {
  if (mode == Mode::infer && o.loop == "loss_only")
    throw Error("--loop loss_only is for training: an inference has no loss", ErrorKind::usage);
  // In inference the output is gone before the next forward, unless the plain loop is asked for.
  return word_or("--loop", o.loop, mode == Mode::infer ? Loop::function : Loop::plain);
}

// transformers.TrainingArguments' defaults: optim="adamw_torch_fused", max_grad_norm=1.0; and compute_loss() returns
// the loss alone.
// Lightning's training_step() does, too.
RunOptions with_its_loop(RunOptions o) {
  if (!o.loop.empty())
    throw Error("--loop is that of --like " + o.like, ErrorKind::usage).help("leave out one of them");
  o.loop = "loss_only";
  if (o.like != "trainer") return o;
  if (o.clip.empty()) o.clip = "1.0";
  if (!o.optimizer.empty()) return o;
  o.optimizer = o.optimizer_impl.empty() ? "adamw_torch_fused" : "adamw_torch";
  return o;
}

RunConfig read_run_config(const RunOptions& o) {
  RunConfig run;
  run.mode = word_or("--mode", o.mode, Mode::train);
  run.mode == Mode::infer ? refuse_training_flags(o) : refuse_inference_flags(o);
  if (!o.batch.empty()) run.batch = whole_number("--batch", o.batch, 1, 1'000'000'000);
  set_precision(o, run);
  if (!o.pytorch.empty()) run.pytorch = pytorch_version(o.pytorch);
  run.optimizer = optimizer_config(o, run.mode, run.pytorch);
  run.kernels = word_or("--kernels", o.kernels, Kernels::torch);
  if (!o.peft.empty())
    throw Error("--peft is for gpuplan plan, sweep and check, which run peft", ErrorKind::usage)
        .help("--lora r=16 adds adapters by rules; gpuplan sweep --over gpu=l4,a10g runs peft for several GPUs");
  if (is_library_form(o.weights))
    throw Error("--weights " + o.weights + " is for gpuplan plan, sweep and check, which run the library's own code",
                ErrorKind::usage)
        .help(
            "here they are int8, int4, fp8, nf4, nf4:double, fp4 or fp4:double; gpuplan sweep --over gpu=l4,a10g runs "
            "it "
            "for several GPUs");
  if (is_library_like(o.like))
    throw Error("--like " + o.like + " is for gpuplan plan, sweep and check, which run the library's own trainer",
                ErrorKind::usage)
        .help(
            "here it is pytorch, trainer, accelerate or lightning; gpuplan sweep --over gpu=l4,a10g runs it for "
            "several GPUs");
  run.like = word_or("--like", o.like, Like::pytorch);
  run.clip_grad_norm = flag_with_number("--clip-grad-norm", o.clip);
  run.save = word_or("--save", o.save, SavedCheckpoint::none);
  run.layout = word_or("--layout", o.layout, MemoryFormat::contiguous);
  run.attention = word_or("--attention", o.attention, Attention::automatic);
  set_memory_savers(o, run);
  run.generation = generation(o);
  run.labels = o.labels;
  if (run.labels && run.generation.part != Generation::Part::none)
    throw Error("--labels: generation has no labels", ErrorKind::usage);
  run.loop = loop_of(o, run.mode);
  run.zero_grad = word_or("--zero-grad", o.zero_grad, ZeroGrad::forward);
  if (!o.zero_grad.empty() && (run.like == Like::trainer || run.like == Like::lightning))
    throw Error("--zero-grad is that of --like " + o.like, ErrorKind::usage).help("leave out one of them");
  run.scratch = word_or("--scratch", o.scratch, Scratch::full);
  run.allocator = word_or("--allocator", o.allocator, AllocatorKind::caching);
  if (!o.alloc_conf.empty() && run.allocator != AllocatorKind::caching)
    throw Error("--alloc-conf needs --allocator caching", ErrorKind::usage);
  if (!o.segments.empty() && run.allocator != AllocatorKind::caching)
    throw Error("--segments needs --allocator caching", ErrorKind::usage);
  run.segments = word_or("--segments", o.segments, SegmentOrder::rising);
  run.alloc_conf = o.alloc_conf;
  if (!o.runtime.empty()) run.context_bytes = size_of_flag("--runtime", o.runtime);
  run.first_step = choice_or<bool>("--step", o.step, false, {{"steady", false}, {"first", true}});
  return run;
}

}  // namespace

RunConfig run_config(const RunOptions& o) {
  const bool sets_loop = o.like == "trainer" || o.like == "lightning";
  return read_run_config(sets_loop && o.mode != "infer" ? with_its_loop(o) : o);
}

}  // namespace gpuplan
