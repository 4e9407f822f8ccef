#include <cmath>

#include "estimator/base/dtype.h"
#include "estimator/base/error.h"
#include "estimator/operators/attention.h"

namespace gpuplan {
namespace {

int capability(const Gpu& gpu) { return gpu.capability_major * 10 + gpu.capability_minor; }

std::int64_t heads(const StridedTensor& t) { return t.shape[1]; }
std::int64_t length(const StridedTensor& t) { return t.shape[2]; }
std::int64_t size(const StridedTensor& t) { return t.shape[3]; }

bool grouped(const AttentionCall& call) { return heads(call.query) != heads(call.key); }

/// check_last_dim_stride_equals_1_dense, which looks at the mask too.
bool last_dimension_is_dense(const AttentionCall& call, bool ignore_singleton) {
  bool dense = call.query.strides[3] == 1 && call.key.strides[3] == 1 && call.value.strides[3] == 1;
  if (ignore_singleton) dense = dense || size(call.query) == 1;
  return dense && (!call.mask || call.mask->tensor.strides[3] == 1);
}

std::string flash_refusal(const AttentionCall& call, const Gpu& gpu, PyTorchVersion pytorch) {
  if (capability(gpu) < 80) return "needs compute capability 8.0 or newer";
  if (!is_half(call.dtype)) return "needs fp16 or bf16";
  if (call.mask) return "takes no mask";
  const std::int64_t largest = pytorch >= 202 ? 256 : 128;  // FlashAttention 1 before 2.2
  if (size(call.query) != size(call.value)) return "needs one head size for query, key and value";
  if (size(call.query) > largest) return "takes head sizes up to " + std::to_string(largest);
  if (call.causal && length(call.query) != length(call.key)) {
    return "takes is_causal only with as many queries as keys";
  }
  if (grouped(call) && pytorch < 205) return "takes no grouped queries in this release";
  const bool small_shared_memory = capability(gpu) == 86 || capability(gpu) == 89 || gpu.capability_major == 12;
  if (call.requires_grad && small_shared_memory && size(call.query) > 192 &&
      (call.dropout > 0 || size(call.query) <= 224)) {
    return "has no backward for this head size on this GPU";
  }
  if (!last_dimension_is_dense(call, true)) return "needs a last dimension of stride 1";
  return "";
}

/// minimum_gemm_alignment: head sizes and offsets that the kernel's loads need, in elements.
std::int64_t efficient_alignment(DType dtype, const Gpu& gpu) {
  if (gpu.capability_major >= 8) return is_half(dtype) ? 8 : 4;
  return gpu.capability_major == 7 && is_half(dtype) ? 8 : 1;
}

std::string efficient_refusal(const AttentionCall& call, const Gpu& gpu, PyTorchVersion pytorch) {
  if (call.dtype != DType::fp32 && !is_half(call.dtype)) return "needs fp32, fp16 or bf16";
  if (call.dtype == DType::bf16 && capability(gpu) < 80) return "needs compute capability 8.0 for bf16";
  const std::int64_t alignment = efficient_alignment(call.dtype, gpu);
  if (size(call.query) % alignment != 0 || size(call.value) % alignment != 0) {
    return "needs head sizes that are multiples of " + std::to_string(alignment);
  }
  if (pytorch >= 215 && gpu.capability_major >= 8) {
    for (const StridedTensor* t : {&call.query, &call.key, &call.value}) {
      if (t->offset % alignment != 0) return "needs aligned query, key and value";
    }
  }
  if (grouped(call) && pytorch < 215) return "takes no grouped queries in this release";
  if (!last_dimension_is_dense(call, false)) return "needs a last dimension of stride 1";
  return "";
}

std::string cudnn_head_size_refusal(const AttentionCall& call, const Gpu& gpu, PyTorchVersion pytorch) {
  const std::int64_t d = size(call.query), dv = size(call.value);
  if (d % 8 != 0 || dv % 8 != 0) return "needs head sizes that are multiples of 8";
  if (d <= 128 && dv <= 128) return "";
  const bool hopper = capability(gpu) == 90 || gpu.capability_major == 10;
  if (!hopper || d > 256 || dv > 256) return "takes smaller head sizes";
  const bool has_backward = (d == 192 && dv == 128 && pytorch >= 209) || (d == 256 && dv == 256 && pytorch >= 215);
  if (call.requires_grad && !has_backward) return "has no backward for these head sizes";
  return "";
}

std::string cudnn_refusal(const AttentionCall& call, const Gpu& gpu, PyTorchVersion pytorch) {
  if (capability(gpu) < 80) return "needs compute capability 8.0 or newer";
  if (!is_half(call.dtype)) return "needs fp16 or bf16";
  if (call.mask && call.mask->requires_grad) return "takes no mask that requires a gradient";
  if (pytorch >= 215 && std::floor(call.dropout * 16) != call.dropout * 16) {
    return "takes dropout in multiples of 1/16";
  }
  if (std::string no = cudnn_head_size_refusal(call, gpu, pytorch); !no.empty()) return no;
  if (length(call.key) == 1) return "takes no single key";
  if (length(call.query) == 1 && pytorch < 215) return "takes no single query in this release";
  if (length(call.query) == 1 && call.dropout > 0) return "takes no dropout with a single query";
  if (!last_dimension_is_dense(call, true)) return "needs a last dimension of stride 1";
  return "";
}

/// check_prefer_cudnn_attention: 2.9 with the cuDNN it was built with, later ones by the cuDNN in their wheels.
bool prefers_cudnn(const Gpu& gpu, PyTorchVersion pytorch) {
  const bool release = pytorch == 209 || pytorch >= 211;
  return release && (gpu.capability_major == 9 || gpu.capability_major == 10);
}

}  // namespace

std::string_view name_of(AttentionBackend backend) {
  switch (backend) {
    case AttentionBackend::flash: return "flash";
    case AttentionBackend::efficient: return "efficient";
    case AttentionBackend::cudnn: return "cudnn";
    case AttentionBackend::math: return "math";
  }
  return "";
}

std::string attention_refusal(const AttentionCall& call, AttentionBackend backend, const Gpu& gpu,
                              PyTorchVersion pytorch) {
  if (backend == AttentionBackend::math) return "";
  if (pytorch < 200) return "does not exist before PyTorch 2.0";
  if (!call.batched && pytorch < 215) return "needs a batch dimension in this release";
  switch (backend) {
    case AttentionBackend::flash: return flash_refusal(call, gpu, pytorch);
    case AttentionBackend::efficient: return efficient_refusal(call, gpu, pytorch);
    case AttentionBackend::cudnn: return cudnn_refusal(call, gpu, pytorch);
    case AttentionBackend::math: break;
  }
  return "";
}

AttentionBackend choose_attention(const AttentionCall& call, const Gpu& gpu, PyTorchVersion pytorch,
                                  std::optional<AttentionBackend> wanted) {
  using enum AttentionBackend;
  if (wanted) {
    if (const std::string no = attention_refusal(call, *wanted, gpu, pytorch); !no.empty()) {
      throw Error(std::string(name_of(*wanted)) + " attention cannot run this call: it " + no, ErrorKind::usage);
    }
    return *wanted;
  }
  // Where cuDNN is not preferred it comes after math, which takes everything.
  const bool cudnn_first = prefers_cudnn(gpu, pytorch);
  for (const AttentionBackend backend : {cudnn, flash, efficient}) {
    if (backend == cudnn && !cudnn_first) continue;
    if (attention_refusal(call, backend, gpu, pytorch).empty()) return backend;
  }
  return math;
}

}  // namespace gpuplan
