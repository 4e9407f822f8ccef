#include "estimator/report/json_parts.h"
#include "validate/shadow/host/run_report.h"

namespace gpuplan::shadow {

std::string run_json_schema() {
  const std::string figures = R"(
    peak:{allocated_bytes requested_bytes reserved_bytes device_bytes context_bytes:integer when:string?}
    segments retries graph_bytes kernels allocations:integer
    steps:{step allocated_bytes requested_bytes reserved_bytes kernels:integer}[]
    alive:{categories:{category:string bytes:integer}[]
      lines:{file:string line:integer function code:string bytes blocks:integer}[]})";
  const std::string start = R"(schema:=gpuplan.shadow/1 tool:{name version:string} gpu gpu_title:string
    capacity_bytes gpus:integer world rank:integer? command:string[] exit_code gpuplan_exit_code:integer end:string?
    out_of_memory:{wanted_bytes free_bytes allocated_bytes reserved_bytes device:integer rank:integer?
      message:string?}?
    max_peak_bytes:integer? over_max_peak:boolean)";
  const std::string end = R"(
    fits:{gpu title:string usable_bytes:integer fits:boolean}[]
    compiled:{graphs:integer breaks:{file:string line:integer reason:string times:integer}[]}
    autotuned:{operators configurations workspace_bytes:integer}
    decided:{file:string line:integer function:string times:integer drawn:boolean}[]
    engine:{name:string parts:{part:string bytes:integer}[] lines:string[]}? unknown:string[]
    problems:{code:integer text:string}[] ranks:{rank:integer? process device:integer )";
  Json schema = {{"$schema", schema::kDialect},
                 {"$id", "gpuplan.shadow/1"},
                 {"title", "gpuplan shadow --format json"},
                 {"description",
                  "Fields are added, never renamed. Counts are integers with the unit in the key. The "
                  "figures at the top are those of the fullest of `ranks`."}};
  schema.update(schema::object(start + figures + end + figures + "}[] versions:{torch cuda python:string?}"));
  return json_text(schema);
}

}  // namespace gpuplan::shadow
