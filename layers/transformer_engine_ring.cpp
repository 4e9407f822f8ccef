// TERingAttention: attention of a rank that has part of each sample's tokens, as Transformer Engine 2.20 computes it
// for Megatron-core's --context-parallel-size (transformer_engine/pytorch/attention/dot_product_attention/
// context_parallel.py, AttnFuncWithCPAndKVP2P), by cuDNN, in bf16.
//
// Keys and values go around a ring, those of one rank a turn. A rank has a piece from the front of a sample and one
// from its back: of ranks before it, all of its queries attend to the first half of the keys, and of those after it the
// second half of its queries to all keys. Every other turn runs on a stream of its own (cp_stream), with whatever it
// allocates.

#include <algorithm>
#include <array>
#include <vector>

#include "estimator/aten/opaque_kernel.h"
#include "estimator/aten/views.h"
#include "estimator/base/integers.h"
#include "estimator/graph/model_builder.h"
#include "estimator/operators/side_stream.h"
#include "estimator/operators/transformer_engine.h"

namespace gpuplan::layers::transformer_engine_ring {
namespace {

namespace rules = gpuplan::transformer_engine;

class Ring {
 public:
  explicit Ring(LayerBuilder& b)
      : b_(b),
        ranks_(b.size("ranks")),
        rank_(b.run().context_rank % ranks_),
        query_(aten::contiguous(b, b.input(0))),
        key_(aten::contiguous(b, b.input(1))),
        value_(aten::contiguous(b, b.input(2))),
        dtype_(b.dtype(query_)) {
    const Shape q = b.shape(query_), k = b.shape(key_);
    if (q.rank() != 4 || k.rank() != 4) b.fail("expects queries, keys and values [tokens, batch, heads, head]");
    if (ranks_ < 2) b.fail("a ring has two ranks or more");
    const std::int64_t widest = rules::widest_head(b.gpu());
    if (q[3] % 8 != 0 || q[3] > widest)
      b.fail("cuDNN's attention is planned with heads of 8, 16, ... " + std::to_string(widest) + ", not of " +
             std::to_string(q[3]));
    if (q[0] % 2 != 0) b.fail("Transformer Engine refuses it: \"Sequence length per GPU needs to be divisible by 2!\"");
    sizes_ = {.batch = q[1], .tokens = q[0], .heads = q[2], .groups = k[2], .size = q[3], .keys = k[0]};
    both_ = checked_mul(2, b.elements(key_));
  }

  void run() {
    const bool outside = b_.leave_grad(true);
    forward();
    b_.leave_grad(outside);
    if (NodeBuilder node = b_.node("AttnFuncWithCPAndKVP2PBackward", out_, {query_, key_, value_})) backward(node);
    b_.output(aten::view(b_, out_, {sizes_.tokens, sizes_.batch, checked_mul(sizes_.heads, sizes_.size)}));
  }

 private:
  enum class Tile : std::uint8_t { diagonal, first_keys, last_queries };
  struct Turn {
    TensorId out = kNone, sums = kNone;
  };

  Tile tile(std::int64_t turn) const {
    if (turn == 0) return Tile::diagonal;
    return turn <= rank_ ? Tile::first_keys : Tile::last_queries;
  }
  rules::AttentionSizes sizes_of(Tile tile) const {
    rules::AttentionSizes s = sizes_;
    if (tile == Tile::first_keys) s.keys /= 2;
    if (tile == Tile::last_queries) s.tokens /= 2;
    return s;
  }
  Shape queries_of(const rules::AttentionSizes& s) const { return {s.tokens, s.batch, s.heads, s.size}; }
  Shape keys_of(const rules::AttentionSizes& s) const { return {s.keys, s.batch, s.groups, s.size}; }
  static Shape sums_of(const rules::AttentionSizes& s) { return {s.batch, s.heads, s.tokens, 1}; }
  static std::int64_t macs_of(const rules::AttentionSizes& s) {
    std::int64_t macs = 1;
    for (const std::int64_t factor : {s.batch * s.heads, s.tokens, s.keys, 2 * s.size})
      macs = checked_mul(macs, factor);
    return macs;
  }

  // flash_attn_streams[turn % 2]
  static ScratchProgram program_of(std::int64_t turn) {
    return turn % 2 == 0 ? ScratchProgram{} : ScratchProgram{kSideStream};
  }

  // --- forward ------------------------------------------------------------------------------------------------------

  TensorId made(Operator op, std::int64_t turn, const TensorId of, const Shape& shape, DType dtype) {
    ScratchProgram program = program_of(turn);
    ScratchWriter(program).result();
    return b_.emit(op, aten::opaque_kernel(program), {of}, {shape, dtype, Placing::contiguous});
  }

  void forward() {
    std::vector<TensorId> sent{b_.emit(Operator::cat, Copy{both_}, {key_, value_}, {both_}, dtype_)};
    std::vector<Turn> turns;
    for (std::int64_t i = 0; i < ranks_; ++i) {
      if (i + 1 < ranks_) sent.push_back(made(Operator::all_to_all, i, sent.back(), {both_}, dtype_));
      // Works of isend() and irecv() hold what they send and receive until two turns later there are others.
      if (i >= 2 && i + 1 < ranks_) b_.hold({sent[index(i - 2)]});
      turns.push_back(attend(i, sent[index(i)]));
      if (i >= 2) b_.hold({turns[index(i - 2)].out, turns[index(i - 2)].sums});
      if (i > 0) merge(i - 1, turns[index(i - 1)]);
    }
    merge(ranks_ - 1, turns.back());
    b_.hold({turns[index(ranks_ - 2)].out, turns.back().out, turns[index(ranks_ - 2)].sums, turns.back().sums});
    b_.hold(sent);
    b_.hold({before_, value_});
    b_.hold(states_);
    last_ = sent.back();
  }

  // cp_p2p_fwd_fused_attn
  Turn attend(std::int64_t i, TensorId keys) {
    const rules::AttentionSizes s = sizes_of(tile(i));
    ScratchProgram program = program_of(i);
    ScratchWriter writer(program);
    writer.result(2);
    const std::int64_t workspace = writer.allocate(rules::attention_workspace(b_.gpu()));
    writer.result();
    writer.release(workspace);
    OpaqueKernel kernel = aten::opaque_kernel(program);
    kernel.macs = macs_of(s);
    const std::array<OutputSpec, 3> outputs{OutputSpec{queries_of(s), dtype_, Placing::contiguous},
                                            OutputSpec{Shape{2}, DType::int64},
                                            OutputSpec{sums_of(s), DType::fp32, Placing::contiguous}};
    const std::vector<TensorId> results = b_.emit_many(Operator::triton, kernel, {query_, keys, b_.input(3)}, outputs);
    states_.push_back(results[1]);
    return {results[0], results[2]};
  }

  // Into the result and the softmax's sums of the turns before. What torch.compile makes of the correction has the new
  // result beside the old one, and of a half that half, too (flash_attn_fwd_incremental_out_correction and
  // flash_attn_fwd_incremental_second_half_out_correction).
  void merge(std::int64_t i, const Turn& turn) {
    if (i == 0) {
      sums_ = made(Operator::clone, i, turn.sums, b_.shape(turn.sums), DType::fp32);
      out_ = made(Operator::clone, i, turn.out, b_.shape(turn.out), dtype_);
      return;
    }
    const TensorId old = made(Operator::clone, i, sums_, b_.shape(sums_), DType::fp32);
    if (before_ != kNone) b_.hold({before_});
    before_ = old;
    const std::int64_t bytes = checked_mul(b_.elements(turn.out), size_of(dtype_));
    ScratchProgram program = program_of(i);
    ScratchWriter writer(program);
    std::vector<std::int64_t> corrected;
    if (tile(i) == Tile::last_queries) corrected.push_back(writer.allocate(bytes));
    corrected.push_back(writer.allocate(checked_mul(b_.elements(out_), size_of(dtype_))));
    for (const std::int64_t allocation : corrected) writer.release(allocation);
    b_.emit_in_place(Operator::triton_, aten::opaque_kernel(program, 4 * b_.elements(turn.out)),
                     {out_, sums_, turn.out, turn.sums, old});
  }

  // --- backward -----------------------------------------------------------------------------------------------------

  static Operand empty(NodeBuilder& node, TensorId like, const Shape& shape, DType dtype) {
    ScratchProgram program;
    ScratchWriter(program).result();
    return node.run(Operator::triton, aten::opaque_kernel(program), {like}, {shape, dtype, Placing::contiguous});
  }

  // A buffer of keys and values with their gradients is received while another one is sent, so that the last turn's is
  // what holds the gradients of the rank's own.
  void backward(NodeBuilder& node) {
    for (const TensorId state : states_) node.save(state);
    const Operand given = node.contiguous(node.grad());
    Operand half = kAbsent;
    if (rank_ + 1 < ranks_ && sizes_.batch * sizes_.heads > 1)
      half = empty(node, sums_, sums_of(sizes_of(Tile::last_queries)), DType::fp32);
    const Operand of_query = empty(node, query_, b_.shape(query_), dtype_);
    std::array<Operand, 2> buffers{};
    for (Operand& buffer : buffers) buffer = empty(node, last_, {checked_mul(2, both_)}, dtype_);
    for (std::int64_t i = 0; i < ranks_; ++i) {
      const Operand keys = buffers[index(i % 2)], received = buffers[index((i + 1) % 2)];
      // The first turn passes keys and values alone, and the last one gradients: together as much as any other.
      if (i > 0) node.run_in_place(Operator::all_to_all, Marker{}, {received});
      const std::vector<Operand> gradients = attend_backward(node, ranks_ - 1 - i, {given, half, keys});
      node.run_in_place(Operator::add_, Elementwise{node.shape(gradients[0]).elements()}, {of_query, gradients[0]});
      for (const std::size_t k : {1U, 2U})
        node.run_in_place(Operator::add_, Elementwise{node.shape(gradients[k]).elements()}, {received, gradients[k]});
    }
    if (half != kAbsent) node.hold({half});
    node.hold(buffers);
    node.hold({given});
    node.give(query_, of_query);
    const Operand of_keys = buffers[index(ranks_ % 2)];
    node.give(key_, node.piece(of_keys, b_.shape(key_), both_));
    node.give(value_, node.piece(of_keys, b_.shape(value_), both_ + both_ / 2));
  }

  struct Given {
    Operand gradient, half_of_sums, keys;
  };
  // cp_p2p_bwd_fused_attn
  std::vector<Operand> attend_backward(NodeBuilder& node, std::int64_t turn, const Given& of) const {
    const rules::AttentionSizes s = sizes_of(tile(turn));
    ScratchProgram program;
    ScratchWriter writer(program);
    writer.result(3);
    writer.use(rules::attention_backward_workspace(s, b_.gpu()));
    OpaqueKernel kernel = aten::opaque_kernel(program);
    kernel.macs = checked_mul(2, macs_of(s));
    kernel.recompute_macs = macs_of(s) / 2;
    std::vector<Operand> reads{of.gradient, query_, last_, of.keys, out_, sums_};
    if (of.half_of_sums != kAbsent && tile(turn) == Tile::last_queries) reads.push_back(of.half_of_sums);
    const std::array<OutputSpec, 3> outputs{OutputSpec{queries_of(s), dtype_, Placing::contiguous},
                                            OutputSpec{keys_of(s), dtype_, Placing::contiguous},
                                            OutputSpec{keys_of(s), dtype_, Placing::contiguous}};
    return node.run_many(Operator::triton, kernel, reads, outputs);
  }

  LayerBuilder& b_;
  std::int64_t ranks_, rank_;
  TensorId query_, key_, value_;
  DType dtype_;
  rules::AttentionSizes sizes_;
  std::int64_t both_ = 0;  // elements of keys and values
  TensorId out_ = kNone, sums_ = kNone, last_ = kNone;
  TensorId before_ = kNone;       // sums before the last correction
  std::vector<TensorId> states_;  // of the generator, a turn
};

void lower_ring(LayerBuilder& b) { Ring(b).run(); }

const LayerDef kLayers[] = {
    {.name = "TERingAttention",
     .summary = "causal attention of a rank's part of the tokens by Transformer Engine's ring",
     .math = "q [s, b, h, d], k and v [s, b, g, d], lengths [b + 1] -> [s, b, h d], of a sample of n s tokens.\n"
             "Each turn's keys and values are received from the rank before. Saved: q, the last turn's k and v, the\n"
             "result, a sum a row and head in fp32, and the generator's state of each turn.",
     .parameters = {{"ranks", ParameterType::size, "", "n: that share a sample's tokens"}},
     .min_inputs = 4,
     .indices = true,
     .lower = lower_ring,
     .example = {.call = "TERingAttention(2)",
                 .input_shapes = {{10, 2, 4, 16}, {10, 2, 2, 16}, {10, 2, 2, 16}, {3}},
                 .output_shape = {10, 2, 64},
                 .forward_macs = 38'400,
                 .backward_macs = 76'800,
                 .saved_bytes = 15'712,
                 .derivation = "of rank 0: 2*(2*4)*(10*10 + 5*10)*16 multiply-adds; q, the result, and k with v are "
                               "10*2*4*16*4 bytes each, sums 2*4*10*4, two states 16 each"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::transformer_engine_ring
