// One run of a script as `gpuplan shadow --learn` records it: what PyTorch's allocator was asked for, in order. A line
// each, tab-separated (validate/shadow/python/gpuplan_shadow_learn.py writes them):
//
//     a SIZE STREAM NAME PLACE   an allocation; they count from 0
//     f NUMBER                   that allocation's block is in its pool again
//     m STEP PHASE               what follows belongs there; step 0: before the first
//     e                          torch.cuda.empty_cache()
//     end RESERVED ALLOCATED REQUESTED RETRIES   PyTorch's own peaks of the run
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/operators/cudnn_workspace.h"

namespace gpuplan {

enum class EventKind : std::uint8_t { allocate, free, empty_cache };

struct RecordedEvent {
  EventKind kind = EventKind::allocate;
  std::uint32_t tensor = 0;  // allocations count from 0; a free has the number of what it frees
  std::int64_t bytes = 0;    // as requested
  std::int32_t stream = 0;   // 0: PyTorch's default stream
  std::optional<CudnnConvolution> workspace_of = {};  // known where cuDNN is asked through its graph API
  std::string name = {}, place = {};                  // a word for the tensor; the script's line, "" in backward
};

/// What follows an `m` line.
struct RecordedSection {
  int step = 0;
  std::string phase;
  std::vector<RecordedEvent> events;
};

/// Bytes.
struct Readings {
  std::int64_t requested_bytes = 0, allocated_bytes = 0, reserved_bytes = 0;
  bool operator==(const Readings&) const = default;
};

struct RecordedRun {
  std::string name;                  // for messages: "batch=4"
  std::vector<std::int64_t> values;  // of the variables
  std::vector<RecordedSection> sections;
  std::uint32_t tensors = 0;
  Readings peak;                   // PyTorch's own
  std::int64_t outside_bytes = 0;  // of device memory, held neither by PyTorch's allocator nor by the CUDA context
};

/// Reads the lines above into a run without values. Throws Error with the line's number where one is not as above, a
/// free is of what is not allocated, the end is missing, or the allocator had to empty its cache for want of memory.
RecordedRun read_recorded_run(const std::string& name, std::string_view text);

/// Says of which convolution workspaces are. `lines`: each convolution that ran with one, in order, tab-separated: its
/// bytes, the pass (forward, backward_data, backward_filter), cuDNN's number of the data type, nchw or nhwc, and
/// convolution_numbers(). An allocation of as many bytes, freed at once, goes before each; lines of anything else have
/// only the bytes. Throws Error for other lines.
void name_workspaces(RecordedRun& run, std::string_view lines);

}  // namespace gpuplan
