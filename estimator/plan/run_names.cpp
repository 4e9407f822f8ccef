#include "estimator/plan/run_names.h"

namespace gpuplan {

std::string_view name_of(Mode mode) { return mode == Mode::train ? "train" : "infer"; }

std::string_view name_of(Loop loop) {
  switch (loop) {
    case Loop::plain: return "plain";
    case Loop::function: return "function";
    case Loop::loss_only: return "loss_only";
  }
  return "";
}

std::string_view name_of(Scratch scratch) {
  switch (scratch) {
    case Scratch::full: return "full";
    case Scratch::no_cudnn: return "no-cudnn";
    case Scratch::none: return "none";
  }
  return "";
}

std::string_view name_of(AllocatorKind allocator) {
  switch (allocator) {
    case AllocatorKind::caching: return "caching";
    case AllocatorKind::exact: return "exact";
    case AllocatorKind::cuda_malloc: return "cudaMalloc";
  }
  return "";
}

std::string_view name_of(OptimizerImpl impl) {
  switch (impl) {
    case OptimizerImpl::foreach_: return "foreach";
    case OptimizerImpl::for_loop: return "for-loop";
    case OptimizerImpl::fused: return "fused";
  }
  return "";
}

std::string_view name_of(const OptimizerConfig& optimizer) {
  switch (optimizer.kind) {
    case OptimizerKind::none: return "none";
    case OptimizerKind::sgd: return optimizer.nesterov ? "nesterov" : optimizer.momentum ? "momentum" : "sgd";
    case OptimizerKind::adam: return optimizer.amsgrad ? "amsgrad" : "adam";
    case OptimizerKind::adamw: return "adamw";
    case OptimizerKind::rmsprop: return "rmsprop";
    case OptimizerKind::adagrad: return "adagrad";
    case OptimizerKind::adadelta: return "adadelta";
    case OptimizerKind::nadam: return "nadam";
    case OptimizerKind::radam: return "radam";
    case OptimizerKind::adamax: return "adamax";
  }
  return "";
}

std::string_view name_of(MemoryFormat layout) { return layout == MemoryFormat::contiguous ? "nchw" : "nhwc"; }

std::string_view name_of(Attention attention) {
  switch (attention) {
    case Attention::automatic: return "auto";
    case Attention::flash: return "flash";
    case Attention::efficient: return "efficient";
    case Attention::cudnn: return "cudnn";
    case Attention::math: return "math";
    case Attention::eager: return "eager";
  }
  return "";
}

std::string_view name_of(WeightFormat weights) {
  switch (weights) {
    case WeightFormat::as_computed: return "";
    case WeightFormat::int8: return "int8";
    case WeightFormat::int4: return "int4";
    case WeightFormat::fp8: return "fp8";
  }
  return "";
}

std::string_view name_of(Generation::Part part) {
  switch (part) {
    case Generation::Part::none: return "";
    case Generation::Part::prefill: return "prefill";
    case Generation::Part::decode: return "decode";
  }
  return "";
}

std::string_view name_of(Generation::Cache cache) {
  switch (cache) {
    case Generation::Cache::dynamic: return "dynamic";
    case Generation::Cache::fixed: return "static";
    case Generation::Cache::paged: return "paged";
  }
  return "";
}

std::string checkpoint_text(const CheckpointConfig& checkpoint) {
  switch (checkpoint.kind) {
    case CheckpointConfig::Kind::as_written: return "as-written";
    case CheckpointConfig::Kind::none: return "none";
    case CheckpointConfig::Kind::block: return "block";
    case CheckpointConfig::Kind::every: return "every=" + std::to_string(checkpoint.every);
    case CheckpointConfig::Kind::glob: return checkpoint.glob;
  }
  return "";
}

std::string_view precision_text(const RunConfig& run) {
  return run.tf32 && run.precision == DType::fp32 ? "tf32" : name_of(run.precision);
}

std::string precision_words(const RunConfig& run) {
  std::string words(precision_text(run));
  if (run.autocast) words += ", amp " + std::string(name_of(*run.autocast));
  return words;
}

std::vector<std::string> extra_words(const RunConfig& run) {
  std::vector<std::string> words;
  const Generation& g = run.generation;
  if (g.part == Generation::Part::prefill) words.push_back("prefill of " + std::to_string(g.prompt) + " tokens");
  if (g.part == Generation::Part::decode) words.push_back("decode of token " + std::to_string(g.tokens()));
  if (g.part != Generation::Part::none) words.push_back(std::string(name_of(g.cache)) + " cache");
  if (run.labels) words.emplace_back("with labels");
  if (run.micro_batches > 1) words.push_back(std::to_string(run.micro_batches) + " micro-batches");
  if (run.checkpoint.kind != CheckpointConfig::Kind::as_written)
    words.push_back("checkpoint " + checkpoint_text(run.checkpoint));
  if (run.layout != MemoryFormat::contiguous) words.emplace_back(name_of(run.layout));
  if (run.attention != Attention::automatic) words.push_back(std::string(name_of(run.attention)) + " attention");
  if (run.master_weights) words.emplace_back("fp32 master weights");
  if (run.optimizer_in_backward) words.emplace_back("optimizer in backward");
  if (run.offload_optimizer) words.emplace_back("optimizer on the host");
  if (run.offload_saved) words.emplace_back("saved tensors on the host");
  if (run.weights != WeightFormat::as_computed) words.push_back(std::string(name_of(run.weights)) + " weights");
  return words;
}

std::string version_text(PyTorchVersion version) {
  return std::to_string(version / 100) + "." + std::to_string(version % 100);
}

}  // namespace gpuplan
