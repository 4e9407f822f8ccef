// The stages of torch.distributed.pipelining, of a causal decoder of transformers'.
#include "estimator/base/list_text.h"
#include "estimator/launch/python_parts.h"

namespace gpuplan {
namespace {

std::string schedule_class(const Launch& l) {
  return l.strategy.pipelining.schedule == PipelineSchedule::gpipe ? "ScheduleGPipe" : "Schedule1F1B";
}

}  // namespace

std::string pipeline_imports(const Launch& l) {
  return "from torch import nn\nfrom torch.distributed.pipelining import PipelineStage, " + schedule_class(l) + "\n";
}

std::string pipeline_class(const Launch& l) {
  const std::string blocks = joined(l.stages, ", ", [](std::int64_t count) { return std::to_string(count); });
  return "\n\nBLOCKS = [" + blocks + "]  # of each stage\n" + R"(

class Stage(nn.Module):
    """The embedding of the first stage, some of the blocks, the norm and the head of the last."""

    def __init__(self, model, stage):
        super().__init__()
        begin = sum(BLOCKS[:stage])
        self.first, self.last = stage == 0, stage + 1 == len(BLOCKS)
        self.model, self.head = model.model, model.lm_head if self.last else None
        self.model.layers = nn.ModuleList(list(self.model.layers)[begin:begin + BLOCKS[stage]])
        if not self.first:
            self.model.embed_tokens = None
        if not self.last:
            self.model.norm = nn.Identity()

    def forward(self, given):
        hidden = self.model(**{"input_ids" if self.first else "inputs_embeds": given}, use_cache=False).last_hidden_state
        return self.head(hidden) if self.last else hidden
)";
}

std::string sharing_stages(const Launch& l, const std::string& fsdp_arguments) {
  const Strategy& s = l.strategy;
  std::string out =
      "\n\ndef shared_model(local_rank):\n    with torch.device(\"meta\"):\n        model = make_model()\n    mesh = " +
      device_mesh(l) + "\n    stage = mesh[\"pp\"].get_local_rank()\n";
  if (s.tensor > 1) out += "    share_layers(model, mesh[\"tp\"])\n";
  out += checkpoints(l) + "    config, loss = model.config, model.loss_function\n    module = Stage(model, stage)\n";
  if (s.data == DataParallel::fsdp) {
    const std::string reshards = s.reshard_after_forward ? "True" : "False";
    out += fsdp_arguments +
           "    for block in module.model.layers:\n        fully_shard(block, reshard_after_forward=" + reshards +
           ", **more)\n    fully_shard(module, " + (s.reshard_after_forward ? "" : "reshard_after_forward=False, ") +
           "**more)\n";
  }
  return out +
         "    module.to_empty(device=\"cuda\")\n"
         "    part = PipelineStage(module, stage, len(BLOCKS), torch.device(\"cuda\"), group=mesh[\"pp\"].get_group()" +
         (s.tensor_plan.sequence ? ",\n                         get_mesh=lambda names, layout: mesh[\"tp\"])\n"
                                 : ")\n") +
         "    schedule = " + schedule_class(l) +
         "(part, MICRO_BATCHES,\n"
         "        loss_fn=lambda logits, labels: loss(logits, labels, vocab_size=config.vocab_size))\n"
         "    return module, schedule, module.first, module.last\n";
}

}  // namespace gpuplan
