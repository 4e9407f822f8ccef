#include "estimator/aten/attention.h"

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "estimator/aten/attention_kernel.h"
#include "estimator/aten/attention_math.h"
#include "estimator/aten/opaque_kernel.h"
#include "estimator/aten/rearrange.h"
#include "estimator/aten/ring_attention.h"
#include "estimator/aten/views.h"
#include "estimator/base/integers.h"
#include "estimator/operators/attention.h"

namespace gpuplan::aten {
namespace {

bool is_kernel(const AttentionStep& step) { return row_of(step.op).family == OperatorFamily::attention; }

using Value = AttentionValue;

class Kernel {
 public:
  Kernel(LayerBuilder& b, const AttentionArguments& a, AttentionBackend backend)
      : b_(b), a_(a), call_(attention_call(b, a)), backend_(backend), engine_(b.run().scratch == Scratch::full) {}

  TensorId run() {
    forward_ = {{Value::query, a_.query}, {Value::key, a_.key}, {Value::value, a_.value}, {Value::mask, a_.mask}};
    const Products work = products(call_);
    std::vector<TensorId> saved;
    for (const AttentionStep& step : attention_forward(call_, backend_, b_.gpu(), b_.run().pytorch, engine_)) {
      OpaqueKernel what = opaque_kernel(step.program);
      if (is_kernel(step)) what.macs = checked_add(work.scores, work.values);
      std::vector<TensorId> reads;
      for (const Value v : step.reads) reads.push_back(forward_.at(v));
      const std::vector<TensorId> results = b_.emit_many(step.op, what, reads, outputs_of(step));
      if (is_kernel(step)) {
        b_.attributes(
            {{Attribute::scale, scale()}, {Attribute::is_causal, a_.causal}, {Attribute::dropout_p, a_.dropout}});
        kernel_reads_ = step.reads;
      } else if (step.op == Operator::where) {
        b_.attributes({{Attribute::self, 0}, {Attribute::other, -std::numeric_limits<double>::infinity()}});
      } else if (const Shape from = b_.shape(reads[0]); from.rank() == 4) {
        const auto p = padding(from, step.outputs[0].tensor.shape);
        b_.attributes(p);
      }
      for (std::size_t i = 0; i < results.size(); ++i) forward_[step.outputs[i].value] = results[i];
      if (forward_.contains(Value::aligned_mask) && !is_kernel(step)) cut_mask();
      if (!step.saved.empty() && a_.mask != kNone) expand_mask(step.saved.back());
      for (const Value v : saved_in_order(step.saved, a_.mask != kNone)) saved.push_back(forward_.at(v));
    }
    Shape shape = b_.shape(a_.query);
    shape.set(-1, b_.shape(a_.value)[-1]);
    const TensorId out = forward_.at(Value::out);
    const TensorId y = b_.shape(out) == shape ? out : b_.alias(out, shape, b_.strides(out));
    if (NodeBuilder node = b_.node(node_name(backend_), y, {a_.query, a_.key, a_.value, a_.mask})) {
      for (const TensorId t : saved) node.save(t);
      backward(node, work);
    }
    return y;
  }

 private:
  // F.scaled_dot_product_attention's default.
  double scale() const { return 1 / std::sqrt(static_cast<double>(b_.shape(a_.query)[-1])); }

  // After the last element of each dimension; less than 0 cuts it off.
  static std::vector<AttributeValue> padding(const Shape& from, const Shape& to) {
    std::vector<AttributeValue> p{{Attribute::value, 0}};
    for (int i = 0; i < 4; ++i) p.insert(p.end(), {{Attribute::before, 0}, {Attribute::after, to[i] - from[i]}});
    return p;
  }

  // pad_bias: a mask padded to aligned rows is sliced to its own width again, a view.
  void cut_mask() {
    TensorId& mask = forward_[Value::aligned_mask];
    Shape shape = b_.shape(mask);
    shape.set(-1, b_.shape(a_.key)[-2]);
    mask = b_.alias(mask, shape, b_.strides(mask));
  }

  // The kernel is given a mask that is expanded to the scores' shape, and so is autograd.
  void expand_mask(Value id) {
    const TensorId mask = forward_.at(id);
    const Shape query = b_.shape(a_.query), shape = b_.shape(mask);
    if (query.rank() != 4 || shape.rank() > 4) return;
    Shape wide{query[0], query[1], query[2], b_.shape(a_.key)[-2]};
    Strides strides;
    for (int i = 0; i < 4; ++i) {
      const int from = i - (4 - shape.rank());
      strides.set(i, from >= 0 && shape[from] == wide[i] ? b_.strides(mask)[from] : 0);
    }
    if (!(shape == wide)) forward_[id] = b_.alias(mask, wide, strides);
  }

  void backward(NodeBuilder& node, const Products& work) {
    std::map<Value, Operand> values(forward_.begin(), forward_.end());
    values[Value::grad_out] = gradient_as_read(node, node.grad(), backend_);
    const StridedTensor grad_out = dense_tensor(strided_shape(node.shape(node.grad())), {0, 2, 1, 3});
    for (const AttentionStep& step :
         attention_backward(call_, backend_, grad_out, b_.gpu(), b_.run().pytorch, engine_)) {
      OpaqueKernel what = opaque_kernel(step.program);
      if (is_kernel(step)) {
        what.macs = checked_mul(2, checked_add(work.scores, work.values));
        what.recompute_macs = work.scores;
      }
      std::vector<Operand> reads;
      for (const Value v : step.reads) reads.push_back(values.at(v));
      const std::vector<Operand> results = node.run_many(step.op, what, reads, outputs_of(step));
      if (is_kernel(step)) {
        node.attributes(
            {{Attribute::scale, scale()}, {Attribute::is_causal, a_.causal}, {Attribute::dropout_p, a_.dropout}});
        node.extra({values.at(kernel_reads_[0]), values.at(kernel_reads_[1]), values.at(kernel_reads_[2]),
                    kernel_reads_.size() > 3 ? values.at(kernel_reads_[3]) : kAbsent, values.at(Value::out),
                    values.at(Value::logsumexp)});
      } else if (step.op == Operator::sum) {  // of a mask's gradient, over what the mask was broadcast to
        const Shape& to = step.outputs[0].tensor.shape;
        unsigned reduced = 0;
        for (int i = 0; i < to.rank(); ++i) reduced |= to[i] != node.shape(reads[0])[i] ? 1U << i : 0U;
        node.attributes({{Attribute::dims, reduced}});
      } else if (step.op == Operator::constant_pad_nd && node.shape(reads[0]).rank() == 4) {
        const auto p = padding(node.shape(reads[0]), step.outputs[0].tensor.shape);
        node.attributes(p);
      }
      for (std::size_t i = 0; i < results.size(); ++i) values[step.outputs[i].value] = results[i];
    }
    give(node, values, a_.query, Value::grad_query);
    give(node, values, a_.key, Value::grad_key);
    give(node, values, a_.value, Value::grad_value);
    give(node, values, a_.mask, values.contains(Value::grad_mask) ? Value::grad_mask : Value::grad_scores);
  }

  static Shape strided_shape(const Shape& shape) {
    Shape out;
    for (int i = shape.rank(); i < 4; ++i) out.push_back(1);
    for (const std::int64_t n : shape.sizes()) out.push_back(n);
    return out;
  }

  void give(NodeBuilder& node, const std::map<Value, Operand>& values, TensorId input, Value gradient) const {
    if (!node.needs(input)) return;
    const auto found = values.find(gradient);
    if (found == values.end()) return;
    const Shape shape = b_.shape(input);
    // What the kernel returns is no view of autograd's, so that other gradients are added to it in place.
    node.give(input, node.shape(found->second) == shape ? found->second : node.reshape(found->second, shape));
  }

  LayerBuilder& b_;
  const AttentionArguments& a_;
  AttentionCall call_;
  AttentionBackend backend_;
  bool engine_;  // cuDNN's own workspace counts
  std::map<Value, TensorId> forward_;
  std::vector<Value> kernel_reads_;  // of the forward kernel: query, key, value, mask where there is one
};

// A mask with a gradient is padded to aligned rows, cut to its own columns and expanded to the scores by nodes of its
// own (preprocess_mask), which run in backward when the kernel's node has let go of what it saved.
TensorId expanded_mask(LayerBuilder& b, const AttentionArguments& a, AttentionBackend backend) {
  if (a.mask == kNone || !b.requires_grad(a.mask) || b.shape(a.query).rank() != 4) return a.mask;
  const Shape q = b.shape(a.query);
  TensorId mask = a.mask;
  const std::int64_t columns = b.shape(mask)[-1];
  if (backend == AttentionBackend::efficient)
    if (const std::int64_t padded = padded_mask_columns(strided(b, mask)); padded != columns) {
      const Padding1d after[] = {{0, padded - columns}};
      mask = slice(b, constant_pad(b, mask, after), -1, 0, columns);
    }
  return expand(b, mask, {q[0], q[1], q[2], b.shape(a.key)[-2]});
}

}  // namespace

TensorId additive_mask(LayerBuilder& b, TensorId mask, DType dtype) {
  const std::int64_t scalar = size_of(dtype);
  ScratchProgram program;
  ScratchWriter w(program);
  for (int i = 0; i < 2; ++i) w.allocate(scalar);
  w.result();
  w.release_all();
  const TensorId y = b.emit(Operator::where, opaque_kernel(program), {mask}, {b.shape(mask), dtype, Placing::like});
  b.attributes({{Attribute::self, 0}, {Attribute::other, -std::numeric_limits<double>::infinity()}});
  return y;
}

bool takes_no_fused_kernel(const LayerBuilder& b, TensorId x, std::int64_t heads) {
  const Shape in = b.shape(x);
  const StridedTensor divided = dense_tensor({in[0], heads, in[1], in[2] / heads}, {0, 2, 1, 3});
  const AttentionCall call{.query = divided, .key = divided, .value = divided, .dtype = b.dtype(x), .mask = {}};
  return chosen_backend(b, call) == AttentionBackend::math;
}

TensorId scaled_dot_product_attention(LayerBuilder& b, AttentionArguments a) {
  if (a.mask != kNone && is_floating(b.dtype(a.mask))) a.mask = b.cached_cast(a.mask);
  a.value = b.cached_cast(a.value);
  a.key = b.cached_cast(a.key);
  a.query = b.cached_cast(a.query);
  for (const TensorId t : {a.key, a.value})
    if (b.dtype(t) != b.dtype(a.query))
      b.fail("queries are " + std::string(name_of(b.dtype(a.query))) + ", keys or values " +
             std::string(name_of(b.dtype(t))) + "; PyTorch expects one type");
  // The fused kernels take four dimensions (sdp_utils_cpp.h, check_tensor_shapes).
  if (b.run().context_ranks > 1) return ring_attention(b, a);
  const AttentionBackend backend =
      b.shape(a.query).rank() > 4 ? AttentionBackend::math : chosen_backend(b, attention_call(b, a));
  if (backend == AttentionBackend::math) {
    const TensorId y = math_attention(b, a);
    if (b.autocast()) b.hold({a.query, a.key, a.value});  // the casts are arguments of the call
    return y;
  }
  const TensorId mask = a.mask;
  a.mask = expanded_mask(b, a, backend);
  const TensorId y = Kernel(b, a, backend).run();
  if (b.autocast() && mask != kNone) b.hold({mask});  // autocast's cast, an argument, beside what is padded of it
  return y;
}

}  // namespace gpuplan::aten
