#include "estimator/plan/at_most.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "estimator/allocator/allocator_constants.h"
#include "estimator/allocator/charges.h"
#include "estimator/base/format.h"
#include "estimator/base/integers.h"
#include "estimator/distributed/nccl_memory.h"
#include "estimator/operators/slow_convolution.h"
#include "estimator/plan/workspace_margin.h"

namespace gpuplan {
namespace {

void add(AtMost::Term term, AtMost& bound) {
  if (term.allocated_bytes <= 0 && term.reserved_bytes <= 0 && term.device_bytes <= 0) return;
  bound.allocated_bytes = checked_add(bound.allocated_bytes, term.allocated_bytes);
  bound.reserved_bytes = checked_add(bound.reserved_bytes, term.reserved_bytes);
  bound.device_bytes = checked_add(bound.device_bytes, term.device_bytes);
  bound.terms.push_back(std::move(term));
}

AtMost::Term workspace_term(const WorkspaceMargin& w) {
  return {.id = "cudnn_workspaces",
          .allocated_bytes = w.allocated_bytes,
          .reserved_bytes = w.reserved_bytes,
          .device_bytes = w.reserved_bytes,
          .what = "cuDNN workspaces",
          .source = "the cuDNN workspaces of " + format_count(w.convolutions) +
                    " convolutions were not recorded on such a GPU at this batch; the largest may take as much "
                    "as the largest recorded one of its kind, in segments of its own"};
}

bool asks_cudnn(const ScheduledOp& step) {
  const auto* const convolution = step.what != nullptr ? std::get_if<Convolution>(step.what) : nullptr;
  return convolution != nullptr && !convolution->native && !convolution->im2col;
}

// aten/src/ATen/native/cudnn/Conv_v8.cpp, try_configs: cuDNN's configurations are tried in turn until one runs, each
// with its workspace, and only the one that ran was recorded.
AtMost::Term attempts_term(const RankStep& step) {
  AtMost::Term term{
      .id = "cudnn_attempts",
      .what = "cuDNN attempts",
      .source =
          "PyTorch tries cuDNN's configurations, each with its workspace, until one runs; a failed attempt may move a "
          "later block to another segment, which adds up to 2 MiB reserved and a remainder of up to 1 MiB that "
          "PyTorch's allocator does not split off (kSmallSize)"};
  if (step.run.scratch != Scratch::full || step.run.allocator != AllocatorKind::caching) return term;
  if (std::ranges::none_of(step.schedule().ops, asks_cudnn)) return term;
  term.allocated_bytes = kSmallBytes;
  term.reserved_bytes = term.device_bytes = kSegmentStepBytes;
  return term;
}

// As timm's ConViT does it, whose tables of relative positions are planned as parts of the model.
AtMost::Term tables_term(const RankStep& step) {
  const Charges charges(step.run);
  std::int64_t small = 0, large = 0;
  for (const BufferTensor& table : step.graph.named_buffers) {
    if (step.graph.layers[static_cast<std::size_t>(table.layer)].type != "Buffer") continue;
    const BufferId storage = step.graph.tensor(table.tensor).buffer;
    const std::int64_t bytes = step.graph.buffers[static_cast<std::size_t>(storage)].bytes;
    std::int64_t& sum = bytes > kSmallBytes ? large : small;
    sum = checked_add(sum, bytes > kSmallBytes ? charges.segment(bytes) : charges.least(bytes));
  }
  const std::int64_t bytes = step.run.allocator == AllocatorKind::caching ? large + charges.small_segments(small) : 0;
  return {
      .id = "tables",
      .reserved_bytes = bytes,
      .device_bytes = bytes,
      .what = "tables",
      .source =
          "a Buffer may be created with the model, as planned, or in the first forward pass, in segments of its own"};
}

AtMost::Term slow_convolutions_term(const RankStep& step) {
  std::int64_t most = 0;
  if (step.run.scratch != Scratch::none)
    for (const Schedule& pass : step.micro_batches.schedules)
      for (const ScheduledOp& at : pass.ops)
        if (at.what != nullptr && runs_without_cudnn(*at.what, step.gpu))
          most = std::max(most, most_slow_convolution_bytes(std::get<Convolution>(*at.what), step.gpu));
  const std::int64_t segment = step.run.allocator == AllocatorKind::caching ? Charges(step.run).segment(most) : most;
  return {
      .id = "slow_convolutions",
      .allocated_bytes = most,
      .reserved_bytes = most == 0 ? 0 : segment,
      .device_bytes = most == 0 ? 0 : segment,
      .what = "slow convolutions",
      .source =
          "bf16 convolutions run without cuDNN on this GPU: the largest may also need an im2col buffer, copies of its "
          "operands and cuBLAS's workspace (aten/src/ATen/native/cuda/ConvolutionMM2d.cu)"};
}

AtMost::Term context_term() {
  return {.id = "context",
          .device_bytes = kMostContextBytes - kAssumedContextBytes,
          .what = "CUDA modules",
          .source =
              "the CUDA context and libraries are assumed; PyTorch 2.1 took 0.92 GiB on an A100 with all modules "
              "loaded (stas00/ml-engineering), the highest published reading since 2.0"};
}

AtMost::Term paged_term(const RankStep& step) {
  return {
      .id = "paged_states",
      .device_bytes = step.optimizer.managed_bytes,
      .what = "paged optimizer state",
      .source =
          "bitsandbytes' paged states are managed memory (cudaMallocManaged), which the driver keeps on the GPU while "
          "there is room, and on the host else"};
}

AtMost::Term nccl_term(const RankStep& step) {
  const NcclBuffers nccl = nccl_buffers(step.strategy, step.gpu, step.run.pytorch);
  return {
      .id = "nccl",
      .device_bytes = nccl.most - nccl.planned,
      .what = "NCCL buffers",
      .source =
          "NCCL's buffers are assumed: ranks in the middle of a tree, switches that add up, and connections that are "
          "made when they are needed take more; with NVLink, three communicators took 6 GB together "
          "(github.com/NVIDIA/nccl/issues/864)"};
}

}  // namespace

AtMost at_most(const Plan& plan, const Report& report) {
  const RankStep& step = plan.step;
  const auto& peak = report.peak;
  AtMost bound{peak.reading.allocated_bytes, peak.reading.reserved_bytes, peak.device_bytes, {}};
  add(workspace_term(workspace_margin(step.micro_batches.schedules, plan.replay, step.run, step.gpu)), bound);
  add(attempts_term(step), bound);
  add(slow_convolutions_term(step), bound);
  add(tables_term(step), bound);
  add(paged_term(step), bound);
  if (step.run.context_bytes) return bound;
  if (!step.gpu.context_bytes) add(context_term(), bound);
  add(nccl_term(step), bound);
  return bound;
}

void allow_for_padding(const Report& other, Report& report) {
  if (!report.at_most || !other.at_most) return;
  AtMost& bound = *report.at_most;
  const auto more = [](std::int64_t a, std::int64_t b) { return std::max<std::int64_t>(a - b, 0); };
  add({.id = "padding",
       .allocated_bytes = more(other.at_most->allocated_bytes, bound.allocated_bytes),
       .reserved_bytes = more(other.at_most->reserved_bytes, bound.reserved_bytes),
       .device_bytes = more(other.at_most->device_bytes, bound.device_bytes),
       .what = "padding",
       .source = "attention gets a mask only if the batch has padding; the other case is planned, too"},
      bound);
}

}  // namespace gpuplan
