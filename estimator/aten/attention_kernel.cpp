#include "estimator/aten/attention_kernel.h"

#include <array>
#include <optional>

#include "estimator/base/integers.h"

namespace gpuplan::aten {
namespace {

std::optional<AttentionBackend> wanted(const RunConfig& run) {
  switch (run.attention) {
    case Attention::flash: return AttentionBackend::flash;
    case Attention::efficient: return AttentionBackend::efficient;
    case Attention::cudnn: return AttentionBackend::cudnn;
    case Attention::math: return AttentionBackend::math;
    case Attention::automatic:
    case Attention::eager: break;  // eager code does not come here, but for what has no other form
  }
  return std::nullopt;
}

}  // namespace

StridedTensor strided(const LayerBuilder& b, TensorId t) {
  StridedTensor s{b.shape(t), b.strides(t), 0};
  const int missing = 4 - s.shape.rank();
  if (missing <= 0) return s;
  Shape shape;
  Strides strides;
  for (int i = 0; i < 4; ++i) {
    shape.push_back(i < missing ? 1 : s.shape[i - missing]);
    strides.set(i, i < missing ? shape[i] : s.strides[i - missing]);
  }
  // A leading dimension of one that broadcasting adds steps over everything.
  for (int i = missing; i-- > 0;) strides.set(i, strides[i + 1] * shape[i + 1]);
  return {shape, strides, 0};
}

AttentionCall attention_call(const LayerBuilder& b, const AttentionArguments& a) {
  AttentionCall call;
  call.query = strided(b, a.query);
  call.key = strided(b, a.key);
  call.value = strided(b, a.value);
  call.dtype = b.dtype(a.query);
  call.dropout = a.dropout;
  call.causal = a.causal;
  call.batched = b.shape(a.query).rank() == 4;
  if (a.mask != kNone)
    call.mask = AttentionMask{strided(b, a.mask), b.dtype(a.mask) == DType::boolean, b.requires_grad(a.mask)};
  for (const TensorId t : {a.query, a.key, a.value}) call.requires_grad = call.requires_grad || b.requires_grad(t);
  return call;
}

AttentionBackend chosen_backend(const LayerBuilder& b, const AttentionCall& call) {
  return choose_attention(call, b.gpu(), b.run().pytorch, wanted(b.run()));
}

std::string_view node_name(AttentionBackend backend) {
  switch (backend) {
    case AttentionBackend::flash: return "ScaledDotProductFlashAttentionBackward0";
    case AttentionBackend::efficient: return "ScaledDotProductEfficientAttentionBackward0";
    case AttentionBackend::cudnn: return "ScaledDotProductCudnnAttentionBackward0";
    case AttentionBackend::math: break;
  }
  return "ScaledDotProductAttentionMathBackward0";
}

Products products(const AttentionCall& c) {
  const Shape& q = c.query.shape;
  std::int64_t n = 1;
  for (const std::int64_t factor : {q[0], q[1], q[2], c.key.shape[2]}) n = checked_mul(n, factor);
  return {checked_mul(n, q[3]), checked_mul(n, c.value.shape[3])};
}

std::vector<OutputSpec> outputs_of(const AttentionStep& step) {
  std::vector<OutputSpec> specs;
  specs.reserve(step.outputs.size());
  for (const AttentionOutput& o : step.outputs)
    specs.push_back({o.tensor.shape, o.dtype, Placing::given, o.tensor.strides, o.bytes});
  return specs;
}

std::vector<AttentionValue> saved_in_order(const std::vector<AttentionValue>& saved, bool mask) {
  constexpr std::size_t kNamed = 5;  // query, key, value, output, logsumexp; then the generator's state, a mask last
  if (saved.size() < kNamed) return saved;
  std::vector<AttentionValue> order;
  if (mask) order.push_back(saved.back());
  order.insert(order.end(), {saved[1], saved[0], saved[2], saved[4], saved[3]});
  order.insert(order.end(), saved.begin() + kNamed, saved.end() - (mask ? 1 : 0));
  return order;
}

// Or as any layout whose rows are dense.
Operand gradient_as_read(NodeBuilder& node, Operand gradient, AttentionBackend backend) {
  if (backend == AttentionBackend::cudnn || node.shape(gradient).rank() != 4) return gradient;
  constexpr std::array<int, 4> kSwap{0, 2, 1, 3};
  return node.permute(node.contiguous(node.permute(gradient, kSwap)), kSwap);
}

}  // namespace gpuplan::aten
