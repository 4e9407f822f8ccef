// What a session's processes left behind, as values: their counters, the hook's events, what could not be known.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "validate/shadow/session.h"

namespace gpuplan::shadow {

/// PyTorch's three figures, in bytes.
struct Figures {
  std::int64_t allocated = 0, requested = 0, reserved = 0;
};

struct StepRecord {
  int index = 0;             // of the optimizer steps, from 1
  Figures peak, live;        // within the step; when it ends
  std::int64_t kernels = 0;  // launched within it
};

/// What was alive when PyTorch's allocator was fullest.
struct AliveLine {
  std::string file, function, code;
  int line = 0;
  std::int64_t bytes = 0, blocks = 0;
};
struct Alive {
  std::string when;  // "step 3"
  std::vector<std::pair<std::string, std::int64_t>> categories;
  std::vector<AliveLine> lines;
};

struct OutOfMemory {
  std::int64_t wanted_bytes = 0, free_bytes = 0, allocated_bytes = 0, reserved_bytes = 0;
  int device = 0;
  std::string message;
};

/// What torch.compile made in a process: the graphs, and the places where one had to end before its function did.
struct GraphBreak {
  std::string file, reason;
  int line = 0;
  std::int64_t times = 0;
};
struct Compiled {
  std::int64_t graphs = 0;
  std::vector<GraphBreak> breaks;
};

/// A line whose reading of the GPU's memory nobody could answer, or only with what was drawn.
struct Decision {
  std::string file, function;  // the function of torch; both empty: not called by Python's main thread
  int line = 0;
  std::int64_t times = 0;
  bool drawn = false;  // else it was answered with zeros
};

/// What a serving engine has measured of itself and said, in its own words.
struct Engine {
  std::string name;                                         // "vLLM 0.33.0"; empty: none was there
  std::vector<std::pair<std::string, std::int64_t>> parts;  // bytes of one GPU, the most of all processes
  std::vector<std::string> lines;                           // each once
};

/// A choice that autotuning would have timed: the kind and what it is of.
using Choice = std::pair<std::string, std::string>;

/// One device as PyTorch's allocator of one process saw it.
struct TorchDevice {
  Figures peak;
  std::int64_t segments = 0, retries = 0, ooms = 0;
  std::int64_t graph_bytes = 0;  // reserved in the pools of CUDA graphs and not allocated
  std::vector<StepRecord> steps;
  Alive alive;
};

/// One device as the runtime saw it: everything that one process held there.
struct DeviceUse {
  std::int64_t peak_bytes = 0, allocations = 0;
};

struct ProcessRecord {
  int pid = 0;
  int rank = -1;  // of torch.distributed; -1: none
  std::int64_t kernels = 0;
  std::int64_t refusals = 0, refused_bytes = 0, refused_free_bytes = 0;  // of device memory; the bytes are the last's
  std::map<int, DeviceUse> used;                                         // by device, where it had memory
  bool pytorch = false;                                                  // a Python with PyTorch
  std::string torch, cuda, python;                                       // versions; empty: the hook was not there
  std::map<int, TorchDevice> devices;
  std::vector<OutOfMemory> out_of_memory;
  std::string allocations, workspaces;  // where the settings ask to learn: the files' text
  Compiled compiled;
  std::vector<Decision> decided;  // most often first
  std::string end_reason;         // "exit", "steps", "until-stable", "exception"; empty: it was killed
};

struct Problem {
  int code = 0;  // the exit code that it calls for; 0: none
  std::string text;
};

struct SessionRecord {
  std::vector<ProcessRecord> processes;    // that used CUDA or PyTorch, by rank, then by process
  std::map<int, DeviceMoment> fullest;     // by device, where it was used
  std::map<Choice, std::int64_t> choices;  // of all processes; the largest workspace of one left out, in bytes
  Engine engine;
  std::vector<std::string> unknown;  // each once
  std::vector<Problem> problems;     // each once
};

/// Reads whatever is there: a killed process's last line may be cut off, and files may be missing.
SessionRecord read_session(const std::string& directory);

/// Adds the events of one process to it; lines that are no event are skipped.
void read_events(const std::string& text, ProcessRecord& process, SessionRecord& session);

}  // namespace gpuplan::shadow
