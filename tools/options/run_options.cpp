#include "tools/options/run_options.h"

#include <CLI/CLI.hpp>

namespace gpuplan {

void add_run_options(CLI::App& command, RunOptions& o) {
  command.add_option("model", o.model, "A model file, - for standard input, or zoo:NAME")->type_name("MODEL");
  const auto add = [&](const char* group, const char* names, std::string& value, const char* type, const char* text) {
    return command.add_option(names, value, text)->type_name(type)->group(group);
  };
  const char* const run = "What is run";
  add(run, "-b,--batch", o.batch, "N", "Samples in a batch (1)");
  add(run, "--opt,--optimizer", o.optimizer, "NAME", "Optimizer (sgd): gpuplan explain optimizers");
  add(run, "--opt-impl", o.optimizer_impl, "foreach|for-loop|fused", "Its implementation (foreach; for-loop in 1.13)");
  command.add_flag("--weight-decay", o.weight_decay, "The optimizer decays weights")->group(run);
  command.add_flag("--clip-grad-norm", o.clip, "Clip gradients before the optimizer")->group(run);
  add(run, "--precision,--dtype", o.precision, "fp32|tf32|fp16|bf16|fp64", "Of the whole model (fp32)");
  add(run, "--amp", o.amp, "fp16|bf16", "Autocast, with GradScaler for fp16; weights stay fp32");
  add(run, "--mode", o.mode, "train|infer", "A training step or an inference (train)");
  command.add_flag("--labels", o.labels, "An inference is given labels and computes the model's loss (evaluation)")
      ->group(run);
  command.add_option("--set", o.set, "Overrides a variable of the model; repeatable")
      ->type_name("NAME=VALUE")
      ->group(run)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add(run, "--seq", o.seq, "N", "Short for --set seq=N");
  add(run, "--layout", o.layout, "nchw|nhwc", "Memory format of images and convolutions (nchw)");
  add(run, "--attention", o.attention, "auto|flash|efficient|cudnn|math|eager", "Kernel of attention (auto)");
  add(run, "--loop", o.loop, "plain|function|loss_only", "When the training loop lets go of output and loss (plain)");
  add(run, "--step", o.step, "steady|first", "Which step is the answer (steady)");
  const char* const saving = "To take less memory";
  add(saving, "--micro-batches", o.micro_batches, "N", "Accumulates gradients over N parts of the batch (1)");
  add(saving, "--checkpoint,--ckpt", o.checkpoint, "none|block|every=N|GLOB", "Blocks recomputed in backward");
  add(saving, "--master", o.master, "fp32", "The optimizer steps fp32 copies of half-precision weights");
  command
      .add_flag("--optimizer-in-backward", o.optimizer_in_backward, "Steps each parameter once its gradient is there")
      ->group(saving);
  add(saving, "--offload", o.offload, "optimizer|saved|optimizer,saved", "What waits on the host");
  add(saving, "--weights", o.weights, "int8|int4|fp8", "How an inference stores its weights");
  const char* const tokens = "Generation (--mode infer, a model with a variable seq)";
  add(tokens, "--phase", o.phase, "prefill|decode", "The pass over the prompt, or that of the last token");
  add(tokens, "--prompt", o.prompt, "N", "Tokens given");
  add(tokens, "--generate", o.generate, "N", "Tokens made (1)");
  add(tokens, "--cache", o.cache, "dynamic|static|paged", "Of keys and values (dynamic)");
  const char* const device = "On what";
  add(device, "-d,--gpu,--device", o.gpu, "NAME|SIZE", "A GPU, a GPU file, or a ceiling such as \"22 GiB\"");
  add(device, "--runtime", o.runtime, "SIZE", "CUDA context and libraries (512 MiB, assumed)");
  add(device, "--host-copy", o.host_copy, "pageable|pinned|overlapped|none", "How batches come to the GPU (pinned)");
  add(device, "--pytorch", o.pytorch, "1.13|2.0|...|2.15", "Whose rules (2.15)");
  add(device, "--scratch", o.scratch, "full|no-cudnn|none", "Which kernel scratch counts (full)");
  add(device, "--allocator", o.allocator, "caching|exact|cudaMalloc", "Allocator model (caching)");
  add(device, "--alloc-conf", o.alloc_conf, "TEXT", "As PYTORCH_ALLOC_CONF");
  command.add_flag("--strict", o.strict, "A warning is an error")->group(device);
}

void add_margin_option(CLI::App& command, RunOptions& options) {
  command.add_option("--margin", options.margin, "Part of the GPU's memory that stays free, as in 5% (0%)")
      ->type_name("PERCENT")
      ->group("On what");
}

}  // namespace gpuplan
