#include "estimator/launch/properties.h"

#include <cstdint>

#include "estimator/base/error.h"
#include "estimator/base/list_text.h"
#include "estimator/plan/run_names.h"

namespace gpuplan {
namespace {

// Who can be told; `script`: of DeepSpeed the user's script, which the file is not.
enum By : std::uint8_t { nobody = 0, torchrun = 1, torchtitan = 2, deepspeed = 4, megatron = 8, script = 16 };

struct Property {
  std::string flag;
  bool asked = false;
  int by = nobody;
  const char* help = nullptr;  // instead of who can be told
};

// What transformers says of FSDP2 beside experts (transformers/distributed/fsdp.py, fsdp_mixed_precision).
bool has_policy_of_experts(const Strategy& s) {
  const bool none = !s.param_type && !s.reduce_type;
  return none || (s.param_type == DType::bf16 && s.reduce_type == DType::fp32);
}

// In PyTorch 2.15, without a word, what the shards are stored in.
DType reduced_in(const Launch& l) { return l.strategy.reduce_type.value_or(l.run.precision); }

void add_sharing(const Launch& l, std::vector<Property>& all) {
  const Strategy& s = l.strategy;
  const bool formulas = l.by_formulas, fsdp = s.data == DataParallel::fsdp;
  const bool decoder = !l.config.empty();
  all.insert(
      all.end(),
      {{"a plan of Megatron-LM's layers (--tp and --pp by its formulas)", formulas, megatron,
        "--pp-schedule 1f1b plans the stages of PyTorch"},
       {"a plan of PyTorch's own modules", !formulas, torchrun | torchtitan | deepspeed,
        "--tp N --pp N of a GPT, without --pp-schedule, plans Megatron-LM's layers"},
       {"--zero ddp", !formulas && s.data == DataParallel::ddp, torchrun},
       {"--zero 1", s.data == DataParallel::zero1, torchrun | megatron},
       {"DeepSpeed's ZeRO", s.is_deepspeed(), deepspeed},
       {"--zero fsdp", fsdp && !s.flat, torchrun | torchtitan},
       {"--fsdp version=1", s.flat.has_value(), nobody, "--fsdp without version=1 is FSDP2, which both are told"},
       {"one GPU", !formulas && !s.shares(), nobody, "--gpus 8"},
       {"no data parallelism beside --tp or --pp", s.data == DataParallel::none, torchrun | torchtitan},
       {"--accelerate", s.as_accelerate, nobody, "accelerate launch --config_file FILE train.py runs such a plan"},
       {"--bucket-view", s.gradient_as_bucket_view, torchrun},
       {"--find-unused-parameters", s.find_unused_parameters, torchrun},
       {"--wrap", !s.unit_glob.empty(), torchrun},
       {"--fsdp sync=last", s.reduces_last && !s.runs_stages(), torchrun},
       {"gradients that FSDP2 reduces in another type than fp32", fsdp && reduced_in(l) != DType::fp32, torchrun,
        "--fsdp param=bf16,reduce=fp32 is what torchtitan does"},
       {"--fsdp param=fp16", s.param_type == DType::fp16, torchrun},
       {"--fsdp offload=true with --tp or --pp", fsdp && s.offloads && s.tensor * s.pipeline > 1, nobody},
       {"--ep", s.experts > 1, torchrun},
       {"--cp", s.context > 1, nobody, "accelerate launch with parallelism_config_cp_size runs such a plan"},
       {"a schedule of several stages a GPU", s.runs_stages() && s.pipelining.stages_each > 1, nobody,
        "--pp-schedule 1f1b and gpipe are written"},
       {"--ep with another policy than --fsdp param=bf16,reduce=fp32", s.experts > 1 && !has_policy_of_experts(s),
        nobody},
       {"--ep with --fsdp offload=true or sync=last", s.experts > 1 && (s.offloads || s.reduces_last), nobody},
       {"--tp, --ep and --pp of a model whose class is not known here",
        !formulas && !decoder && (s.tensor > 1 || s.experts > 1 || s.pipeline > 1), torchtitan,
        "they are written for a config.json of a causal decoder, and for zoo:llama3_8b and its like"}});
}

void add_run(const Launch& l, std::vector<Property>& all) {
  const RunConfig& r = l.run;
  using Kind = CheckpointConfig::Kind;
  const Kind kind = r.checkpoint.kind;
  const bool adam = r.optimizer.kind == OptimizerKind::adam || r.optimizer.kind == OptimizerKind::adamw;
  const bool own_optimizer = r.optimizer.bitsandbytes || r.optimizer.recorder;
  const bool checkpoints = !l.checkpointed.empty() && !l.by_formulas;
  all.insert(
      all.end(),
      {{"--mode infer", r.mode == Mode::infer, nobody, "a training step is written"},
       {"--precision fp64", r.precision == DType::fp64, torchrun},
       {"--precision fp16", r.precision == DType::fp16, torchrun | deepspeed | megatron},
       {"--precision tf32", r.tf32, torchrun},
       {"--amp fp16", r.scales_gradients(), nobody, "--amp bf16 needs no GradScaler"},
       {"--amp " + std::string(r.autocast ? name_of(*r.autocast) : ""), r.autocast.has_value(), torchrun | script},
       {"--layout nhwc", r.layout != MemoryFormat::contiguous, script},
       {"--attention " + std::string(name_of(r.attention)), r.attention != Attention::automatic, script},
       {"--checkpoint " + checkpoint_text(r.checkpoint), checkpoints && kind != Kind::block && kind != Kind::op,
        torchrun | script},
       {"--checkpoint " + checkpoint_text(r.checkpoint), checkpoints && (kind == Kind::block || kind == Kind::op),
        torchrun | torchtitan | script},
       {"--checkpoint every=N or a pattern with --pp",
        checkpoints && l.strategy.runs_stages() && kind != Kind::block && kind != Kind::op, nobody},
       {"use_reentrant=True of checkpoints", checkpoints && r.checkpoint.reentrant, script},
       {"--save", r.save != SavedCheckpoint::none, nobody, "the step is the same without it"},
       {"--master", r.master_weights && !l.by_formulas, nobody},
       {"--optimizer-in-backward", r.optimizer_in_backward, nobody},
       {"--offload", r.offload_optimizer || r.offload_saved, nobody},
       {"--weights", r.weights != WeightFormat::as_computed, script},
       {"--lora", r.lora.has_value(), script},
       {"--kernels liger", r.kernels == Kernels::liger, script},
       {"--like", r.like != Like::pytorch, script},
       {"an optimizer that is none of torch.optim's", own_optimizer, script},
       {"--opt " + name_of(r.optimizer), !own_optimizer && !adam, torchrun | script},
       {"--opt " + name_of(r.optimizer), !own_optimizer && adam && !l.by_formulas && r.optimizer.amsgrad,
        torchrun | script},
       {"--opt " + name_of(r.optimizer), !own_optimizer && adam && !r.optimizer.amsgrad && !l.by_formulas,
        torchrun | torchtitan | script},
       {"--weight-decay", r.optimizer.weight_decay && r.optimizer.kind != OptimizerKind::adamw, torchrun | script},
       {"--zero-grad backward", r.zero_grad == ZeroGrad::backward, torchrun | script},
       {"--allocator", r.allocator != AllocatorKind::caching, nobody, "PyTorch's caching allocator runs"}});
}

std::vector<Property> properties(const Launch& launch) {
  std::vector<Property> all;
  add_sharing(launch, all);
  add_run(launch, all);
  return all;
}

By bit(LaunchTarget target) { return static_cast<By>(1 << static_cast<int>(target)); }

}  // namespace

void refuse_unsaid(const Launch& launch, LaunchTarget target) {
  const int takes = bit(target) | (target == LaunchTarget::deepspeed ? script : nobody);
  for (const Property& p : properties(launch)) {
    if (!p.asked || (p.by & takes) != 0) continue;
    Error error("--emit " + std::string(name_of(target)) + " has no words for " + p.flag, ErrorKind::usage);
    std::vector<std::string> others;
    for (const LaunchTarget other :
         {LaunchTarget::torchrun, LaunchTarget::torchtitan, LaunchTarget::deepspeed, LaunchTarget::megatron})
      if ((p.by & bit(other)) != 0) others.push_back("--emit " + std::string(name_of(other)));
    if (p.help != nullptr)
      error.help(p.help);
    else if (!others.empty())
      error.help(joined(others, " or ") + " has");
    throw error;
  }
}

std::vector<std::string> left_to_script(const Launch& launch) {
  std::vector<std::string> flags;
  for (const Property& p : properties(launch))
    if (p.asked && (p.by & script) != 0) flags.push_back(p.flag);
  return flags;
}

}  // namespace gpuplan
