// What `gpuplan shadow` says of a run, as values: what every output format prints. The JSON contract (gpuplan.shadow/1)
// is these structs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/report/writers.h"
#include "validate/shadow/host/read_session.h"
#include "validate/shadow/session.h"

namespace gpuplan::shadow {

/// How the command ended.
struct Ending {
  int status = 0;           // its own exit status; meaningless after a signal
  int signal = 0;           // that ended it; 0: none
  bool by_request = false;  // we were told to end it
};

/// One device of one process: a rank of torch.distributed, mostly.
struct RankReport {
  int rank = -1;    // -1: none
  int process = 0;  // pid
  int device = 0;   // as the process numbers it
  bool torch = false;
  Figures peak;                   // 0 without PyTorch
  std::int64_t device_bytes = 0;  // all processes of the device, contexts included
  std::int64_t context_bytes = 0;
  std::int64_t held_bytes = 0;  // the process's own peak on the device, PyTorch's and others', no context
  std::int64_t segments = 0, retries = 0, allocations = 0;
  std::int64_t graph_bytes = 0;  // of what is reserved: held by CUDA graphs' pools, and not allocated
  std::int64_t kernels = 0;      // launched by the process
  std::vector<StepRecord> steps;
  Alive alive;
};

/// Choices that autotuning would have timed, made without a clock, and the largest workspace of one left out, in bytes.
struct Autotuned {
  std::int64_t operators = 0, configurations = 0, workspace_bytes = 0;
};

struct FitRow {
  std::string gpu, title;
  std::int64_t usable_bytes = 0;
  bool fits = false;
};

struct RunReport {
  std::string gpu, gpu_title;
  std::int64_t capacity_bytes = 0;
  Settings settings;
  std::vector<std::string> command;
  Ending ending;
  int exit_code = 0;  // of gpuplan itself
  std::string torch, cuda, python;
  std::optional<OutOfMemory> out_of_memory;
  int out_of_memory_rank = -1;
  std::optional<std::int64_t> max_peak_bytes;  // --max-peak
  bool over_max_peak = false;
  std::string end_reason;
  std::vector<RankReport> ranks;  // empty: nothing used the GPU
  std::size_t fullest = 0;        // of `ranks`: the one that the run's figures are of
  std::vector<FitRow> fits;       // empty: not known, the run did not come to its end
  Compiled compiled;              // by torch.compile, in the fullest rank's process
  Autotuned autotuned;
  std::vector<Decision> decided;  // without values, in the fullest rank's process
  Engine engine;
  std::vector<std::string> unknown;
  std::vector<Problem> problems;
};

struct RunFacts {
  Gpu gpu;
  Settings settings;
  std::vector<std::string> command;
  Ending ending;
  std::optional<std::int64_t> max_peak_bytes;
  std::vector<Gpu> catalog;
};

RunReport make_run_report(const SessionRecord& session, const RunFacts& facts);

/// Whether it may have needed more than the figures say: out of memory, killed, or failed.
bool ended_early(const RunReport& report);
/// The bytes that --max-peak limits: PyTorch's peak of allocated bytes, or all that a program without PyTorch held.
std::int64_t limited_bytes(const RankReport& rank);
/// 0, or 1 to 255: the script's own code, 128 + N after signal N, 1 out of memory or over --max-peak, the problem's
/// code.
int exit_code_of(const RunReport& report);

std::string run_text(const RunReport& report, const TextStyle& style);
std::string run_json(const RunReport& report, std::string_view version);
std::string run_csv(const RunReport& report);
std::string run_md(const RunReport& report);
/// The JSON Schema of run_json.
std::string run_json_schema();

}  // namespace gpuplan::shadow
