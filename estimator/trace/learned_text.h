// The words of a trace file, for its writer and its reader.
//
//     gpuplan-trace: 1
//     command: python train.py --batch-size {batch}
//     gpu: h200 9.0 NVIDIA H200                     name, compute capability, title
//     torch: 2.15.0
//     alloc_conf: expandable_segments:True          may be left out
//     context: 536870912                            bytes of the CUDA context and libraries
//     run: batch=4 requested=R allocated=A reserved=V   the peaks that PyTorch reported; one line a run
//     outside: 0                                    device memory outside PyTorch's allocator
//     = 0 build                                     a section: step and phase
//     + conv2d.1 3211264*batch resnet.py:92 forward an allocation: name, requested bytes, the script's line
//     - relu.1 conv2d.1                             frees, in this order
//     +@1,3 empty.2 [4096,0,9216] train.py:9 main   only runs 1 and 3 have it; recorded sizes, as no function fits
//     + bmm.1 4*batch*seq^2? stream=1 model.py:7 f  ?: nothing checks this function; another stream
//     + cudnn.1 forward:fp32:nchw:1*batch,64,...:[1,2,3] f.py:1 g   cuDNN's workspace for that convolution
//     !                                             torch.cuda.empty_cache()
//     = 3 as 2                                      every line of step 2 again
//     end 6402                                      how many events there are in all
//
// A line that begins with # is a comment.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "estimator/trace/learned_trace.h"

namespace gpuplan {

/// "3211264*batch", "4*batch*seq^2?", "[1024,2048,4096]".
std::string text_of(const LearnedSize& size, std::span<const TraceVariable> variables);
/// Back; nothing where it is not such a text. Recorded points are as many as there are runs.
std::optional<LearnedSize> parse_learned_size(std::string_view text, const LearnedTrace& trace);

/// "@1,3"; "" for all of them.
std::string runs_text(RunSet runs, const LearnedTrace& trace);
/// Back, without the @.
std::optional<RunSet> parse_runs(std::string_view text, const LearnedTrace& trace);

/// A whole number from `least` to 2^53.
std::optional<std::int64_t> parse_number(std::string_view text, std::int64_t least = 0);

/// What stands before `end`, which is then taken off with it; all where there is none.
std::string_view take_until(std::string_view& text, char end);

}  // namespace gpuplan
