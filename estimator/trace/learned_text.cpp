#include "estimator/trace/learned_text.h"

#include <charconv>

namespace gpuplan {

std::string_view trace_form() {
  return R"(A trace written by gpuplan shadow --learn: a text file, one event per line.

  gpuplan-trace: 1                        the first line, with the version of this format
  command: python train.py --batch-size {batch}
  gpu: h200 9.0 NVIDIA H200               name, compute capability, title
  torch: 2.15.0
  alloc_conf: expandable_segments:True    may be left out
  compiled: yes                           torch.compile made code for each run; may be left out
  rank: 0 of 8                            of torch.distributed; may be left out
  context: 536870912                      bytes of the CUDA context and libraries
  run: batch=4 requested=R allocated=A reserved=V
                                          the peaks that PyTorch reported; one line per run
  outside: 0                              device memory outside PyTorch's allocator
  = 0 build                               a section: step and phase
  + conv2d.1 3211264*batch resnet.py:92 forward
                                          an allocation: name, requested bytes, the script's line and function
  - relu.1 conv2d.1                       frees, in this order
  +@1,3 empty.2 [4096,0,9216] train.py:9 main
                                          only runs 1 and 3 have it; the recorded sizes, since no function fits them
  + bmm.1 4*batch*seq^2? stream=1 model.py:7 f
                                          ?: no additional run verifies this function; stream: not the default stream
  + cudnn.1 forward:fp32:nchw:1*batch,64,...:[1,2,3] f.py:1 g
                                          cuDNN's workspace for that convolution, and its sizes in the runs
  !                                       torch.cuda.empty_cache()
  = 3 as 2                                every line of step 2 again
  end 6402                                the number of events; the last line

A size is a sum of products of integers, variables and their squares, such as 3*batch*seq^2+4*seq-512, or such a sum
in parentheses, divided by a whole number and rounded up. A line that begins with # is a comment.
)";
}

std::string text_of(const LearnedSize& size, std::span<const TraceVariable> variables) {
  if (const auto* const function = std::get_if<SizeFunction>(&size.value))
    return text_of(*function, variables) + (size.checked ? "" : "?");
  if (const auto* const workspace = std::get_if<LearnedWorkspace>(&size.value)) return text_of(*workspace, variables);
  std::string text;
  for (const std::int64_t point : std::get<RecordedPoints>(size.value))
    text += (text.empty() ? "[" : ",") + std::to_string(point);
  return text + "]";
}

std::optional<LearnedSize> parse_learned_size(std::string_view text, const LearnedTrace& trace) {
  LearnedSize size;
  if (text.starts_with('[') && text.ends_with(']')) {
    text = text.substr(1, text.size() - 2);
    RecordedPoints points;
    while (points.size() < trace.runs.size()) {
      const std::optional<std::int64_t> point = parse_number(take_until(text, ','));
      if (!point) return std::nullopt;
      points.push_back(*point);
    }
    if (!text.empty()) return std::nullopt;
    size.value = std::move(points);
    return size;
  }
  if (text.find(':') != std::string_view::npos) {
    std::optional<LearnedWorkspace> workspace = parse_workspace(text, trace.variables, trace.runs.size());
    if (!workspace) return std::nullopt;
    size.value = std::move(*workspace);
    return size;
  }
  if (text.ends_with('?')) size.checked = false, text.remove_suffix(1);
  const std::optional<SizeFunction> function = parse_size_function(text, trace.variables);
  if (!function) return std::nullopt;
  size.value = *function;
  return size;
}

std::string runs_text(RunSet runs, const LearnedTrace& trace) {
  if (runs == trace.all_runs()) return "";
  std::string text;
  for (std::size_t r = 0; r < trace.runs.size(); ++r)
    if ((runs >> r & 1) != 0) text += (text.empty() ? "@" : ",") + std::to_string(r + 1);
  return text;
}

std::optional<RunSet> parse_runs(std::string_view text, const LearnedTrace& trace) {
  RunSet runs = 0;
  do {
    const std::optional<std::int64_t> run = parse_number(take_until(text, ','), 1);
    if (!run || *run > static_cast<std::int64_t>(trace.runs.size())) return std::nullopt;
    const RunSet bit = RunSet{1} << (*run - 1);
    if ((runs & bit) != 0) return std::nullopt;
    runs |= bit;
  } while (!text.empty());
  return runs;
}

std::optional<std::int64_t> parse_number(std::string_view text, std::int64_t least) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > std::int64_t{1} << 53)
    return std::nullopt;
  return value;
}

std::string_view take_until(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return taken;
}

Gpu gpu_of(const LearnedTrace& trace) {
  Gpu gpu;
  gpu.name = trace.gpu;
  gpu.capability_major = trace.capability_major;
  gpu.capability_minor = trace.capability_minor;
  return gpu;
}

std::string values_text(std::span<const TraceVariable> variables, std::span<const std::int64_t> values) {
  std::string text;
  for (std::size_t v = 0; v < variables.size(); ++v)
    text += (v > 0 ? " " : "") + variables[v].name + "=" + std::to_string(values[v]);
  return text;
}

TraceCounts counts_of(const LearnedTrace& trace) {
  TraceCounts counts;
  for (const LearnedTensor& tensor : trace.tensors) {
    ++counts.allocations;
    const LearnedSize& size = trace.sizes[tensor.size];
    const auto* const function = std::get_if<SizeFunction>(&size.value);
    SizeFunction constant;
    if (function != nullptr) constant.coefficient[0][0] = function->coefficient[0][0];
    if (std::holds_alternative<LearnedWorkspace>(size.value))
      ++counts.workspaces;
    else if (function == nullptr)
      ++counts.points;
    else if (!size.checked)
      ++counts.unchecked;
    else
      ++(*function == constant ? counts.constant : counts.functions);
  }
  for (const LearnedSection& section : trace.sections)
    for (const LearnedEvent& event : section.events) counts.only_some_runs += event.runs != trace.all_runs() ? 1 : 0;
  return counts;
}

}  // namespace gpuplan
