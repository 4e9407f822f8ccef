// The JSON Schema of validation_json().
#include "estimator/report/json_parts.h"
#include "validate/validation.h"

namespace gpuplan {

std::string validation_json_schema() {
  // A loss that is null is not a number.
  constexpr std::string_view kKeys = R"(schema:=gpuplan.validate/1 tool:{name version:string} model:string batch:integer
    device:{name versions:string computes:boolean} tolerance:number holds:boolean
    rows:{name:string predicted_bytes measured_bytes error_bytes:integer error:number counts:boolean}[]
    phases:{phase:string
      predicted measured:{allocated_bytes reserved_bytes peak_allocated_bytes peak_reserved_bytes:integer}
      predicted_device_bytes device_bytes:integer process_bytes:integer?}[]
    before:{device_bytes context_bytes library_bytes context_predicted_bytes:integer process_bytes:integer?
      context_confidence:string}
    unaccounted_bytes:integer peak:{predicted measured:string} losses:number?[]? values_equal:boolean?
    values_not_compared:string? remarks:string[]
    times:{predicted_ms:number? step marked_step:{median_ms least_ms most_ms:number all_ms:number[]}
      warm_up_steps:integer samples_per_second:number? roofline_ms:number roofline:number?
      peaks:{bytes_per_second fp64_flops_per_second fp32_flops_per_second tf32_flops_per_second
        half_flops_per_second:number?}
      layers classes operations:{name:string operations flops bytes:integer
        forward_ms backward_ms update_ms median_ms least_ms most_ms flops_per_second bytes_per_second
        roofline_ms:number roofline:number?}[]}?
    out_of_memory:{free_bytes needed_bytes:integer measured:$place predicted:$place? same:boolean
      runs_instead:{flags:string device_bytes retries:integer}[]}?)";
  Json schema = schema::object(
      kKeys, {{"place", "{wanted_bytes allocated_bytes reserved_bytes step:integer phase op layer:string}"}});
  schema["$schema"] = schema::kDialect;
  return json_text(schema);
}

}  // namespace gpuplan
