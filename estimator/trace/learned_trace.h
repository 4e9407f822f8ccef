// A trace learned from a script's runs at several values: one list of allocator events, with every size a function of
// the variables. It is a text file (trace_form() in learned_text.cpp describes it), which plan_trace.h replays.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/trace/recorded_run.h"
#include "estimator/trace/size_function.h"
#include "estimator/trace/workspace.h"

namespace gpuplan {

constexpr std::string_view kTraceFirstLine = "gpuplan-trace: 1";
/// Of one file, repeated steps included: what bounds the memory that a hostile file can take.
constexpr std::size_t kMaxLearnedEvents = 4'000'000;
/// A run is a bit of a RunSet.
constexpr std::size_t kMaxTraceRuns = 64;
using RunSet = std::uint64_t;

/// What was recorded, by run, where no function has it; 0 where a run does not have the allocation.
using RecordedPoints = std::vector<std::int64_t>;

struct LearnedSize {
  std::variant<SizeFunction, RecordedPoints, LearnedWorkspace> value;
  bool checked = true;  // of a function
  bool operator==(const LearnedSize&) const = default;
};

struct LearnedEvent {
  EventKind kind = EventKind::allocate;
  std::uint32_t tensor = 0;  // allocations count from 0; a free has the number of what it frees
  RunSet runs = 0;           // those that have it
};

struct LearnedTensor {
  std::uint32_t name = 0, place = 0;  // of LearnedTrace::words
  std::uint32_t size = 0;             // of LearnedTrace::sizes
  std::int32_t stream = 0;
};

struct LearnedSection {
  int step = 0;  // 0: before the first
  std::string phase;
  std::vector<LearnedEvent> events;
};

/// One process of a script on one GPU, which may be one rank of several.
struct LearnedTrace {
  std::string command;                             // "python train.py --batch-size {batch}"
  std::string gpu, gpu_title;                      // that the script found
  int capability_major = 8, capability_minor = 0;  // its CUDA compute capability
  std::string torch, alloc_conf;                   // PyTorch's version; PYTORCH_ALLOC_CONF
  bool compiled = false;                           // torch.compile made code for each run's values
  std::int64_t world = 1, rank = 0;                // of torch.distributed: --world, --rank
  std::int64_t context_bytes = 0;                  // of the runtime
  std::vector<TraceVariable> variables;
  std::vector<std::vector<std::int64_t>> runs;  // the variables' values, by run
  std::vector<Readings> peaks;                  // PyTorch's own, by run
  LearnedSize outside;                          // device memory that PyTorch's allocator does not know of
  std::vector<std::string> words;
  std::vector<LearnedSize> sizes;  // each once
  std::vector<LearnedTensor> tensors;
  std::vector<LearnedSection> sections;
  RunSet all_runs() const { return runs.size() >= kMaxTraceRuns ? ~RunSet{0} : (RunSet{1} << runs.size()) - 1; }
};

/// What was said of a trace, for its reports.
/// Of sizes, by allocation.
struct TraceCounts {
  std::int64_t allocations = 0;
  std::int64_t constant = 0, functions = 0;  // the same in every run; a function of the variables, checked
  std::int64_t workspaces = 0;               // of cuDNN, by gpuplan's rule, which agrees with what was recorded
  std::int64_t unchecked = 0, points = 0;    // a function that nothing checks; recorded points only
  std::int64_t only_some_runs = 0;           // events that not every run has, frees included
};
TraceCounts counts_of(const LearnedTrace& trace);

/// The file. Steps whose lines are those of the step before are written once.
std::string write_learned_trace(const LearnedTrace& trace);
/// Back. Throws Error with file:line for what is no such file.
LearnedTrace read_learned_trace(const Source& source);

/// As much of the GPU that was recorded on as the sizes of workspaces hang on.
Gpu gpu_of(const LearnedTrace& trace);

/// "batch=8 seq=128"
std::string values_text(std::span<const TraceVariable> variables, std::span<const std::int64_t> values);

}  // namespace gpuplan
