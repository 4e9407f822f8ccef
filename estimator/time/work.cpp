#include "estimator/time/work.h"

#include <algorithm>

namespace gpuplan {
namespace {

struct ClassName {
  std::string_view operator()(const Gemm&) const { return "matrix product"; }
  std::string_view operator()(const Convolution&) const { return "convolution"; }
  std::string_view operator()(const Elementwise&) const { return "pointwise"; }
  std::string_view operator()(const BatchNorm&) const { return "batch norm"; }
  std::string_view operator()(const LayerNorm&) const { return "layer norm"; }
  std::string_view operator()(const GroupNorm&) const { return "group norm"; }
  std::string_view operator()(const Reduction&) const { return "reduction"; }
  std::string_view operator()(const Pooling&) const { return "pooling"; }
  std::string_view operator()(const Softmax&) const { return "softmax"; }
  std::string_view operator()(const NllLoss&) const { return "loss"; }
  std::string_view operator()(const Loss&) const { return "loss"; }
  std::string_view operator()(const Lookup&) const { return "embedding"; }
  std::string_view operator()(const OpaqueKernel&) const { return "attention"; }
  std::string_view operator()(const Recurrence&) const { return "recurrence"; }
  std::string_view operator()(const DropoutStates&) const { return "dropout states"; }
  std::string_view operator()(const Copy&) const { return "copy"; }
  std::string_view operator()(const Fill&) const { return "fill"; }
  std::string_view operator()(const Resample&) const { return "resampling"; }
  std::string_view operator()(const Marker&) const { return "none"; }
};

// An expanded tensor repeats its elements with a stride of 0.
std::int64_t distinct_bytes(const OperandView& view) {
  if (view.buffer == kNone) return 0;
  std::int64_t elements = 1;
  for (int i = 0; i < view.shape.rank(); ++i)
    if (view.strides[i] != 0 || view.shape[i] == 0) elements *= view.shape[i];
  return elements * size_of(view.dtype);
}

std::int64_t bytes_of(std::span<const OperandView> views) {
  std::int64_t bytes = 0;
  for (const OperandView& v : views) bytes += distinct_bytes(v);
  return bytes;
}

DType product_type(const Primitive& what, const KernelCall& call, const Calls& calls) {
  if (const auto* g = std::get_if<Gemm>(&what)) return g->dtype;
  if (const auto* c = std::get_if<Convolution>(&what)) return c->dtype;
  const auto reads = calls.at(call.reads);
  return reads.empty() ? DType::fp32 : reads.front().dtype;
}

std::int64_t operand_bytes(const Primitive& what, const KernelCall& call, const Calls& calls) {
  const auto reads = calls.at(call.reads), writes = calls.at(call.writes);
  std::int64_t bytes = bytes_of(reads) + bytes_of(calls.at(call.extra)) + bytes_of(writes);
  if (writes.empty() && !reads.empty()) bytes += distinct_bytes(reads.front());
  if (const auto* l = std::get_if<Lookup>(&what); l != nullptr && !l->backward && !reads.empty()) {
    const std::int64_t table = distinct_bytes(reads.front());
    bytes += std::min(l->indices * l->features * size_of(reads.front().dtype), table) - table;
  }
  return bytes;
}

// Of the parameters with a gradient, which is as large.
std::int64_t trained_bytes(const Graph& graph, const Schedule& schedule) {
  std::int64_t bytes = 0;
  for (const std::int32_t i : schedule.with_gradient) {
    const Tensor& t = graph.tensor(graph.parameters[static_cast<std::size_t>(i)].tensor);
    bytes += t.shape.elements() * size_of(t.dtype);
  }
  return bytes;
}

constexpr std::int64_t kVector = 16;  // bytes

// One dimension of a factor is contiguous; the other's stride is what every row, or column, begins at a multiple of.
bool has_aligned_rows(const OperandView& view) {
  if (view.buffer == kNone || view.shape.rank() < 2) return true;
  for (int i = view.shape.rank() - 2; i < view.shape.rank(); ++i)
    if (view.shape[i] > 1 && view.strides[i] > 1 && view.strides[i] * size_of(view.dtype) % kVector != 0) return false;
  return view.offset * size_of(view.dtype) % kVector == 0;
}

bool has_aligned_factors(const Primitive& what, const KernelCall& call, const Calls& calls) {
  const auto reads = calls.at(call.reads);
  return !std::holds_alternative<Gemm>(what) ||
         std::ranges::all_of(reads.first(std::min<std::size_t>(reads.size(), 2)), has_aligned_rows);
}

}  // namespace

std::string_view class_name(const Primitive& what) { return std::visit(ClassName{}, what); }

Work work_of(const ScheduledOp& step, const KernelCall& call, const Calls& calls, bool tf32) {
  const Cost c = cost(*step.what);
  return {2 * (c.macs + c.recompute_macs),
          c.elementwise_flops,
          operand_bytes(*step.what, call, calls),
          product_type(*step.what, call, calls),
          tf32,
          has_aligned_factors(*step.what, call, calls)};
}

Work with_stored_weight(Work work, const Primitive& what, const KernelCall& call, const Calls& calls,
                        const Graph& graph, WeightFormat format) {
  const auto* gemm = std::get_if<Gemm>(&what);
  const auto* kernel = std::get_if<OpaqueKernel>(&what);  // a product of packed weights
  const bool dequantises = kernel == nullptr && is_bitsandbytes(format);
  if (format == WeightFormat::as_computed || (gemm == nullptr && kernel == nullptr && !dequantises)) return work;
  for (const OperandView& view : calls.at(call.reads)) {
    // Those of backward are the schedule's, behind the graph's; weights are the graph's.
    if (view.buffer == kNone || static_cast<std::size_t>(view.buffer) >= graph.buffers.size()) continue;
    const Buffer& buffer = graph.buffers[static_cast<std::size_t>(view.buffer)];
    const std::int64_t dense = distinct_bytes(view);
    if (buffer.category != Category::parameters || buffer.bytes >= dense) continue;
    if (!dequantises) work.weights = format;
    work.bytes += buffer.bytes - dense;
    if (format == WeightFormat::int4 && gemm != nullptr && gemm->m > 1 && gemm->n > 1) work.bytes += 2 * dense;
    break;
  }
  return work;
}

Work update_work(const Graph& graph, const Schedule& schedule, const OptimizerWork& optimizer) {
  Work work;
  work.plain_flops = optimizer.steady.elementwise_flops;
  work.product_flops = optimizer.steady.product_flops;
  work.dtype = optimizer.steady.product_type;
  work.bytes = optimizer.steady.bytes_moved;
  if (work.bytes == 0) work.bytes = 3 * trained_bytes(graph, schedule) + 2 * state_bytes(optimizer);
  return work;
}

Work clip_work(const Graph& graph, const Schedule& schedule, const OptimizerWork& optimizer) {
  Work work;
  work.plain_flops = optimizer.clip.elementwise_flops;
  work.bytes = 3 * trained_bytes(graph, schedule);
  return work;
}

}  // namespace gpuplan
