// Sequence parallelism in the script for torchrun: what parallelize_module is given for a decoder of transformers'.
#include "estimator/launch/python_parts.h"

namespace gpuplan {

std::string sequence_imports(const Launch& l) {
  return std::string(
             "from torch.distributed.tensor import Replicate, Shard\n"
             "from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel,\n"
             "                                               SequenceParallel, ") +
         (l.strategy.tensor_plan.loss ? "loss_parallel, " : "") + "parallelize_module)\n";
}

std::string sequence_function(const Launch& l) {
  const std::string logits =
      l.strategy.tensor_plan.loss ? "output_layouts=Shard(-1), use_local_output=False" : "output_layouts=Replicate()";
  return R"(

def share_layers(model, mesh):
    """As torchtitan does it: what is between attention and feed-forward lies along the tokens. It stays a DTensor, of
    whose shape transformers reads how many tokens there are."""
    between = {"output_layouts": Shard(1), "use_local_output": False}
    if model.config.tie_word_embeddings:
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.lm_head.weight))
    parallelize_module(model, mesh, {
        "model.embed_tokens": RowwiseParallel(input_layouts=Replicate(), **between),
        "model.norm": SequenceParallel(),
        "lm_head": ColwiseParallel(input_layouts=Shard(1), )" +
         logits + R"()})
    for block in model.model.layers:
        plan = {"self_attn": PrepareModuleInput(input_kwarg_layouts={"hidden_states": Shard(1)},
                                                desired_input_kwarg_layouts={"hidden_states": Replicate()}),
                "mlp": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
                "self_attn.o_proj": RowwiseParallel(**between), "mlp.down_proj": RowwiseParallel(**between)}
        for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"):
            plan[name] = ColwiseParallel()
        for name, _ in block.named_modules():
            if name in ("self_attn.q_norm", "self_attn.k_norm"):  # of a rank's heads
                plan[name] = SequenceParallel(sequence_dim=2, use_local_output=True)
            elif name.endswith("norm"):
                plan[name] = SequenceParallel()
        parallelize_module(block, mesh, plan)
    model.tie_weights()
)";
}

}  // namespace gpuplan
