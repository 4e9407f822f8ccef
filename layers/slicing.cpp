// Slice, Select, Unbind: parts of a tensor along a dimension.
//
// Views. The gradient of a slice or of one position is a tensor of zeros of the whole size with the incoming one copied
// into it (slice_backward, select_backward); that of an unbind is stacked. A slice of a whole dimension is the tensor
// itself from PyTorch 2.9 on.

#include <algorithm>
#include <string>

#include "estimator/aten/views.h"
#include "estimator/graph/dimensions.h"

namespace gpuplan::layers::slicing {
namespace {

// As Python's slice: negative positions count from the end, positions beyond it are clamped.
std::int64_t position(std::int64_t at, std::int64_t size) {
  return std::clamp(at < 0 ? at + size : at, std::int64_t{0}, size);
}

void lower_slice(LayerBuilder& b) {
  const Shape in = b.shape(b.input());
  const int dim = wrap_dimension(b, "dim", b.integer("dim"), in.rank());
  const std::int64_t begin = position(b.integer("start"), in[dim]);
  const std::int64_t end = b.is_none("end") ? in[dim] : position(b.integer("end"), in[dim]);
  const std::int64_t step = b.integer("step");
  if (step < 1) b.fail("step", "a step of " + std::to_string(step) + " is not supported", "expected step >= 1");
  const bool empty =
      begin == 0 && b.given("end") && b.integer("end") == 0;  // written as such: prefix tokens, none of them
  if (begin >= end && !empty) b.fail("start", "the slice of " + to_string(in) + " is empty", "expected start < end");
  if (begin == 0 && end == in[dim] && step == 1 && !b.before(aten::kElidesFullSlices)) return b.output(b.input());
  b.output(aten::slice(b, b.input(), dim, begin, empty ? 0 : (end - begin - 1) / step + 1, step));
}

void lower_select(LayerBuilder& b) {
  const Shape in = b.shape(b.input());
  const int dim = wrap_dimension(b, "dim", b.integer("dim"), in.rank());
  const std::int64_t at = b.integer("index");
  if (at < -in[dim] || at >= in[dim])
    b.fail("index",
           "index " + std::to_string(at) + " is not in dimension " + std::to_string(dim) + " of " + to_string(in));
  b.output(aten::select(b, b.input(), dim, at < 0 ? at + in[dim] : at));
}

void lower_unbind(LayerBuilder& b) {
  const Shape in = b.shape(b.input());
  b.outputs(aten::unbind(b, b.input(), wrap_dimension(b, "dim", b.integer("dim"), in.rank())));
}

const LayerDef kLayers[] = {
    {.name = "Slice",
     .summary = "x[start:end:step] along a dimension",
     .math =
         "A view. Backward: zeros of x's size, with the gradient copied into them; so they are of Slice(dim, 0, 0), "
         "which\nis nothing.",
     .parameters = {{"dim", ParameterType::integer, "", "dimension that is cut"},
                    {"start", ParameterType::integer, "0", "first position; negative from the end"},
                    {"end", ParameterType::integer, "None", "position after the last; None: all that follow"},
                    {"step", ParameterType::integer, "1", "step between positions"}},
     .lower = lower_slice,
     .example = {.call = "Slice(1, 2, -1)",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {4, 5, 14, 14},
                 .derivation = "positions 2 to 6 of 8; a view"}},
    {.name = "Select",
     .summary = "one position of a dimension, which is dropped",
     .math =
         "x.select(dim, index), x[:, index] for dim 1. A view. Backward: zeros of x's size, the gradient copied in.",
     .parameters = {{"dim", ParameterType::integer, "", "dimension that is dropped"},
                    {"index", ParameterType::integer, "", "position in it; negative from the end"}},
     .lower = lower_select,
     .example =
         {.call = "Select(1, 0)", .input_shapes = {{8, 197, 768}}, .output_shape = {8, 768}, .derivation = "a view"}},
    {.name = "Unbind",
     .summary = "every position of a dimension as a tensor",
     .math = "x [n, ...] -> n views, as name.0, name.1, ... Backward: one stack of all gradients.",
     .parameters = {{"dim", ParameterType::integer, "0", "dimension that is dropped"}},
     .lower = lower_unbind,
     .example = {.call = "Unbind(1)",
                 .input_shapes = {{4, 3, 14, 14}},
                 .output_shape = {4, 14, 14},
                 .derivation = "three views"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::slicing
