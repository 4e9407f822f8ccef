#include "estimator/report/schema_parts.h"
#include "estimator/report/writers.h"

namespace gpuplan {

namespace {

using schema::Json, schema::integers, schema::list_of, schema::object, schema::one_of, schema::or_null, schema::with;

const Json kInteger = schema::type("integer");
const Json kNumber = schema::type("number");
const Json kText = schema::type("string");

Json phase_words() { return one_of({"start", "forward", "loss", "backward", "clip", "optimizer", "end"}); }
Json confidence_words() { return one_of({"exact", "modelled", "assumed"}); }

Json run_schema() {
  const Json boolean = {{"type", "boolean"}};
  return object({{"mode", one_of({"train", "infer"})},
                 {"batch", kInteger},
                 {"precision", one_of({"fp32", "tf32", "fp64", "fp16", "bf16"})},
                 {"amp", {{"enum", {"fp16", "bf16", nullptr}}}},
                 {"optimizer", or_null(kText)},
                 {"gpu", or_null(kText)},
                 {"loop", one_of({"plain", "function", "loss_only"})},
                 {"pytorch", kText},
                 {"optimizer_impl", or_null(kText)},
                 {"weight_decay", boolean},
                 {"clip_grad_norm", boolean},
                 {"micro_batches", kInteger},
                 {"checkpoint", kText},
                 {"layout", one_of({"nchw", "nhwc"})},
                 {"attention", one_of({"auto", "flash", "efficient", "cudnn", "math", "eager"})},
                 {"master_weights", {{"enum", {"fp32", nullptr}}}},
                 {"optimizer_in_backward", boolean},
                 {"offload", object({{"optimizer", boolean}, {"saved", boolean}})},
                 {"weights", {{"enum", {"int8", "int4", "fp8", nullptr}}}},
                 {"generation", or_null(object({{"phase", one_of({"prefill", "decode"})},
                                                {"prompt", kInteger},
                                                {"generate", kInteger},
                                                {"cache", one_of({"dynamic", "static", "paged"})}}))},
                 {"labels", boolean},
                 {"scratch", one_of({"full", "no-cudnn", "none"})},
                 {"allocator", one_of({"caching", "exact", "cudaMalloc"})},
                 {"alloc_conf", kText},
                 {"step", one_of({"steady", "first"})}});
}

Json peak_schema() {
  const Json part = object({{"category", kText}, {"bytes", kInteger}, {"confidence", confidence_words()}});
  const Json module = object({{"name", kText}, {"bytes", kInteger}});
  return object(
      with(integers({"allocated_bytes", "requested_bytes", "reserved_bytes", "device_bytes", "context_bytes"}),
           {{"context_confidence", confidence_words()},
            {"phase", phase_words()},
            {"op", kText},
            {"layer", kText},
            {"parts", list_of(part)},
            {"modules", list_of(module)}}));
}

Json at_most_schema() {
  const std::initializer_list<const char*> bytes = {"allocated_bytes", "reserved_bytes", "device_bytes"};
  const Json id =
      one_of({"cudnn_workspaces", "cudnn_attempts", "slow_convolutions", "tables", "context", "nccl", "padding"});
  const Json term = object(with(integers(bytes), {{"id", id}, {"source", kText}}));
  return or_null(object(with(integers(bytes), {{"terms", list_of(term)}})));
}

Json within_memory_schema() {
  const Json failure = object(with(integers({"wanted_bytes", "allocated_bytes", "reserved_bytes", "step"}),
                                   {{"phase", phase_words()}, {"op", kText}, {"layer", kText}}));
  return or_null(object({{"runs", {{"type", "boolean"}}}, {"retries", kInteger}, {"out_of_memory", or_null(failure)}}));
}

// Null where times are not known.
Json layer_time_schema() {
  return or_null(
      object(with(integers({"flops", "bytes_moved"}), {{"forward_seconds", kNumber},
                                                       {"backward_seconds", kNumber},
                                                       {"busy_seconds", kNumber},
                                                       {"flops_per_byte", kNumber},
                                                       {"bound", one_of({"compute", "memory", "launch"})}})));
}

Json layer_schema() {
  const Json sizes = list_of(kInteger);
  return object(with(
      with({{"name", kText}, {"type", kText}, {"at", kText}, {"input_shapes", list_of(sizes)}, {"output_shape", sizes}},
           integers({"parameters", "forward_macs", "backward_flops", "recompute_flops", "elementwise_flops",
                     "saved_bytes", "output_bytes"})),
      {{"time", layer_time_schema()}}));
}

Json phase_row_schema() {
  return object(with({{"step", one_of({"first", "steady"})}, {"phase", phase_words()}},
                     integers({"requested_bytes", "allocated_bytes", "reserved_bytes", "peak_requested_bytes",
                               "peak_allocated_bytes", "peak_reserved_bytes", "kernels"})));
}

Json tensor_peak_schema() {
  return object(with(
      {{"bytes", kInteger}, {"phase", phase_words()}, {"op", kText}, {"layer", kText}},
      integers({"forward_bytes", "backward_bytes", "optimizer_bytes", "after_model_bytes", "end_of_forward_bytes"})));
}

Json parallel_schema() {
  const Json row = object(with({{"what", kText},
                                {"collective", kText},
                                {"microseconds", or_null(kInteger)},
                                {"exposed_microseconds", or_null(kInteger)}},
                               integers({"bytes", "sent_bytes"})));
  const Json time = object({{"step_seconds", kNumber},
                            {"one_gpu_seconds", kNumber},
                            {"samples_per_second", kNumber},
                            {"scaling_efficiency", kNumber},
                            {"copy_seconds", kNumber}});
  return object(with({{"data", one_of({"none", "ddp", "zero1", "zero2", "zero3", "fsdp"})},
                      {"bytes", object(integers({"parameters", "gradients", "optimizer_state"}))},
                      {"communication", list_of(row)},
                      {"time", or_null(time)}},
                     integers({"gpus", "rank", "batch", "nccl_bytes"})));
}

// Without a named GPU only the first two, null; `why_not` where it was named and its time is not known.
Json time_schema(const Json& number) {
  Json schema =
      object({{"step_seconds", or_null(number)}, {"bound", {{"enum", {"compute", "memory", "launch", nullptr}}}}});
  for (const char* key :
       {"copy_seconds", "forward_seconds", "loss_seconds", "backward_seconds", "clip_seconds", "optimizer_seconds",
        "communication_seconds", "compute_bound_seconds", "memory_bound_seconds", "waiting_for_host_seconds"})
    schema["properties"][key] = number;
  for (const char* key : {"samples", "tokens", "flops_per_second", "peak_flops_per_second", "bytes_per_second"})
    schema["properties"][key] = kInteger;
  schema["properties"]["roofs"] =
      list_of(object({{"type", kText}, {"flops_per_second", kInteger}, {"ridge_flops_per_byte", number}}));
  schema["properties"]["confidence"] = schema["properties"]["why_not"] = kText;
  return schema;
}

Json top_level() {
  return {
      {"schema", {{"const", "gpuplan.plan/1"}}},
      {"tool", object({{"name", kText}, {"version", kText}})},
      {"model",
       object(with({{"name", kText}, {"file", kText}},
                   integers({"parameters", "trainable_parameters", "buffers", "layers", "checkpointed_blocks"})))},
      {"run", run_schema()},
      {"bytes", object(integers({"parameters", "buffers", "gradients", "optimizer_state", "inputs",
                                 "saved_for_backward", "kv_cache"}))},
      {"tensor_peak", tensor_peak_schema()},
      {"peak", peak_schema()},
      {"fits", schema::nullable("boolean")},
      {"usable_bytes", schema::nullable("integer")},
      {"limit_bytes", schema::nullable("integer")},
      {"margin", kNumber},
      {"at_most", at_most_schema()},
      {"within_memory", within_memory_schema()},
      {"phases", list_of(phase_row_schema())},
      {"compute", object(integers({"forward_macs", "forward_flops", "backward_flops", "recompute_flops",
                                   "optimizer_flops", "step_flops", "elementwise_flops", "bytes_moved", "per_mac"}))},
      {"offload", object(integers({"to_host_bytes", "from_host_bytes"}))},
      {"time", time_schema(kNumber)},
      {"allocator", object(integers({"segments", "allocations", "inactive_split_bytes"}))},
      {"layers", list_of(layer_schema())},
      {"assumptions", list_of(object({{"id", kText}, {"text", kText}}))},
      {"warnings", list_of(kText)}};
}

}  // namespace

std::string plan_json_schema() {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"$id", "gpuplan.plan/1"},
                 {"title", "gpuplan plan --format json"},
                 {"description", "Fields are added, never renamed. Counts are integers with the unit in the key."}};
  schema.update(object(top_level()));
  // Only there when asked for with --count-as.
  schema["properties"]["count_as"] =
      object({{"tool", kText}, {"unit", kText}, {"per_sample", kInteger}, {"batch", kInteger}});
  // With `layers --time`.
  schema["properties"]["advice"] = list_of(object({{"kind", one_of({"precision", "layout", "shape", "batch"})},
                                                   {"change", kText},
                                                   {"reason", kText},
                                                   {"step_seconds", kNumber},
                                                   {"gain", kNumber},
                                                   {"device_bytes", kInteger},
                                                   {"fits", {{"type", "boolean"}}}}));
  // And with --gpus.
  schema["properties"]["parallel"] = parallel_schema();
  return schema.dump(2) + "\n";
}

}  // namespace gpuplan
