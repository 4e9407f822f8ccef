#include "estimator/launch/python_parts.h"

namespace gpuplan {
namespace {

using Kind = CheckpointConfig::Kind;

}  // namespace

bool enables_checkpoints(const Launch& l) { return !l.config.empty() && l.run.checkpoint.kind == Kind::block; }

std::string checkpoints(const Launch& l) {
  if (l.checkpointed.empty()) return "";
  if (enables_checkpoints(l)) return "    model.gradient_checkpointing_enable()\n";
  const std::string more =
      l.run.checkpoint.kind == Kind::op ? ", context_fn=policy_of_operators, preserve_rng_state=False" : "";
  return "    for path in CHECKPOINTED:\n"
         "        parent, _, name = path.rpartition(\".\")\n"
         "        wrapped = checkpoint_wrapper(model.get_submodule(path)" +
         more +
         ")\n"
         "        model.get_submodule(parent).register_module(name, wrapped)\n";
}

// As torchtitan decides it (estimator/plan/kept_by_policy.h says what of it is planned).
std::string checkpoint_policy(const Launch& l) {
  if (l.checkpointed.empty() || l.run.checkpoint.kind != Kind::op) return "";
  return R"(

KEPT = {torch.ops.aten._scaled_dot_product_efficient_attention.default,
        torch.ops.aten._scaled_dot_product_flash_attention.default}


def policy_of_operators():
    """Of each block, results of attention are kept, and of products without a bias the first and every other one."""
    products = {False: 0, True: 0}  # in the forward, and when it is run again

    def policy(context, function, *arguments, **named):
        kept = function in KEPT
        if function == torch.ops.aten.mm.default:
            products[context.is_recompute] += 1
            kept = products[context.is_recompute] % 2 == 1
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)
)";
}

bool needs_mesh(const Launch& l) {
  const Strategy& s = l.strategy;
  return s.experts == 1 && (s.tensor > 1 || s.replicas > 1 || s.runs_stages());
}

std::string device_mesh(const Launch& l) {
  const Strategy& s = l.strategy;
  std::string sizes, names;
  const auto add = [&](std::int64_t size, const char* name) {
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
    names += (names.empty() ? "\"" : ", \"") + std::string(name) + "\"";
  };
  if (s.runs_stages()) add(s.pipeline, "pp");
  if (s.replicas > 1) add(s.replicas, "replicate");
  if (s.ranks() > 1 || s.data == DataParallel::fsdp) add(s.shards(), "shard");
  if (s.tensor > 1) add(s.tensor, "tp");
  const bool one = names.find(',') == std::string::npos;
  return "init_device_mesh(\"cuda\", (" + sizes + (one ? ",)" : ")") + ", mesh_dim_names=(" + names +
         (one ? ",))" : "))");
}

std::string data_mesh(const Launch& l) {
  return l.strategy.replicas > 1 ? "mesh[\"replicate\", \"shard\"]" : "mesh[\"shard\"]";
}

std::string tensor_function(const Launch&) {
  return R"(

def share_layers(model, mesh):
    """As from_pretrained(tp_plan="auto") does it, of a model without weights."""
    plan, _, _ = model._resolve_parallel_plans(DistributedConfig(tp_size=mesh.size(), tp_plan="auto"))
    if model.config.tie_word_embeddings:
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.lm_head.weight))
    apply_tensor_parallelism(model, mesh, plan)
    model.tie_weights()
)";
}

std::string filled(const Launch& l) {
  std::string out;
  if (l.strategy.offloads)
    out =
        "    model.to_empty(device=\"cpu\")\n"
        "    for module in model.modules():\n"
        "        for name, buffer in module._buffers.items():\n"
        "            module._buffers[name] = None if buffer is None else buffer.cuda()\n";
  else
    out = "    model.to_empty(device=\"cuda\")\n";
  return out + (l.config.empty() ? "" : "    model.tie_weights()\n");
}

}  // namespace gpuplan
