// EmbeddingBag: sums, means or maxima of rows of a table, a bag of indices each.
//
// aten/src/ATen/native/cuda/EmbeddingBag.cu: bags of one length are flattened and get offsets that are made for them
// (torch/nn/functional.py, embedding_bag). The kernel's results are the rows, which bag every index is of, the bags'
// sizes and for maxima where each one was; derivatives.yaml saves all but the rows, and the indices and offsets. The
// gradient of sums and means is that of an embedding, whose indices are always sorted; that of maxima is scattered into
// zeros.

#include <string>

#include "estimator/aten/views.h"

namespace gpuplan::layers::embedding_bag {
namespace {

void refuse(LayerBuilder& b, const char* argument) {
  if (b.boolean(argument)) b.fail(argument, std::string(argument) + " is not supported", "expected False");
}

// PyTorch would promote indices and offsets of two types with a copy, which is not planned.
void expect_offsets(LayerBuilder& b) {
  const TensorId offsets = b.input(1);
  if (b.shape(offsets).rank() != 1) b.fail("expects offsets [N], input 1 is " + to_string(b.shape(offsets)));
  if (b.dtype(offsets) != b.dtype(b.input()))
    b.fail("expects indices and offsets of one type, they are " + std::string(name_of(b.dtype(b.input()))) + " and " +
           std::string(name_of(b.dtype(offsets))));
}

void lower(LayerBuilder& b) {
  const std::int64_t vocabulary = b.size("num_embeddings"), features = b.size("embedding_dim");
  const std::string_view mode = b.word("mode");
  if (mode != "sum" && mode != "mean" && mode != "max")
    b.fail("mode", "unknown mode \"" + std::string(mode) + "\"", "expected sum, mean or max");
  if (b.given("max_norm")) b.fail("max_norm", "max_norm is not supported", "expected None");
  refuse(b, "scale_grad_by_freq");
  refuse(b, "sparse");
  refuse(b, "include_last_offset");
  const TensorId x = b.input();
  const int rank = b.shape(x).rank();
  if (is_floating(b.dtype(x))) b.fail("expects integer indices, its input is " + std::string(name_of(b.dtype(x))));
  if (rank != (b.input_count() == 2 ? 1 : 2)) b.fail("expects indices [N, L], or [indices] and offsets [N]");
  if (b.input_count() == 2) expect_offsets(b);
  const TensorId table = b.parameter("weight", {vocabulary, features});
  const DType dtype = b.dtype(table), index = b.dtype(x);
  TensorId offsets = kNone, flat = x;
  if (rank == 2) {
    const Shape shape = b.shape(x);
    offsets = b.emit(Operator::arange, Fill{shape[0]}, {}, {shape[0]}, index);
    b.attributes({{Attribute::start, 0}, {Attribute::step, shape[1]}});
    flat = aten::reshape(b, x, {shape.elements()});
  } else {
    offsets = b.input(1);
  }
  const std::int64_t indices = b.elements(flat), bags = b.elements(offsets);
  const bool maxima = mode == "max";
  Lookup lookup{.indices = indices,
                .vocabulary = vocabulary,
                .features = features,
                .backward = false,
                .bag = true,
                .dtype = dtype};
  std::vector<OutputSpec> results{{{bags}, index}, {{indices}, index}, {{bags, features}, dtype}};
  if (maxima) results.push_back({{bags, features}, index});
  const std::vector<TensorId> made = b.emit_many(Operator::_embedding_bag, lookup, {table, flat, offsets}, results);
  if (NodeBuilder node = b.node("EmbeddingBagBackward0", made[2], {table})) {
    node.save(offsets);
    for (const TensorId t : {made[0], made[1]}) node.save(t);
    if (maxima) {
      node.give(table, node.run(Operator::_embedding_bag_backward, Elementwise{bags * features},
                                {node.contiguous(node.grad()), flat, made[3]}, {vocabulary, features}, dtype));
    } else {
      lookup.backward = true;
      node.give(table, node.run(Operator::_embedding_bag_backward, lookup, {node.contiguous(node.grad()), flat},
                                {vocabulary, features}, dtype));
    }
  }
  b.hold({offsets});
  b.output(made[2]);
}

const LayerDef kLayers[] = {
    {.name = "EmbeddingBag",
     .summary = "sums, means or maxima of rows of a table, a bag of indices each",
     .math =
         "x [N, L] of integers, or [indices] with offsets [N]; W [V, D] -> y [N, D]. Backward: a dense [V, D] "
         "gradient.\nSaved: the indices, the offsets, the bag of every index and the bags' sizes; mode=max also [N, "
         "D] positions.",
     .parameters = {{"num_embeddings", ParameterType::size, "", "rows of the table"},
                    {"embedding_dim", ParameterType::size, "", "size of a row"},
                    {"max_norm", ParameterType::real, "None", "not supported: None"},
                    {"norm_type", ParameterType::real, "2.0", "only used with max_norm"},
                    {"scale_grad_by_freq", ParameterType::boolean, "False", "not supported: False"},
                    {"mode", ParameterType::word, "mean", "sum, mean or max"},
                    {"sparse", ParameterType::boolean, "False", "not supported: False"},
                    {"include_last_offset", ParameterType::boolean, "False", "not supported: False"},
                    {"padding_idx", ParameterType::integer, "None", "row that counts nothing; takes no less memory"}},
     .max_inputs = 2,
     .indices = true,
     .lower = lower,
     .example = {.call = "EmbeddingBag(1000, 64)",
                 .input_shapes = {{32, 20}},
                 .input_dtype = DType::int64,
                 .output_shape = {32, 64},
                 .parameters = 64'000,
                 .saved_bytes = 10'752,
                 .derivation = "640 indices of 8 bytes and as many bags, 32 offsets and 32 sizes"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::embedding_bag
