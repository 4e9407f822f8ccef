// Convolutions in all their passes.
#include <array>
#include <variant>

#include "validate/cuda/check.h"
#include "validate/cuda/convolutions.h"
#include "validate/cuda/kernels/copy.h"
#include "validate/cuda/operation.h"

namespace gpuplan::cuda {
namespace {

const Convolution* convolution_of(const Kernel& k) {
  return k.what == nullptr ? nullptr : std::get_if<Convolution>(k.what);
}

// A sequence [N, C, L] is an image of one row.
KernelTensor as_image(KernelTensor t) {
  if (t.rank != 3) return t;
  t.rank = 4;
  t.sizes[3] = t.sizes[2];
  t.strides[3] = t.strides[2];
  t.sizes[2] = 1;
  t.strides[2] = t.sizes[3] * t.strides[3];
  return t;
}

ConvolutionTensors tensors_of(const Kernel& k, const Convolution& c) {
  const KernelTensor first = as_image(k.reads[0]), second = as_image(k.reads[1]), out = as_image(result(k));
  switch (c.pass) {
    case ConvolutionPass::forward: return {first, second, out};
    case ConvolutionPass::backward_data: return {out, second, first};
    case ConvolutionPass::backward_filter: break;
  }
  // Of a transposed convolution, whose gradient is the image.
  const bool transposed = k.number(Attribute::transposed) != 0;
  return transposed ? ConvolutionTensors{first, out, second} : ConvolutionTensors{second, out, first};
}

KernelTensor in_layout(KernelTensor t, bool channels_last, void* data) {
  std::int64_t step = 1;
  constexpr std::array<int, 4> kContiguous{3, 2, 1, 0}, kLast{1, 3, 2, 0};
  for (const int i : channels_last ? kLast : kContiguous) {
    t.strides[i] = step;
    step *= t.sizes[i];
  }
  t.data = data;
  return t;
}

// The scratch of the operation: a copy of an input in another layout, one of the weight, and cuDNN's workspace.
struct Scratch {
  std::span<const KernelScratch> left;
  KernelScratch take(const char* what) {
    if (left.empty() || left.front().data == nullptr) fail(std::string("the plan has no ") + what);
    const KernelScratch first = left.front();
    left = left.subspan(1);
    return first;
  }
};

void run_convolution(const Machine& m, const Kernel& k) {
  const Convolution& c = *convolution_of(k);
  ConvolutionTensors t = tensors_of(k, c);
  Scratch scratch{k.scratch};
  if (c.input_copy_bytes > 0) {
    KernelTensor& input = c.pass == ConvolutionPass::forward ? t.image : t.feature_map;
    const KernelTensor copied = in_layout(input, c.channels_last, scratch.take("copy of the input").data);
    copy(m.launch, input, copied);
    input = copied;
  }
  if (c.weight_copy_bytes > 0) {
    const KernelTensor copied = in_layout(t.filter, c.channels_last, scratch.take("copy of the weight").data);
    copy(m.launch, t.filter, copied);
    t.filter = copied;
  }
  Workspace workspace{m.launch.partials, m.launch.partial_bytes};
  if (!scratch.left.empty() && scratch.left.front().bytes > workspace.bytes)
    workspace = {scratch.left.front().data, scratch.left.front().bytes};
  m.convolutions.run(m.launch, c, t, {k.tf32, k.repeatable}, workspace);
}

std::string refuse_convolution(const Kernel& k) {
  const Convolution* c = convolution_of(k);
  if (c == nullptr) return "it is not a convolution";
  if (c->im2col) return "PyTorch's own convolution by columns is not executed";
  if (k.reads[0].rank < 3 || k.reads[0].rank > 4) return "only images and sequences are convolved";
  return is_floating(k.reads[0].dtype) ? "" : "a convolution of integers";
}

constexpr std::array kOperations{Operation{Operator::convolution, run_convolution, refuse_convolution},
                                 Operation{Operator::_conv_depthwise2d, run_convolution, refuse_convolution},
                                 Operation{Operator::convolution_backward, run_convolution, refuse_convolution}};
static_assert(is_whole_family(kOperations, OperatorFamily::convolutions));

}  // namespace

std::span<const Operation> convolution_operations() { return kOperations; }

}  // namespace gpuplan::cuda
