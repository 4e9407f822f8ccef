#include "estimator/memory/cudnn_query.h"

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

}  // namespace gpuplan
