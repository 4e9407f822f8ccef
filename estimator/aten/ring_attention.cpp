#include "estimator/aten/ring_attention.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "estimator/aten/attention_kernel.h"
#include "estimator/aten/opaque_kernel.h"
#include "estimator/aten/pointwise.h"
#include "estimator/base/integers.h"

namespace gpuplan::aten {
namespace {

using Value = AttentionValue;

/// What the keys of one rank are attended to by.
enum class Turn : std::uint8_t { own, all, first_keys, last_queries, skipped };

Shape half(Shape shape) {
  shape.set(2, shape[2] / 2);
  return shape;
}
StridedTensor half(StridedTensor t) { return {half(t.shape), t.strides, t.offset}; }

class Ring {
 public:
  Ring(LayerBuilder& b, const AttentionArguments& a)
      : b_(b),
        a_(a),
        call_(attention_call(b, a)),
        ranks_(b.run().context_ranks),
        keys_(b.elements(a.key)),
        both_(checked_add(keys_, b.elements(a.value))),
        dtype_(b.dtype(a.query)) {
    if (a.mask != kNone) b.fail("PyTorch refuses a mask in context parallelism: \"attn_bias is not supported yet\"");
    if (call_.query.shape[2] == 1) b.fail("context parallelism of one token a rank is not planned");
    if (!a.causal) b.fail("context parallelism is planned of causal attention alone");
    if (call_.query.shape[2] != call_.key.shape[2])
      b.fail("context parallelism attends to as many keys as there are queries");
    backend_ = b.shape(a.query).rank() == 4 ? chosen_backend(b, call_) : AttentionBackend::math;
    call_.requires_grad = true;  // kernels are asked for log-sum-exps in inference, too (compute_log_sumexp = True)
    if (backend_ != AttentionBackend::math && forward_of(Turn::own).size() != 1)
      b.fail("context parallelism is not planned of heads whose size the kernel pads");
    if (backend_ == AttentionBackend::math)
      b.fail(
          "PyTorch refuses this attention: \"CP only supports flash attention and memory efficient attention now.\"");
    for (std::int64_t i = 0; i < ranks_; ++i) turns_.push_back(turn(i));
    for (const Turn t : {Turn::own, balances_context(call_.query.shape[2]) ? Turn::last_queries : Turn::all})
      refuse_padding(t);
  }

  TensorId run() {
    const bool outside = b_.leave_grad(true);
    const TensorId y = forward();
    b_.leave_grad(outside);
    if (NodeBuilder node = b_.node(node_name(backend_), y, {a_.query, a_.key, a_.value})) {
      for (const Value v : saved_in_order(saved_, false)) node.save(first_.at(v));
      backward(node);
    }
    return y;
  }

 private:
  // Log-sum-exps of the memory-efficient kernel have rows for a multiple of 32 queries, results have none.
  void refuse_padding(Turn t) const {
    const std::int64_t queries = call_of(t).query.shape[2];
    const std::vector<AttentionStep> steps = forward_of(t);
    for (const AttentionOutput& made : steps.front().outputs)
      if (const Shape& rows = made.tensor.shape;
          made.value == Value::logsumexp && rows.elements() != rows[0] * rows[1] * queries)
        b_.fail("PyTorch refuses context parallelism of this length: \"The size of tensor a (" +
                std::to_string(rows.elements() / (rows[0] * rows[1])) + ") must match the size of tensor b (" +
                std::to_string(queries) + ") at non-singleton dimension 2\"; a multiple of 64 tokens a rank is taken");
  }

  // _is_causal_behavior, and what a rank has after _HeadTailLoadBalancer.
  Turn turn(std::int64_t i) const {
    const std::int64_t rank = b_.run().context_rank;
    if (i == 0) return Turn::own;
    if (balances_context(call_.query.shape[2])) return i <= rank ? Turn::first_keys : Turn::last_queries;
    return i <= rank ? Turn::all : Turn::skipped;
  }

  // Names of the first turn's keys and values are bound anew by the next turn that runs a kernel.
  bool skips_all_others() const { return turns_[1] == Turn::skipped; }

  // Keys and values are made contiguous for the first turn, and are pieces of what was gathered in the others.
  AttentionCall call_of(Turn turn) const {
    AttentionCall call = call_;
    call.causal = turn == Turn::own;
    call.key = dense_tensor(call.key.shape);
    call.value = dense_tensor(call.value.shape);
    if (turn == Turn::first_keys) {
      call.key = half(call.key);
      call.value = half(call.value);
    }
    if (turn == Turn::last_queries) call.query = half(call.query);
    return call;
  }
  bool full_scratch() const { return b_.run().scratch == gpuplan::Scratch::full; }
  std::vector<AttentionStep> forward_of(Turn turn) const {
    return attention_forward(call_of(turn), backend_, b_.gpu(), b_.run().pytorch, full_scratch());
  }

  // --- forward ------------------------------------------------------------------------------------------------------

  TensorId dense(TensorId t) {
    return b_.contiguous(t)
               ? t
               : b_.emit(Operator::clone, Copy{b_.elements(t)}, {t}, {b_.shape(t), dtype_, Placing::contiguous});
  }
  TensorId joined(TensorId key, TensorId value) {
    return b_.emit(Operator::cat, Copy{both_}, {key, value}, {both_}, dtype_);
  }
  TensorId gathered_part(TensorId of, TensorId like, std::int64_t offset) {
    return b_.alias(of, b_.shape(like), contiguous_strides(b_.shape(like)), offset);
  }

  TensorId forward() {
    const TensorId own_key = dense(a_.key), own_value = dense(a_.value);
    const TensorId sent = joined(own_key, own_value);
    const TensorId gathered = b_.emit(Operator::all_gather, Marker{}, {sent}, {checked_mul(ranks_, both_)}, dtype_);
    TensorId key = own_key, value = own_value;
    for (std::int64_t i = 0; i < ranks_; ++i) {
      if (i == 1) b_.hold({sent});  // the gathering is waited for
      if (i > 0) {
        key = gathered_part(gathered, a_.key, 0);
        value = gathered_part(gathered, a_.value, keys_);
      }
      if (i > 0 && i + 1 < ranks_) joined(key, value);  // which an all-gather has no use for
      if (i == 1 && !skips_all_others()) b_.hold({own_key, own_value});
      attend(turns_[static_cast<std::size_t>(i)], key, value);
    }
    const TensorId y = b_.cast(out_, dtype_);
    b_.hold(last_);
    b_.hold({gathered});
    if (skips_all_others()) b_.hold({own_key, own_value});
    for (const auto& [result, kept] : first_)  // those of the first turn's results that are returned
      if (result != Value::out && result != Value::logsumexp) b_.hold({kept});
    b_.hold({sums_});
    if (b_.autocast()) b_.hold({a_.query, a_.key, a_.value});  // the casts are arguments of the call
    first_[Value::query] = a_.query;
    first_[Value::key] = a_.key;
    first_[Value::value] = a_.value;
    first_[Value::out] = y;
    first_[Value::logsumexp] = sums_;
    return y;
  }

  // `out, logsumexp, *rest` are bound anew when the kernel has returned; the rest of the first turn is kept.
  void attend(Turn turn, TensorId key, TensorId value) {
    if (turn == Turn::skipped) return;
    const AttentionStep step = forward_of(turn).front();
    const Products work = products(call_of(turn));
    OpaqueKernel what = opaque_kernel(step.program);
    what.macs = checked_add(work.scores, work.values);
    const std::vector<TensorId> made = b_.emit_many(step.op, what, {a_.query, key, value}, outputs_of(step));
    b_.attributes({{Attribute::is_causal, turn == Turn::own}, {Attribute::dropout_p, a_.dropout}});
    b_.hold(last_);
    last_ = turn == Turn::own ? std::vector<TensorId>{} : made;
    TensorId out = kNone, sums = kNone;
    for (std::size_t i = 0; i < made.size(); ++i) {
      const Value v = step.outputs[i].value;
      if (turn == Turn::own) first_[v] = made[i];
      if (v == Value::out) out = made[i];
      if (v == Value::logsumexp) sums = made[i];
    }
    if (turn == Turn::own) {
      saved_ = step.saved;
      last_ = {out, sums};
    }
    merge(turn, b_.cast(out, DType::fp32), as_rows(sums));
  }

  // The log-sum-exps as [batch, heads, tokens, 1].
  TensorId as_rows(TensorId sums) {
    Shape shape = b_.shape(sums);
    if (shape.rank() == 4 && shape[3] == 1) return sums;
    const Shape rows{call_.query.shape[0], call_.query.shape[1],
                     b_.elements(sums) / (call_.query.shape[0] * call_.query.shape[1]), 1};
    return b_.alias(sums, rows, contiguous_strides(rows));
  }
  TensorId last_half(TensorId t) {
    return b_.alias(t, half(b_.shape(t)), b_.strides(t), b_.strides(t)[2] * (b_.shape(t)[2] / 2));
  }

  // _SDPAMerger._merge_one: out - sigmoid(block_lse - lse) * (out - block_out), lse - logsigmoid(lse - block_lse).
  void merge(Turn turn, TensorId block, TensorId block_sums) {
    if (turn == Turn::own) {
      out_ = block;
      sums_ = block_sums;
      return;
    }
    const bool partial = turn == Turn::last_queries;
    const TensorId out = partial ? last_half(out_) : out_, sums = partial ? last_half(sums_) : sums_;
    const TensorId weight = unary(b_, binary(b_, Binary::sub, block_sums, sums), kSigmoid);
    const TensorId change = mul(b_, weight, binary(b_, Binary::sub, out, block));
    TensorId new_out = binary(b_, Binary::sub, out, change);
    const TensorId apart = binary(b_, Binary::sub, sums, block_sums);
    const TensorId log = no_grad(b_, Operator::log_sigmoid, {apart}, b_.shape(apart), DType::fp32);
    TensorId new_sums = binary(b_, Binary::sub, sums, log);
    if (partial) {  // _partial_update
      const TensorId halves[] = {new_sums, new_out};
      new_sums = put(sums_, new_sums);
      new_out = put(out_, new_out);
      b_.hold(halves);
    } else {
      b_.hold({out_, sums_});
    }
    b_.hold({block, block_sums});
    out_ = new_out;
    sums_ = new_sums;
  }
  TensorId put(TensorId whole, TensorId part) {
    const TensorId y = b_.emit(Operator::cat, Copy{b_.elements(whole)}, {whole, part},
                               {b_.shape(whole), DType::fp32, Placing::contiguous});
    b_.hold({whole});
    return y;
  }

  // --- backward -----------------------------------------------------------------------------------------------------

  struct Gradients {
    Operand query = kAbsent, key = kAbsent, value = kAbsent;
  };

  static bool is_made_here(Operand x) { return x < 0 && x != kAbsent; }  // else it is a tensor of the forward
  Operand zeros(NodeBuilder& node, TensorId like) const {
    const Shape shape = b_.shape(like);
    return node.run(Operator::zeros_like, Fill{shape.elements()}, {like}, {shape, DType::fp32, Placing::like});
  }
  static void add(NodeBuilder& node, Operand sum, Operand more) {
    node.run_in_place(Operator::add_, Elementwise{node.shape(more).elements()}, {sum, more});
  }
  // The half that was added to, and the other one.
  static Operand put_together(NodeBuilder& node, Operand sum) {
    const Shape shape = node.shape(sum);
    return node.run(Operator::cat, Copy{shape.elements()}, {sum}, {shape, DType::fp32, Placing::contiguous});
  }
  // Two tensors, made flat, one after the other.
  Operand joined(NodeBuilder& node, Operand key, Operand value, DType dtype) const {
    const auto flat_of = [&](Operand x) { return is_made_here(x) ? node.contiguous(x) : x; };
    const Operand flat[] = {flat_of(key), flat_of(value)};
    return node.run(Operator::cat, Copy{both_}, flat, {both_}, dtype);
  }

  static void hold_copies(NodeBuilder& node, std::initializer_list<Operand> made) {
    for (const Operand of : made)
      if (is_made_here(of)) node.hold({of});
  }
  Operand dense(NodeBuilder& node, TensorId t) const {
    const OutputSpec copy{b_.shape(t), dtype_, Placing::contiguous};
    return b_.contiguous(t) ? t : node.run(Operator::clone, Copy{b_.elements(t)}, {t}, copy);
  }

  void backward(NodeBuilder& node) {
    Gradients sum{zeros(node, a_.query), zeros(node, a_.key), zeros(node, a_.value)};
    const Operand own_key = dense(node, a_.key), own_value = dense(node, a_.value);
    Operand key = own_key, value = own_value, gathered = kAbsent, sent = kAbsent, sums = kAbsent;
    Operand sent_gradients = kAbsent, received = kAbsent;
    Gradients made;
    for (std::int64_t i = 0; i < ranks_; ++i) {
      const Turn turn = turns_[static_cast<std::size_t>(i)];
      if (i > 0) {
        key = node.piece(gathered, b_.shape(a_.key), 0);
        value = node.piece(gathered, b_.shape(a_.value), keys_);
      }
      if (i + 1 < ranks_) {
        const Operand before = std::exchange(sent, joined(node, key, value, dtype_));
        if (i == 0) gathered = node.run(Operator::all_gather, Marker{}, {sent}, {checked_mul(ranks_, both_)}, dtype_);
        if (i > 0) node.hold({before});
      }
      const Operand rows = sums_of(node, turn, sums);
      if (i == 1 && !skips_all_others()) hold_copies(node, {own_key, own_value});
      made = attend_backward(node, turn, {key, value, rows}, made);
      if (i > 0) {  // dkv_rotater.next_buffer()
        node.hold({sent_gradients});
        const Gradients old = sum;
        sum.key = node.piece(received, b_.shape(a_.key), 0);
        sum.value = node.piece(received, b_.shape(a_.value), keys_);
        node.hold({old.key, old.value});
      }
      add(node, sum.key, made.key);
      if (turn == Turn::first_keys) sum.key = put_together(node, sum.key);
      add(node, sum.value, made.value);
      if (turn == Turn::first_keys) sum.value = put_together(node, sum.value);
      sent_gradients = joined(node, sum.key, sum.value, DType::fp32);
      const Operand before =
          std::exchange(received, node.run(Operator::all_to_all, Copy{both_}, {sent_gradients}, {both_}, DType::fp32));
      if (i > 0) node.hold({before});
      add(node, sum.query, made.query);
      if (turn == Turn::last_queries) sum.query = put_together(node, sum.query);
    }
    const Operand query = node.cast(sum.query, dtype_);
    const Operand both = node.cast(received, dtype_);
    node.hold({sent_gradients});
    node.hold({sum.key, sum.value});
    node.hold({sent, made.query, made.key, made.value, received, gathered});
    if (sums != kAbsent) node.hold({sums});
    if (skips_all_others()) hold_copies(node, {own_key, own_value});
    if (node.needs(a_.query)) node.give(a_.query, query);
    if (node.needs(a_.key)) node.give(a_.key, node.piece(both, b_.shape(a_.key), 0));
    if (node.needs(a_.value)) node.give(a_.value, node.piece(both, b_.shape(a_.value), keys_));
  }

  struct Given {
    Operand key, value, sums;
  };
  Gradients attend_backward(NodeBuilder& node, Turn turn, const Given& of, const Gradients& before) const {
    Gradients made;
    if (turn == Turn::skipped) {
      made = {zeros(node, a_.query), zeros(node, a_.key), zeros(node, a_.value)};
    } else {
      const Operand given = gradient_of(node, turn);
      const AttentionCall call = call_of(turn);
      const StridedTensor layout = dense_tensor(call.query.shape, {0, 2, 1, 3});
      const std::vector<AttentionStep> steps =
          attention_backward(call, backend_, layout, b_.gpu(), b_.run().pytorch, full_scratch());
      const AttentionStep& step = steps.front();
      const Products work = products(call);
      OpaqueKernel what = opaque_kernel(step.program);
      what.macs = checked_mul(2, checked_add(work.scores, work.values));
      what.recompute_macs = work.scores;
      std::vector<Operand> reads{given, a_.query, of.key, of.value, first_.at(Value::out), of.sums};
      for (const Value v : {Value::seed, Value::offset, Value::rng_state})
        if (first_.contains(v)) reads.push_back(first_.at(v));
      const std::vector<Operand> results = node.run_many(step.op, what, reads, outputs_of(step));
      for (std::size_t i = 0; i < results.size(); ++i) {
        const Value v = step.outputs[i].value;
        (v == Value::grad_query ? made.query : v == Value::grad_key ? made.key : made.value) = results[i];
      }
    }
    if (before.query != kAbsent) node.hold({before.query, before.key, before.value});
    return made;
  }

  Operand gradient_of(NodeBuilder& node, Turn turn) const {
    Operand given = node.grad();
    if (turn == Turn::last_queries) given = node.narrow(given, half(node.shape(given)), 2, node.shape(given)[2] / 2);
    return gradient_as_read(node, given, backend_);
  }

  // logsumexp.chunk(2, dim=2)[1].contiguous(), which is bound until the next one is.
  Operand sums_of(NodeBuilder& node, Turn turn, Operand& sums) const {
    const TensorId whole = first_.at(Value::logsumexp);
    if (turn != Turn::last_queries) return whole;
    const Shape part = half(b_.shape(whole));
    if (part[0] * part[1] == 1) return whole;
    const Operand before =
        std::exchange(sums, node.run(Operator::clone, Copy{part.elements()}, {whole}, part, DType::fp32));
    if (before != kAbsent) node.hold({before});
    return sums;
  }

  LayerBuilder& b_;
  const AttentionArguments& a_;
  AttentionCall call_;
  std::int64_t ranks_, keys_, both_;
  DType dtype_;
  AttentionBackend backend_ = AttentionBackend::math;
  std::vector<Turn> turns_;
  TensorId out_ = kNone, sums_ = kNone;  // merged so far, in fp32
  std::vector<TensorId> last_;           // what the names of the last turn's results hold
  std::map<Value, TensorId> first_;      // what the node saves
  std::vector<Value> saved_;
};

}  // namespace

TensorId ring_attention(LayerBuilder& b, const AttentionArguments& arguments) { return Ring(b, arguments).run(); }

}  // namespace gpuplan::aten
