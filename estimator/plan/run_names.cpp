#include "estimator/plan/run_names.h"

#include <sstream>

#include "estimator/optimizer/recorded_optimizer.h"

namespace gpuplan {

namespace {

std::string_view rule_of(const OptimizerConfig& optimizer) {
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

// Without the zeros that std::to_string writes.
std::string number_text(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

}  // namespace

std::string name_of(const OptimizerConfig& optimizer) {
  if (optimizer.recorder) return optimizer.recorder->name();
  if (!optimizer.bitsandbytes) return std::string(rule_of(optimizer));
  const BitsandbytesOptimizer& b = *optimizer.bitsandbytes;
  const std::string_view wide = is_in_torch(b.rule) ? "32bit" : "";
  return (b.paged ? "paged_" : "") + std::string(name_of(b.rule)) + std::string(b.eight_bit ? "8bit" : wide);
}

std::string lora_text(const Lora& lora) {
  std::string text = "r=" + std::to_string(lora.rank) + ",alpha=" + number_text(lora.alpha);
  if (lora.dropout > 0) text += ",dropout=" + number_text(lora.dropout);
  if (lora.dora) text += ",dora=true";
  text += ",targets=" + joined(lora.targets, "+");
  return lora.saved.empty() ? text : text + ",save=" + joined(lora.saved, "+");
}

std::string checkpoint_text(const CheckpointConfig& checkpoint) {
  const std::string reentrant = checkpoint.reentrant ? ",reentrant" : "";
  switch (checkpoint.kind) {
    case CheckpointConfig::Kind::as_written: return "as-written";
    case CheckpointConfig::Kind::none: return "none";
    case CheckpointConfig::Kind::block: return "block" + reentrant;
    case CheckpointConfig::Kind::every: return "every=" + std::to_string(checkpoint.every) + reentrant;
    case CheckpointConfig::Kind::glob: return checkpoint.glob + reentrant;
    case CheckpointConfig::Kind::op: return "op";
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
  if (run.kernels == Kernels::liger) words.emplace_back("Liger's kernels");
  if (run.like != Like::pytorch) words.push_back("as " + std::string(name_of(run.like)));
  if (run.micro_batches > 1) words.push_back(std::to_string(run.micro_batches) + " micro-batches");
  if (run.checkpoint.kind != CheckpointConfig::Kind::as_written)
    words.push_back("checkpoint " + checkpoint_text(run.checkpoint));
  if (run.layout != MemoryFormat::contiguous) words.emplace_back(name_of(run.layout));
  if (run.attention != Attention::automatic) words.push_back(std::string(name_of(run.attention)) + " attention");
  if (run.master_weights) words.emplace_back("fp32 master weights");
  if (run.tensor_ranks > 1 && run.optimizer.impl == OptimizerImpl::for_loop && run.in_training())
    words.emplace_back("foreach=False");
  if (run.save == SavedCheckpoint::sharded) words.emplace_back("each GPU saves its shards");
  if (run.save == SavedCheckpoint::full) words.emplace_back("a full checkpoint is saved");
  const bool adapters = run.lora && run.weights != WeightFormat::as_computed;
  if (run.save == SavedCheckpoint::model)
    words.emplace_back(adapters ? "adapters are saved" : "the full model is saved");
  if (run.optimizer_in_backward) words.emplace_back("optimizer in backward");
  if (run.offload_optimizer) words.emplace_back("optimizer on the host");
  if (run.offload_saved) words.emplace_back("saved tensors on the host");
  if (run.lora)
    words.push_back((run.lora->dora ? "DoRA r=" : "LoRA r=") + std::to_string(run.lora->rank) + " on " +
                    joined(run.lora->targets, " ") +
                    (run.lora->saved.empty() ? "" : ", " + joined(run.lora->saved, " ") + " trained"));
  if (run.weights != WeightFormat::as_computed) words.push_back(std::string(name_of(run.weights)) + " weights");
  return words;
}

std::string version_text(PyTorchVersion version) {
  return std::to_string(version / 100) + "." + std::to_string(version % 100);
}

}  // namespace gpuplan
