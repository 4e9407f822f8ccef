// The workspaces that plans for an H200 or H100 take for convolutions, beside those that cuDNN takes on the device:
//   g++ -std=c++20 -O1 -I. tests/recorders/device_workspaces.cpp build-ci/estimator/libgpuplan_estimator.a -o compare
//   xzcat tests/reference/h100/convolutions/device.tsv.xz | ./compare
// A line for the table's and for the rule's convolutions, of 1 x 1 and others, in each pass: how many, how many are
// equal, equal in the allocator's blocks, and how the sums compare.
#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>

#include "estimator/operators/cudnn_workspace.h"

using gpuplan::CudnnConvolution, gpuplan::DType;

namespace {

struct Line {
  std::int64_t bytes = 0;  // on the device
  CudnnConvolution convolution;
};

bool read(std::istream& in, Line& line) {
  std::string text;
  while (std::getline(in, text)) {
    std::istringstream fields(text);
    std::string pass, type, layout;
    std::int64_t pad = 0, stride = 0, dilation = 0;
    CudnnConvolution& c = line.convolution = {};
    fields >> pass >> type >> layout >> c.n >> c.c >> c.h >> c.w >> c.k >> c.r >> c.s >> pad >> stride >> dilation >>
        c.groups >> line.bytes;
    if (!fields || type == "fp32") continue;  // the header, and what runs without TF32
    c.pass = pass == "f"   ? CudnnConvolution::Pass::forward
             : pass == "d" ? CudnnConvolution::Pass::backward_data
                           : CudnnConvolution::Pass::backward_filter;
    c.dtype = type == "tf32" ? DType::fp32 : type == "bf16" ? DType::bf16 : DType::fp16;
    c.channels_last = layout == "nhwc";
    c.stride_h = c.stride_w = stride, c.pad_h = c.pad_w = pad, c.dilation_h = c.dilation_w = dilation;
    c.p = (c.h + 2 * pad - dilation * (c.r - 1) - 1) / stride + 1;
    c.q = (c.w + 2 * pad - dilation * (c.s - 1) - 1) / stride + 1;
    return true;
  }
  return false;
}

std::int64_t block(std::int64_t bytes) { return (bytes + 511) / 512; }

struct Count {
  double all = 0, equal = 0, blocks = 0, planned = 0, taken = 0;
};

}  // namespace

int main() {
  gpuplan::Gpu gpu;
  gpu.capability_major = 9;
  gpu.sm_count = 132;
  std::map<std::string, Count> counts;
  for (Line line; read(std::cin, line);) {
    const CudnnConvolution& c = line.convolution;
    if (gpuplan::runs_native_depthwise(c, gpu)) continue;
    const gpuplan::CudnnWorkspace planned = gpuplan::cudnn_workspace(c, gpu);
    const std::string source = planned.recorded ? "table" : "rule";
    const std::string kind = c.r == 1 && c.s == 1 && c.groups == 1 ? " 1x1 " : " other ";
    for (const std::string& name : {std::string("all"), source + kind + "fdw"[static_cast<int>(c.pass)]}) {
      Count& count = counts[name];
      ++count.all;
      count.equal += planned.bytes == line.bytes;
      count.blocks += block(planned.bytes) == block(line.bytes);
      count.planned += static_cast<double>(planned.bytes);
      count.taken += static_cast<double>(line.bytes);
    }
  }
  for (const auto& [name, c] : counts)
    std::printf("%-14s %8.0f  equal %.3f  in blocks %.3f  sum %.2f\n", name.c_str(), c.all, c.equal / c.all,
                c.blocks / c.all, c.planned / c.taken);
}
