#include "tools/options/run_options.h"

#include <CLI/CLI.hpp>

namespace gpuplan {

void add_python_options(CLI::App& command, std::vector<std::string>& inputs, std::vector<std::string>& arguments) {
  const auto add = [&](const char* name, std::vector<std::string>& values, const char* type, const char* text) {
    command.add_option(name, values, text)
        ->type_name(type)
        ->group("A model in Python")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  add("--input", inputs, "SIZES",
      "An input without the batch: 3x224x224, 128:int64 or NAME:int64:128, also with sizes that --set gives; "
      "repeatable");
  add("--arg", arguments, "NAME=VALUE", "An argument of the callable, or a value of the config; repeatable");
}

void add_run_options(CLI::App& command, RunOptions& o) {
  command
      .add_option("model", o.model,
                  "A model file, zoo:NAME, - for standard input, or a model in Python: timm:NAME, torchvision:NAME, "
                  "hf:NAME, FILE.py:CALLABLE")
      ->type_name("MODEL");
  const auto add = [&](const char* group, const char* names, std::string& value, const char* type, const char* text) {
    return command.add_option(names, value, text)->type_name(type)->group(group);
  };
  const char* const run = "Run";
  add(run, "-b,--batch", o.batch, "N", "Samples per step, over all micro-batches and GPUs (1)");
  add(run, "--opt,--optimizer", o.optimizer, "NAME", "Optimizer (sgd); see gpuplan explain optimizers");
  add(run, "--opt-impl", o.optimizer_impl, "foreach|for-loop|fused",
      "Optimizer implementation (foreach; for-loop in PyTorch 1.13)");
  command.add_flag("--weight-decay", o.weight_decay, "Optimizer with weight decay")->group(run);
  command.add_flag("--clip-grad-norm", o.clip, "Clips the gradient norm before the optimizer step")->group(run);
  add(run, "--save", o.save, "full|model|sharded",
      "Saves a checkpoint after the step: model and optimizer whole on the host, the model alone, or each GPU its "
      "part");
  add(run, "--precision,--dtype", o.precision, "fp32|tf32|fp16|bf16|fp64",
      "Type of the model's weights and computation (fp32)");
  add(run, "--amp", o.amp, "fp16|bf16", "torch.autocast with fp32 weights; fp16 adds a GradScaler");
  add(run, "--mode", o.mode, "train|infer", "Training step or inference (train)");
  command
      .add_flag("--labels", o.labels, "With --mode infer: passes labels, so the model computes its loss (evaluation)")
      ->group(run);
  command.add_option("--set", o.set, "Sets a variable of the model; repeatable")
      ->type_name("NAME=VALUE")
      ->group(run)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_python_options(command, o.inputs, o.arguments);
  add(run, "--seq", o.seq, "N", "Sequence length, short for --set seq=N");
  add(run, "--layout", o.layout, "nchw|nhwc", "Memory format of images and convolutions (nchw)");
  add(run, "--attention", o.attention, "auto|flash|efficient|cudnn|math|eager", "Attention kernel (auto)");
  add(run, "--kernels", o.kernels, "torch|liger",
      "Kernels of a decoder's norms, gated products, rotation and loss: liger is use_liger_kernel=True (torch)");
  add(run, "--loop", o.loop, "plain|function|loss_only",
      "When the training loop frees output and loss (plain); see gpuplan explain loop");
  add(run, "--zero-grad", o.zero_grad, "forward|backward",
      "Zeroes gradients before the forward, or only before backward, as PyTorch's ImageNet example does (forward)");
  add(run, "--like", o.like, "pytorch|trainer|accelerate|lightning|trl-sft|trl-dpo|torchtune",
      "Whose training loop: PyTorch's tutorials', transformers' Trainer's, accelerate's, Lightning's, trl's or "
      "torchtune's (pytorch); with settings 'trl-sft(packing=True)'; see gpuplan explain loop");
  add(run, "--step", o.step, "steady|first", "Which step to report: the first, or one in steady state (steady)");
  const char* const saving = "Saving memory";
  add(saving, "--micro-batches", o.micro_batches, "N",
      "Splits the batch into N micro-batches and accumulates gradients (1)");
  add(saving, "--checkpoint,--ckpt", o.checkpoint, "none|block|op|every=N|GLOB",
      "Activation checkpointing: blocks to recompute in backward; block,reentrant with use_reentrant=True; op: by "
      "operator, as torchtitan does it");
  add(saving, "--master", o.master, "fp32", "fp32 master weights for a half-precision model");
  command
      .add_flag("--optimizer-in-backward", o.optimizer_in_backward,
                "Steps each parameter as soon as its gradient is ready, then frees the gradient")
      ->group(saving);
  add(saving, "--offload", o.offload, "optimizer|saved|optimizer,saved", "What to keep in host memory");
  add(saving, "--lora", o.lora, "r=N,...",
      "Trains adapters beside frozen weights (peft): r=16,alpha=32,dropout=0.05,targets=q_proj+v_proj");
  add(saving, "--peft", o.peft, "CONFIG(...)",
      "Any of peft's adapters, by running peft: IA3Config, PrefixTuningConfig(num_virtual_tokens=20), ...");
  add(saving, "--weights", o.weights, "nf4|int8|int4:gptq|...",
      "Form of the weights: bitsandbytes' nf4, fp4 (nf4:double) or int8, with --lora or for inference; int4, fp8 for "
      "inference; a library's own: int4:torchao, fp8:torchao, int4:hqq, int4:gptq, int4:awq");
  const char* const tokens = "Generation (--mode infer, models with a variable seq)";
  add(tokens, "--phase", o.phase, "prefill|decode", "Pass over the prompt, or pass that generates the last token");
  add(tokens, "--prompt", o.prompt, "N", "Length of the prompt, in tokens");
  add(tokens, "--generate", o.generate, "N", "Tokens to generate (1)");
  add(tokens, "--cache", o.cache, "dynamic|static|paged", "Kind of KV cache (dynamic)");
  const char* const device = "Device";
  add(device, "-d,--gpu,--device", o.gpu, "NAME|SIZE", "A GPU, a GPU file, or a memory limit such as \"22 GiB\"");
  add(device, "--runtime", o.runtime, "SIZE", "Memory of the CUDA context and libraries (512 MiB, assumed)");
  add(device, "--host-copy", o.host_copy, "pageable|pinned|overlapped|none",
      "How batches are copied to the GPU (pinned)");
  add(device, "--pytorch", o.pytorch, "1.13|2.0|...|2.15", "PyTorch release to model (2.15)");
  add(device, "--scratch", o.scratch, "full|no-cudnn|none", "Which kernel workspaces to count (full)");
  add(device, "--allocator", o.allocator, "caching|exact|cudaMalloc", "Allocator model (caching)");
  add(device, "--segments", o.segments, "rising|driver",
      "Where segments lie: each above the one before, or by the driver's rule, as read off an H200 (rising)");
  add(device, "--alloc-conf", o.alloc_conf, "TEXT", "Allocator settings, as in PYTORCH_ALLOC_CONF");
  command.add_flag("--strict", o.strict, "Treats warnings as errors")->group(device);
}

void add_margin_option(CLI::App& command, RunOptions& options) {
  command.add_option("--margin", options.margin, "Share of the GPU's memory to keep free, such as 5% (0%)")
      ->type_name("PERCENT")
      ->group("Device");
}

}  // namespace gpuplan
