#include "estimator/operators/cudnn_query.h"

namespace gpuplan {
namespace {

CudnnConvolution::Pass pass_of(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::forward: return CudnnConvolution::Pass::forward;
    case ConvolutionPass::backward_data: return CudnnConvolution::Pass::backward_data;
    case ConvolutionPass::backward_filter: break;
  }
  return CudnnConvolution::Pass::backward_filter;
}

// RNN.cpp, use_rnn_persist_small_h: its sizes are the standard algorithm's.
bool runs_small(const Recurrence& r, const Gpu& gpu) {
  if (gpu.capability_major < 6) return false;
  const bool plain = cudnn_rnn::gates(r.stack.cell) == 1;
  return r.stack.hidden <= (r.backward ? (plain ? 256 : 128) : (plain ? 384 : 192));
}

// RNN.cpp, use_persist_common_heuristics and use_persist_device_heuristics.
bool runs_persistent(const Recurrence& r, const Gpu& gpu) {
  const cudnn_rnn::Stack& s = r.stack;
  if (r.dtype != DType::fp16 || s.projects() || runs_small(r, gpu)) return false;
  if (s.layers != 1 || s.bidirectional || s.hidden > 1024 || s.hidden % 128 != 0 || s.input % 128 != 0) return false;
  if (gpu.capability_major == 7) {
    if (gpu.capability_minor == 5) return false;
    const bool batch_suits = (r.batch % 16 == 0 && r.batch != 80 && r.batch != 112) || r.batch == 8;
    return batch_suits &&
           ((r.steps >= 40 && r.batch <= 128) || (r.steps >= 20 && r.batch <= 96) || (r.steps >= 10 && r.batch <= 32));
  }
  constexpr int kEnoughMultiprocessors = 98;
  if (gpu.capability_major < 8 || gpu.sm_count < kEnoughMultiprocessors || gpu.capability_minor == 6) return false;
  if (s.cell == cudnn_rnn::Cell::gru || r.batch % 8 != 0 || r.batch > 128) return false;
  return s.cell == cudnn_rnn::Cell::lstm || r.batch < 96 || s.hidden < 896;
}

}  // namespace

CudnnConvolution cudnn_query(const Convolution& c) {
  CudnnConvolution query{.dtype = c.dtype,
                         .channels_last = c.channels_last,
                         .n = c.n,
                         .c = c.c,
                         .h = c.h,
                         .w = c.w,
                         .k = c.k,
                         .r = c.r,
                         .s = c.s,
                         .p = c.p,
                         .q = c.q,
                         .stride_h = c.stride_h,
                         .stride_w = c.stride_w,
                         .pad_h = c.pad_h,
                         .pad_w = c.pad_w,
                         .dilation_h = c.dilation_h,
                         .dilation_w = c.dilation_w,
                         .groups = c.groups};
  query.pass = pass_of(c.pass);
  return query;
}

std::int64_t recurrence_workspace_bytes(const Recurrence& r, const Gpu& gpu) {
  cudnn_rnn::Stack stack = r.stack;
  stack.persistent = runs_persistent(r, gpu);
  stack.padded_io = true;  // sequences of a plan are not packed
  const int capability = 10 * gpu.capability_major + gpu.capability_minor;
  return workspace_bytes(stack, capability, {r.batch, r.steps, r.batch * r.steps}, r.training);
}

}  // namespace gpuplan
