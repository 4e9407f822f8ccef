// What `gpuplan shadow` and the runtime that it starts programs under agree on. A session is a directory, named to
// every process by the environment variable GPUPLAN_SHADOW_SESSION:
//
//   session              the settings below, a `key=value` a line; written before the command starts
//   counters             SessionCounters, mapped by every process, so that a killed one leaves its figures
//   unknown.PID          a line for each thing that the runtime could not know, in PID
//   events.PID.jsonl     what the Python hook saw in PID (python/gpuplan_shadow_hook.py lists the events)
//   launches.PID.tsv     every kernel and library call, where `record_launches` asks for it
//   allocations.PID.tsv  what PyTorch's allocator was asked for, in order, where `learn` asks for it
//                        (estimator/trace/recorded_run.h has its lines)
//   workspaces.PID.tsv   and what cuDNN's workspaces among that are of
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan::shadow {

constexpr const char* kSessionVariable = "GPUPLAN_SHADOW_SESSION";
/// The driver's, to whom asks: a version that every CUDA toolkit accepts.
constexpr const char* kDriverVersion = "600.00";
/// The newest CUDA that it supports, as 1000 * major + 10 * minor; new enough for every cuDNN 9, whose engines an older
/// driver only rules out.
constexpr int kNewestCuda = 13020;
constexpr int kMaxDevices = 64;
constexpr int kMaxProcesses = 4096;

/// A GPU as the CUDA runtime describes one: cudaDeviceProp's fields under their own names where they have one there.
struct GpuDescription {
  std::string key = "h200";          // the file's name in configs/gpus
  std::string name = "NVIDIA H200";  // what cudaGetDeviceProperties says
  int major = 9;                     // compute capability
  int minor = 0;
  int multi_processor_count = 132;
  std::int64_t total_global_mem = 150'109'945'856;  // bytes that cudaMalloc can hand out
  std::int64_t reserved_memory = 0;                 // bytes of the board that the driver keeps to itself
  int shared_mem_per_multiprocessor = 233'472;      // bytes
  int shared_mem_per_block_optin = 232'448;         // bytes
  int reserved_shared_mem_per_block = 1'024;        // bytes; 0 before compute capability 8.0
  int max_threads_per_multi_processor = 2'048;
  int max_blocks_per_multi_processor = 32;
  std::int64_t l2_cache_size = 52'428'800;  // bytes
  int memory_bus_width = 6'144;             // bits
  int clock_rate = 1'980'000;               // kHz
  int memory_clock_rate = 3'201'000;        // kHz
  bool nvlink = true;                       // between the GPUs of one machine
};

/// Where NCCL's peers are.
enum class Peers {
  none,      // one process, whose collectives have nobody to talk to
  real,      // --gpus N: every rank is a process of this session; small messages are exchanged
  imagined,  // --world N: one process stands for all ranks, which are taken to be alike
};

/// Which experts a router chooses for its tokens.
enum class Routing {
  drawn,     // at random, each token by itself, as a router does before it has learnt anything
  balanced,  // each expert gets as many tokens as any other, or one more
  worst,     // all tokens go to the same experts
};

/// Settings::snapshot where a page alone wants the history.
inline constexpr const char* kHistoryOfPage = "-o FILE.html";

struct Settings {
  GpuDescription gpu;
  int devices = 1;                                       // --gpus N
  std::int64_t context_bytes = std::int64_t{512} << 20;  // a process's CUDA context and library modules, on each device
  std::int64_t copy_limit = 1 << 20;  // bytes; a larger copy moves nothing (a host destination is zeroed)
  bool cudnn_workspaces = true;       // false: convolutions ask for none, as a lower bound without cuDNN
  bool driver_segments = false;  // true: memory lies where the driver would place it, not above what came before it
  bool record_launches = false;  // write launches.PID.tsv
  bool events_lag = false;       // an event completes when the host waits, not when it is recorded
  Peers peers = Peers::none;
  int world = 1;                     // --world N
  int rank = 0;                      // --rank R
  std::int64_t steps = 0;            // --steps N: end the script after N optimizer steps; 0: do not
  bool until_stable = false;         // --until-stable: ... once two steps change nothing
  std::int64_t values = 1 << 18;     // --values: elements of the largest tensor whose values are computed; 0: none are
  std::int64_t seed = 0;             // --seed: of what is drawn
  Routing routing = Routing::drawn;  // --routing
  bool no_compile = false;           // --no-compile: torch.compile returns what it was given
  std::string snapshot;              // --snapshot FILE, or kHistoryOfPage; empty: none
  bool python_lines = true;          // record the Python stack of every allocation
  bool learn = false;                // --learn: write allocations.PID.tsv
};

/// The text of the `session` file, and back. Unknown keys are an error (std::runtime_error with the line).
std::string write_settings(const Settings& settings);
Settings read_settings(std::string_view text);

// --- counters ------------------------------------------------------------------------------------------------------
// Plain atomics in shared memory, zero when the file is new. A process takes a slot at its first CUDA call.

struct ProcessDeviceCounters {
  std::atomic<std::int64_t> used;         // bytes of device memory that this process holds: cudaMalloc, mapped VMM, ...
  std::atomic<std::int64_t> peak;         // the highest `used`
  std::atomic<std::int64_t> allocations;  // successful calls so far
  std::atomic<std::int64_t> context;  // bytes of the process's context there, 0 before it uses the device; in no other
};

struct ProcessCounters {
  std::atomic<std::int32_t> pid;       // 0: the slot is free
  std::atomic<std::int32_t> rank;      // of torch.distributed, -1 unknown; the NCCL part sets it
  std::atomic<std::int32_t> pytorch;   // 1: PyTorch's Python library was loaded by the first CUDA call
  std::atomic<std::int64_t> launches;  // kernels launched and library computations, graphs' replays included
  // The last cudaMalloc, cuMemCreate, ... that the device could not serve; `wanted` is 0 where none failed. PyTorch
  // frees its cache and tries again, so that a refusal need not be an out-of-memory error.
  std::atomic<std::int64_t> refused_bytes, refused_free_bytes, refusals;
  ProcessDeviceCounters devices[kMaxDevices];
};

/// A device at one moment.
struct DeviceMoment {
  std::int64_t bytes = 0;  // what all processes held there, contexts included
  int contexts = 0;        // how many processes had one; at most kMaxProcesses
};
/// A moment in one word, so that two of them cannot mix; more bytes make the greater word.
constexpr std::int64_t word_of(const DeviceMoment& moment) {
  constexpr std::int64_t kMost = (std::int64_t{1} << 50) - 1;  // a PiB: no device has that
  return std::min(moment.bytes, kMost) << 13 | moment.contexts;
}
constexpr DeviceMoment moment_of(std::int64_t word) {
  return {.bytes = word >> 13, .contexts = static_cast<int>(word & 0x1fff)};
}
static_assert(kMaxProcesses <= 0x1fff);

struct SessionCounters {
  std::atomic<std::int64_t> fullest[kMaxDevices];  // word_of() the moment with the most bytes; 0: nothing was used
  ProcessCounters processes[kMaxProcesses];        // taken in order and kept: none is behind the first free one
};

static_assert(std::atomic<std::int64_t>::is_always_lock_free);

/// Bytes of `device` that all processes hold, contexts included.
std::int64_t used_on(const SessionCounters& counters, int device);

/// What NVML and nvidia-smi call a GPU of the session.
std::string uuid_of(int device);

/// Maps SESSION/counters, made where it is missing. Throws std::system_error.
SessionCounters* map_counters(const std::string& session_directory);

}  // namespace gpuplan::shadow
