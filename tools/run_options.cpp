#include "tools/run_options.h"

#include <CLI/CLI.hpp>

#include "tools/words.h"

namespace gpuplan {

namespace {

Choices<OptimizerConfig> optimizers() {
  const auto plain = [](OptimizerKind kind) {
    OptimizerConfig config;
    config.kind = kind;
    return config;
  };
  OptimizerConfig momentum = plain(OptimizerKind::sgd);
  momentum.momentum = true;
  OptimizerConfig nesterov = momentum;
  nesterov.nesterov = true;
  OptimizerConfig amsgrad = plain(OptimizerKind::adam);
  amsgrad.amsgrad = true;
  return {{"sgd", plain(OptimizerKind::sgd)},
          {"momentum", momentum},
          {"sgd_momentum", momentum},
          {"nesterov", nesterov},
          {"adam", plain(OptimizerKind::adam)},
          {"adamw", plain(OptimizerKind::adamw)},
          {"amsgrad", amsgrad},
          {"rmsprop", plain(OptimizerKind::rmsprop)},
          {"adagrad", plain(OptimizerKind::adagrad)},
          {"adadelta", plain(OptimizerKind::adadelta)},
          {"nadam", plain(OptimizerKind::nadam)},
          {"radam", plain(OptimizerKind::radam)},
          {"adamax", plain(OptimizerKind::adamax)}};
}

// "1.13", "2.0" ... "2.15" as major * 100 + minor.
Choices<PyTorchVersion> pytorch_versions() {
  Choices<PyTorchVersion> versions = {{"1.13", 113}};
  for (PyTorchVersion v = 200; v <= kNewestPyTorch; ++v) versions.emplace_back("2." + std::to_string(v - 200), v);
  return versions;
}

PyTorchVersion pytorch_version(const std::string& text) {
  for (const auto& [name, version] : pytorch_versions())
    if (name == text) return version;
  throw Error("--pytorch knows the rules of 1.13 and of 2.0 to 2." + std::to_string(kNewestPyTorch - 200) +
                  ", not of \"" + text + "\"",
              ErrorKind::usage);
}

DType precision(const std::string& word) {
  if (word == "tf32" || word == "int8")
    throw Error("--precision " + word + " is not there yet; fp32 lets cuDNN's convolutions use TF32, as PyTorch does",
                ErrorKind::usage);
  return choose<DType>("--precision", word,
                       {{"fp32", DType::fp32}, {"fp64", DType::fp64}, {"fp16", DType::fp16}, {"bf16", DType::bf16}});
}

// A bare flag, or a number: 0 is off.
bool flag_with_number(const std::string& flag, const std::string& text) {
  if (text.empty() || text == "false") return false;
  if (text == "true") return true;
  const bool digits = text.find_first_not_of("0123456789.") == std::string::npos && text != "." &&
                      std::count(text.begin(), text.end(), '.') <= 1;
  const bool scientific = text.find_first_not_of("0123456789.e-") == std::string::npos &&
                          text.find("e-") != std::string::npos && text.front() != 'e' && text.front() != '-' &&
                          text.back() != '-';
  if (!digits && !scientific)
    throw Error(flag + " expects no value or a number >= 0, as in " + flag + "=1.0, not \"" + text + "\"",
                ErrorKind::usage);
  return text.substr(0, text.find('e')).find_first_of("123456789") != std::string::npos;
}

OptimizerConfig optimizer_config(const RunOptions& o, Mode mode, PyTorchVersion pytorch) {
  OptimizerConfig config;
  if (mode == Mode::infer) {
    config.kind = OptimizerKind::none;
    return config;
  }
  config = choose<OptimizerConfig>("--opt", o.optimizer.empty() ? "sgd" : o.optimizer, optimizers());
  // 1.13 runs the for-loop implementation unless told otherwise; 2.0 made foreach the default on CUDA.
  const std::string implied = pytorch < 200 ? "for-loop" : "foreach";
  config.impl = choose<OptimizerImpl>(
      "--opt-impl", o.optimizer_impl.empty() ? implied : o.optimizer_impl,
      {{"foreach", OptimizerImpl::foreach_}, {"for-loop", OptimizerImpl::for_loop}, {"fused", OptimizerImpl::fused}});
  config.weight_decay = flag_with_number("--weight-decay", o.weight_decay);
  return config;
}

std::int64_t size_of_flag(const std::string& flag, const std::string& text) {
  if (const std::optional<std::int64_t> bytes = size_in_bytes(text)) return *bytes;
  throw Error(flag + " expects a size with its unit, such as \"512 MiB\", not \"" + text + "\"", ErrorKind::usage);
}

void refuse_training_flags(const RunOptions& o) {
  const std::pair<const char*, bool> flags[] = {{"--opt", !o.optimizer.empty()},
                                                {"--opt-impl", !o.optimizer_impl.empty()},
                                                {"--weight-decay", !o.weight_decay.empty()},
                                                {"--clip-grad-norm", !o.clip.empty()}};
  for (const auto& [name, given] : flags)
    if (given) throw Error(std::string(name) + " belongs to training: leave it out of --mode infer", ErrorKind::usage);
}

Loop loop_of(const RunOptions& o, Mode mode) {
  // In inference the output is gone before the next forward, unless the plain loop is asked for.
  const std::string implied = mode == Mode::infer ? "function" : "plain";
  if (mode == Mode::infer && o.loop == "loss_only")
    throw Error("--loop loss_only belongs to training: an inference has no loss", ErrorKind::usage);
  return choose<Loop>("--loop", o.loop.empty() ? implied : o.loop,
                      {{"plain", Loop::plain}, {"function", Loop::function}, {"loss_only", Loop::loss_only}});
}

template <class T>
T choice_or(std::string_view flag, const std::string& word, T fallback, const Choices<T>& choices) {
  return word.empty() ? fallback : choose<T>(flag, word, choices);
}

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const auto& [name, config] : optimizers()) names.push_back(name);
  return names;
}

const std::vector<LaterFlag>& later_flags() {
  static const std::vector<LaterFlag> flags = {
      {"--amp", "automatic mixed precision"}, {"--checkpoint", "activation checkpointing"},
      {"--ckpt", "activation checkpointing"}, {"--micro-batches", "gradient accumulation"},
      {"--layout", "channels-last memory"},   {"--attention", "the choice of an attention kernel"},
      {"--margin", "a safety margin"},        {"--zero", "sharded training"},
      {"--gpus", "training on several GPUs"}, {"--flop", "another FLOP convention (there is --count-as)"},
      {"--exit-zero", "report-only runs"},    {"--no-config", "a configuration file"},
  };
  return flags;
}

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
  add(run, "--precision,--dtype", o.precision, "fp32|fp64|fp16|bf16", "Of the whole model (fp32)");
  add(run, "--mode", o.mode, "train|infer", "A training step or an inference (train)");
  command.add_option("--set", o.set, "Overrides a variable of the model; repeatable")
      ->type_name("NAME=VALUE")
      ->group(run)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add(run, "--seq", o.seq, "N", "Short for --set seq=N");
  add(run, "--loop", o.loop, "plain|function|loss_only", "When the training loop lets go of output and loss (plain)");
  add(run, "--step", o.step, "steady|first", "Which step is the answer (steady)");
  const char* const device = "On what";
  add(device, "-d,--gpu,--device", o.gpu, "NAME|SIZE", "A GPU, a GPU file, or a ceiling such as \"22 GiB\"");
  add(device, "--runtime", o.runtime, "SIZE", "CUDA context and libraries (512 MiB, assumed)");
  add(device, "--pytorch", o.pytorch, "1.13|2.0|...|2.15", "Whose rules (2.15)");
  add(device, "--scratch", o.scratch, "full|no-cudnn|none", "Which kernel scratch counts (full)");
  add(device, "--allocator", o.allocator, "caching|exact|cudaMalloc", "Allocator model (caching)");
  add(device, "--alloc-conf", o.alloc_conf, "TEXT", "As PYTORCH_ALLOC_CONF");
  command.add_flag("--strict", o.strict, "A warning is an error")->group(device);
}

RunConfig run_config(const RunOptions& o) {
  RunConfig run;
  run.mode = choice_or<Mode>("--mode", o.mode, Mode::train, {{"train", Mode::train}, {"infer", Mode::infer}});
  if (run.mode == Mode::infer) refuse_training_flags(o);
  if (!o.batch.empty()) run.batch = whole_number("--batch", o.batch, 1, 1'000'000'000);
  if (!o.precision.empty()) run.precision = precision(o.precision);
  if (!o.pytorch.empty()) run.pytorch = pytorch_version(o.pytorch);
  run.optimizer = optimizer_config(o, run.mode, run.pytorch);
  run.clip_grad_norm = flag_with_number("--clip-grad-norm", o.clip);
  run.loop = loop_of(o, run.mode);
  run.scratch = choice_or<Scratch>("--scratch", o.scratch, Scratch::full,
                                   {{"full", Scratch::full}, {"no-cudnn", Scratch::no_cudnn}, {"none", Scratch::none}});
  run.allocator = choice_or<AllocatorKind>("--allocator", o.allocator, AllocatorKind::caching,
                                           {{"caching", AllocatorKind::caching},
                                            {"exact", AllocatorKind::exact},
                                            {"cudaMalloc", AllocatorKind::cuda_malloc}});
  if (!o.alloc_conf.empty() && run.allocator != AllocatorKind::caching)
    throw Error("--alloc-conf belongs to --allocator caching", ErrorKind::usage);
  run.alloc_conf = o.alloc_conf;
  if (!o.runtime.empty()) run.context_bytes = size_of_flag("--runtime", o.runtime);
  run.first_step = choice_or<bool>("--step", o.step, false, {{"steady", false}, {"first", true}});
  return run;
}

}  // namespace gpuplan
