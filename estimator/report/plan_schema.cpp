#include "estimator/plan/run_names.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/writers.h"

namespace gpuplan {

std::string plan_json_schema() {
  Json schema = {{"$schema", schema::kDialect},
                 {"$id", "gpuplan.plan/1"},
                 {"title", "gpuplan plan --format json"},
                 {"description",
                  "Fields may be added, but are never renamed. Counts are integers; their unit is part of the key."}};
  // `time` without a named GPU has the first two only, null, and `why_not` where one was named and its time is not
  // known; a layer's is null then. The last three are there when asked for: with --count-as, `layers --time` and
  // --gpus.
  constexpr std::string_view kKeys = R"(schema:=gpuplan.plan/1 tool:{name version:string}
    model:{name file:string verified:string? parameters trainable_parameters buffers layers checkpointed_blocks:integer}
    run:{mode:$mode batch:integer precision:fp32|tf32|fp64|fp16|bf16 amp:fp16|bf16? optimizer gpu:string?
      loop:$loop zero_grad:forward|backward kernels:$kernels like:$like pytorch:string optimizer_impl:string? weight_decay clip_grad_norm:boolean save?:$save
      micro_batches:integer checkpoint:string layout:$layout attention:$attention
      master_weights:fp32? optimizer_in_backward:boolean offload:{optimizer saved:boolean} weights:$weights? lora:string?
      generation:{phase:$part prompt generate:integer cache:$cache}? labels:boolean
      scratch:$scratch allocator:$allocator segments:$segments alloc_conf:string step:steady|first}
    bytes:{parameters buffers gradients optimizer_state inputs saved_for_backward kv_cache:integer}
    tensor_peak?:{bytes:integer phase:$phase op layer:string
      forward_bytes backward_bytes optimizer_bytes after_model_bytes end_of_forward_bytes:integer}
    peak:{allocated_bytes requested_bytes reserved_bytes device_bytes context_bytes:integer
      context_confidence:$confidence phase:$phase op layer:string
      parts:{category:string bytes:integer confidence:$confidence}[] modules:{name:string bytes:integer}[]}
    fits:boolean? usable_bytes limit_bytes:integer? margin:number
    at_most:{allocated_bytes reserved_bytes device_bytes:integer
      terms:{allocated_bytes reserved_bytes device_bytes:integer
        id:cudnn_workspaces|cudnn_attempts|slow_convolutions|tables|context|nccl|padding source:string}[]}?
    within_memory:{runs:boolean retries:integer
      out_of_memory:{wanted_bytes allocated_bytes reserved_bytes step:integer phase:$phase op layer:string}?}?
    phases:{step:first|steady phase:$phase requested_bytes allocated_bytes reserved_bytes
      peak_requested_bytes peak_allocated_bytes peak_reserved_bytes kernels:integer}[]
    compute:{forward_macs forward_flops backward_flops recompute_flops optimizer_flops step_flops elementwise_flops
      bytes_moved per_mac:integer}
    offload:{to_host_bytes from_host_bytes:integer}
    time:{step_seconds:number? bound:$bound?
      copy_seconds forward_seconds loss_seconds backward_seconds clip_seconds optimizer_seconds communication_seconds
      bubble_seconds
      compute_bound_seconds memory_bound_seconds waiting_for_host_seconds?:number
      samples tokens flops_per_second peak_flops_per_second bytes_per_second?:integer
      roofs?:{type:string flops_per_second:integer ridge_flops_per_byte:number}[] why_not confidence?:string}
    allocator:{segments allocations inactive_split_bytes:integer}
    layers:{name type at:string input_shapes:integer[][] output_shape:integer[]
      parameters forward_macs backward_flops recompute_flops elementwise_flops saved_bytes output_bytes:integer
      time:{flops bytes_moved:integer forward_seconds backward_seconds busy_seconds flops_per_byte:number
        bound:$bound}?}[]
    assumptions:{id text:string}[] warnings:string[]
    count_as?:{tool unit:string per_sample batch:integer}
    advice?:{kind:precision|layout|shape|batch change reason:string step_seconds gain:number device_bytes:integer
      fits:boolean}[]
    parallel?:{data:none|ddp|zero1|zero2|zero3|fsdp|megatron bytes:{parameters gradients optimizer_state:integer}
      every_rank:{first last ranks allocated_bytes reserved_bytes device_bytes:integer}[]
      communication:{what collective:string microseconds exposed_microseconds:integer? bytes sent_bytes:integer}[]
      time:{step_seconds one_gpu_seconds samples_per_second scaling_efficiency slowest_gpu copy_seconds:number}?
      pipeline:{schedule:gpipe|1f1b|interleaved1f1b|loopedbfs|interleavedzerobubble|zbvzerobubble|dualpipev held:{stage first_block blocks:integer}[]
        stages stage first_block blocks all_blocks micro_batches_in_flight:integer returns_outputs:boolean}?
      differing_ranks compared_ranks:integer
      gpus rank batch replicas tensor_ranks expert_ranks context_ranks nccl_bytes least_nccl_bytes most_nccl_bytes:integer expert_load:number offload sequence_parallel loss_parallel:boolean wrapped_blocks fsdp_version:integer? param_type reduce_type:string?})";
  schema.update(schema::object(kKeys, {{"phase", "start|forward|loss|backward|clip|optimizer|end|save"},
                                       {"confidence", "exact|modelled|assumed"},
                                       {"bound", "compute|memory|launch"},
                                       {"mode", all_words(Mode{})},
                                       {"loop", all_words(Loop{})},
                                       {"save", all_words(SavedCheckpoint{})},
                                       {"kernels", all_words(Kernels{})},
                                       {"like", all_words(Like{})},
                                       {"layout", all_words(MemoryFormat{})},
                                       {"attention", all_words(Attention{})},
                                       {"weights", all_words(WeightFormat{}).substr(1)},
                                       {"part", all_words(Generation::Part{}).substr(1)},
                                       {"cache", all_words(Generation::Cache{})},
                                       {"scratch", all_words(Scratch{})},
                                       {"segments", all_words(SegmentOrder{})},
                                       {"allocator", all_words(AllocatorKind{})}}));
  return json_text(schema);
}

}  // namespace gpuplan
