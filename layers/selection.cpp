// ArgMax, ArgMin: where the largest or smallest element of a dimension is. TopK: the largest ones and where they are.
// Sort: all of them.
//
// argmax gives int64 and has no gradient. topk saves its int64 indices; its gradient is scattered into zeros
// (torch/csrc/autograd/FunctionsManual.cpp, value_selecting_reduction_backward). Their kernels take scratch for rows
// that are long and few, of argmax from about 100,000 elements (aten/src/ATen/native/cuda/Reduce.cuh), of topk from
// 400 to 20,000, the fewer they are the longer (aten/src/ATen/native/cuda/TensorTopK.cu, should_use_multiblock): a
// few hundred KiB at most, which is left out.

#include <string>

#include "estimator/aten/pointwise.h"
#include "estimator/aten/scan.h"
#include "estimator/graph/dimensions.h"

namespace gpuplan::layers::selection {
namespace {

void lower_place(LayerBuilder& b, Operator op) {
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  const bool all = b.is_none("dim");
  const int dim = all ? 0 : wrap_dimension(b, "dim", b.integer("dim"), in.rank());
  const Shape out = all ? Shape{} : reduced_shape(in, 1U << dim, b.boolean("keepdim"));
  b.output(b.emit(op, Elementwise{in.elements()}, {x}, out, DType::int64));
  b.attributes({{Attribute::dim, dim}});
}

void lower_argmax(LayerBuilder& b) { lower_place(b, Operator::argmax); }
void lower_argmin(LayerBuilder& b) { lower_place(b, Operator::argmin); }

void lower_top_k(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  const DType dtype = b.dtype(x);
  const int dim = wrap_dimension(b, "dim", b.integer("dim"), in.rank());
  const std::int64_t k = b.size("k");
  if (k > in[dim])
    b.fail("k", std::to_string(k) + " of " + std::to_string(in[dim]) + " elements",
           "expected at most the size of dimension " + std::to_string(dim));
  Shape out = in;
  out.set(dim, k);
  const OutputSpec results[] = {{out, dtype}, {out, DType::int64}};
  const std::vector<TensorId> made = b.emit_many(Operator::topk, Elementwise{in.elements()}, {x}, results);
  b.attributes({{Attribute::k, k}, {Attribute::dim, dim}});
  aten::scatter_gradient(b, "TopkBackward0", x, made[0], made[1], dim);
  b.outputs(made);
}

void lower_sort(LayerBuilder& b) {
  const TensorId x = b.input();
  if (b.shape(x).rank() == 0) b.fail("expects a tensor of at least one dimension");
  b.outputs(aten::sort(b, x, wrap_dimension(b, "dim", b.integer("dim"), b.shape(x).rank())));
}

const ParameterDef kDim{"dim", ParameterType::integer, "None", "the dimension; None: all elements"};
const ParameterDef kKeep{"keepdim", ParameterType::boolean, "False", "keeps the dimension with size 1"};

LayerDef place(std::string_view name, std::string_view summary, void (*lower)(LayerBuilder&), std::string_view call) {
  return {.name = name,
          .summary = summary,
          .math = "One int64 index for each row. No gradient.",
          .parameters = {kDim, kKeep},
          .indices = true,
          .lower = lower,
          .example = {.call = call,
                      .input_shapes = {{4, 8, 14, 14}},
                      .input_dtype = DType::int64,
                      .output_shape = {4, 14, 14},
                      .derivation = "nothing is saved"}};
}

const LayerDef kLayers[] = {
    place("ArgMax", "where the largest element of a dimension is", lower_argmax, "ArgMax(1)"),
    place("ArgMin", "where the smallest element of a dimension is", lower_argmin, "ArgMin(1)"),
    {.name = "TopK",
     .summary = "the k largest elements of a dimension, and their indices",
     .math = "x.topk(k, dim): the values and their int64 indices, as name.0 and name.1. Saved: the indices.",
     .parameters = {{"k", ParameterType::size, "", "how many"}, {"dim", ParameterType::integer, "-1", "the dimension"}},
     .lower = lower_top_k,
     .example = {.call = "TopK(3, dim=1)",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {4, 3, 14, 14},
                 .saved_bytes = 18'816,
                 .derivation = "the indices, 4*3*14*14*8 bytes"}},
    {.name = "Sort",
     .summary = "the elements of a dimension in order, and their indices",
     .math = "x.sort(dim): the values and their int64 indices, as name.0 and name.1; argsort is name.1. Saved: the "
             "indices.",
     .parameters = {{"dim", ParameterType::integer, "-1", "the dimension, of at most 4096"}},
     .lower = lower_sort,
     .example = {.call = "Sort(1)",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {4, 8, 14, 14},
                 .saved_bytes = 50'176,
                 .derivation = "the indices, 4*8*14*14*8 bytes"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::selection
