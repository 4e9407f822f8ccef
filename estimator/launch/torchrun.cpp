// A Python script that torchrun starts: it shares a model as it was planned, takes three steps of it on random data and
// says beside the plan what PyTorch's allocator counted. What it calls is what tests/recorders/several_gpus.py records.
#include <string>

#include "estimator/base/format.h"
#include "estimator/launch/launch.h"
#include "estimator/launch/python_parts.h"
#include "estimator/plan/run_names.h"

namespace gpuplan {
namespace {

bool shares_fsdp(const Launch& l) { return l.strategy.data == DataParallel::fsdp; }
bool shares_ddp(const Launch& l) {
  return l.strategy.data == DataParallel::ddp || l.strategy.data == DataParallel::zero1;
}
// transformers distributes the model itself.
bool shares_experts(const Launch& l) { return l.strategy.experts > 1; }
bool wraps_blocks(const Launch& l) {
  return shares_fsdp(l) && !shares_experts(l) && !l.strategy.runs_stages() && !l.wrapped.empty();
}
bool starts_on_meta(const Launch& l) { return !shares_ddp(l); }

std::string head(const Launch& l, const LaunchText& text) {
  std::string out = "r\"\"\"Three steps of " + l.model + " on random data, shared over " +
                    format_count(l.strategy.gpus) + (l.strategy.gpus == 1 ? " GPU" : " GPUs") +
                    " as gpuplan planned it for PyTorch " + version_text(l.run.pytorch) +
                    ".\n\n"
                    "The plan, of the rank that needs the most:\n\n    gpuplan " +
                    l.plan + "\n\nOn " +
                    (l.nodes() == 1 ? "a machine with as many GPUs" : "each node; $HEAD is the first one's address") +
                    ":\n\n    " + text.command + "\n\n";
  for (const std::string& note : text.notes) out += note + "\n";
  return out + "\"\"\"\n";
}

std::string imports(const Launch& l) {
  const Strategy& s = l.strategy;
  const bool wraps = !l.checkpointed.empty() && !enables_checkpoints(l);
  std::string out = std::string(waits(l) ? "import contextlib\n" : "") +
                    "import os\n\nimport torch\nimport torch.distributed as dist\n";
  if (!l.config.empty()) out += "import transformers\n";
  if (l.config.empty()) out += "from torch import nn\n";
  if (needs_mesh(l)) out += "from torch.distributed.device_mesh import init_device_mesh\n";
  if (shares_fsdp(l) && !shares_experts(l)) {
    std::string names;
    if (s.offloads) names += "CPUOffloadPolicy, ";
    if (s.param_type || s.reduce_type) names += "MixedPrecisionPolicy, ";
    out += "from torch.distributed.fsdp import " + names + "fully_shard\n";
  }
  if (s.data == DataParallel::zero1) out += "from torch.distributed.optim import ZeroRedundancyOptimizer\n";
  if (wraps) out += "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper\n";
  if (shares_ddp(l)) out += "from torch.nn.parallel import DistributedDataParallel\n";
  if (l.run.checkpoint.kind == CheckpointConfig::Kind::op)
    out += "from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts\n";
  if (s.tensor_plan.sequence)
    out += sequence_imports(l);
  else if (s.tensor > 1)
    out +=
        "from transformers.distributed.configuration_utils import DistributedConfig\n"
        "from transformers.distributed.tensor_parallel import apply_tensor_parallelism\n";
  if (shares_experts(l))
    out +=
        "from transformers.distributed.configuration_utils import DistributedConfig\n"
        "from transformers.distributed.utils import initialize_distributed_mesh\n";
  if (s.runs_stages()) out += pipeline_imports(l);
  return out;
}

std::string constants(const Launch& l) {
  std::string out = "SAMPLES = " + std::to_string(l.samples()) + "  # of a micro-batch, of each process\n" +
                    "MICRO_BATCHES = " + std::to_string(l.run.micro_batches) + "\n";
  if (!l.config.empty()) out += "TOKENS = " + std::to_string(l.sequence) + "  # of a sample\n";
  if (wraps_blocks(l)) out += "WRAPPED = " + python_list(l.wrapped) + "\n";
  if (!l.checkpointed.empty() && !enables_checkpoints(l)) out += "CHECKPOINTED = " + python_list(l.checkpointed) + "\n";
  return out;
}

std::string model_of_config(const Launch& l) {
  return "\n\ndef make_model():\n    config = " + l.config +
         "\n    config.use_cache = False\n"
         "    return transformers.AutoModelForCausalLM.from_config(config, dtype=" +
         torch_type(l.run.precision) +
         ")\n\n\ndef make_batch(samples):\n"
         "    return torch.randint(" +
         std::to_string(l.vocabulary) + ", (samples, TOKENS), device=\"cuda\")\n";
}

std::string model_of_user(const Launch& l) {
  return "\n\ndef make_model():\n    raise NotImplementedError(\"return " + l.model +
         ", whose modules have the names that the plan has\")\n"
         "\n\ndef make_batch(samples):\n"
         "    raise NotImplementedError(\"return inputs and targets on the GPU, which begin with a dimension of "
         "samples\")\n"
         "\n\ndef loss_of(output, targets):\n    return nn.functional.cross_entropy(output, targets)  # or your own\n";
}

std::string settings(const Launch& l) {
  std::string out;
  if (l.run.tf32) out += "    torch.backends.cuda.matmul.allow_tf32 = True\n";
  if (l.run.precision != DType::fp32 && l.config.empty())
    out += "    torch.set_default_dtype(" + torch_type(l.run.precision) + ")\n";
  return out;
}

std::string sharing_ddp(const Launch& l) {
  const Strategy& s = l.strategy;
  std::string out =
      "\n\ndef shared_model(local_rank):\n    with torch.device(\"cuda\"):\n        model = make_model()\n" +
      checkpoints(l) + "    return DistributedDataParallel(model, device_ids=[local_rank]";
  if (s.gradient_as_bucket_view) out += ", gradient_as_bucket_view=True";
  if (s.find_unused_parameters) out += ", find_unused_parameters=True";
  return out + ")\n";
}

std::string sharing_experts(const Launch& l) {
  const Strategy& s = l.strategy;
  std::string arguments = "fsdp_size=" + std::to_string(s.shards()) + ", ep_size=" + std::to_string(s.experts);
  if (s.tensor > 1) arguments = "tp_size=" + std::to_string(s.tensor) + ", " + arguments;
  if (s.replicas > 1) arguments = "dp_replicate_size=" + std::to_string(s.replicas) + ", " + arguments;
  if (s.param_type) arguments += ", fsdp_mixed_precision=True";
  return "\n\ndef shared_model(local_rank):\n    with torch.device(\"meta\"):\n        model = make_model()\n" +
         checkpoints(l) + "    config = DistributedConfig(" + arguments +
         ")\n    _, meshes = initialize_distributed_mesh(config)\n"
         "    model = type(model).maybe_distribute_model(model, config, meshes)\n" +
         filled(l) + "    return model\n";
}

// What fully_shard is told beside resharding.
std::string fsdp_arguments(const Launch& l) {
  const Strategy& s = l.strategy;
  std::string out;
  const auto add = [&](const std::string& argument) { out += (out.empty() ? "" : ", ") + argument; };
  if (needs_mesh(l)) add("\"mesh\": " + data_mesh(l));
  if (s.param_type || s.reduce_type) {
    std::string policy;
    if (s.param_type) policy += "param_dtype=" + torch_type(*s.param_type);
    if (s.reduce_type) policy += std::string(policy.empty() ? "" : ", ") + "reduce_dtype=" + torch_type(*s.reduce_type);
    add("\"mp_policy\": MixedPrecisionPolicy(" + policy + ")");
  }
  if (s.offloads) add("\"offload_policy\": CPUOffloadPolicy()");
  return out.empty() ? "" : "    more = {" + out + "}\n";
}

std::string sharing_fsdp(const Launch& l) {
  const Strategy& s = l.strategy;
  std::string out =
      "\n\ndef shared_model(local_rank):\n    with torch.device(\"meta\"):\n        model = make_model()\n";
  if (needs_mesh(l)) out += "    mesh = " + device_mesh(l) + "\n";
  if (s.tensor > 1) out += "    share_layers(model, mesh[\"tp\"])\n";
  out += checkpoints(l);
  if (shares_fsdp(l)) {
    const std::string reshards = s.keeps_last_block        ? ", reshard_after_forward=path != WRAPPED[-1]"
                                 : s.reshard_after_forward ? ""
                                                           : ", reshard_after_forward=False";
    const std::string arguments = fsdp_arguments(l), more = arguments.empty() ? "" : ", **more";
    out += arguments;
    if (wraps_blocks(l))
      out += "    for path in WRAPPED:\n        fully_shard(model.get_submodule(path)" + reshards + more + ")\n";
    out +=
        std::string("    fully_shard(model") + (s.reshards_root ? ", reshard_after_forward=True" : "") + more + ")\n";
  }
  return out + filled(l) + "    return model\n";
}

std::string sharing(const Launch& l) {
  std::string out = checkpoint_policy(l);
  if (l.strategy.tensor > 1 && !shares_experts(l))
    out += l.strategy.tensor_plan.sequence ? sequence_function(l) : tensor_function(l);
  if (l.strategy.runs_stages()) return out + pipeline_class(l) + sharing_stages(l, fsdp_arguments(l));
  if (shares_ddp(l)) return out + sharing_ddp(l);
  return out + (shares_experts(l) ? sharing_experts(l) : sharing_fsdp(l));
}

std::string main_function(const Launch& l) {
  return "\n\ndef main():\n"
         "    local_rank = int(os.environ[\"LOCAL_RANK\"])\n"
         "    torch.cuda.set_device(local_rank)\n"
         "    dist.init_process_group(\"nccl\")\n" +
         settings(l) + "    " + (l.strategy.runs_stages() ? "module, schedule, first, last" : "model") +
         " = shared_model(local_rank)\n" + optimizer_of(l) + three_steps(l) +
         "    stats = torch.cuda.memory_stats()\n"
         "    print(f\"rank {dist.get_rank()}: peak {stats['allocated_bytes.all.peak']:,} bytes allocated, \"\n"
         "          f\"{stats['reserved_bytes.all.peak']:,} reserved; planned: " +
         format_count(l.allocated_bytes) + " and " + format_count(l.reserved_bytes) + " on rank " +
         std::to_string(l.rank) +
         "\")\n"
         "    dist.destroy_process_group()\n\n\nif __name__ == \"__main__\":\n    main()\n";
}

}  // namespace

LaunchText torchrun_text(const Launch& l) {
  LaunchText text;
  text.command = torchrun_command(l) + " " + l.script;
  if (starts_on_meta(l))
    text.notes.emplace_back(
        "Weights are left as they are allocated: load a checkpoint or initialize them in shared_model().");
  if (l.strategy.expert_load != 1)
    text.notes.emplace_back("--routing is what the plan assumes of the router; nothing makes it choose so.");
  if (l.config.empty()) text.notes.emplace_back("make_model(), make_batch() and loss_of() are yours.");
  text.file = head(l, text) + imports(l) + "\n" + constants(l) +
              (l.config.empty() ? model_of_user(l) : model_of_config(l)) + sharing(l) + step_function(l) +
              main_function(l);
  return text;
}

}  // namespace gpuplan
