// SetPart: x[:, 1:] = y, x[:, 1:] += y, x[4:8] = 0: a part of a tensor that is written in place.
//
// Where x wants a gradient, autograd puts a node between the old x and the new one
// (torch/csrc/autograd/functions/tensor.cpp, CopySlices): its backward copies the whole gradient, copies the part of
// it, and puts into the part what the change hands on: zeros after a copy or a fill, the same after a sum.

#include <string>

#include "estimator/aten/indexing.h"
#include "estimator/graph/dimensions.h"

namespace gpuplan::layers::set_part {
namespace {

aten::Part part_of(const LayerBuilder& b) {
  const Shape in = b.shape(b.input());
  aten::Part part{.start = in, .size = in};
  for (int d = 0; d < in.rank(); ++d) part.start.set(d, 0);
  const std::vector<std::int64_t> box = b.integers("part");
  if (box.empty() || box.size() % 3 != 0)
    b.fail("part", "part lists dimension, start and end of each dimension that is cut", "expected three numbers each");
  for (std::size_t i = 0; i < box.size(); i += 3) {
    const int dim = wrap_dimension(b, "part", box[i], in.rank());
    const std::int64_t start = box[i + 1], end = box[i + 2];
    if (start < 0 || start >= end || end > in[dim])
      b.fail("part", "[" + std::to_string(start) + ", " + std::to_string(end) + ") is not within dimension " +
                         std::to_string(dim) + " of " + to_string(in));
    part.start.set(dim, start);
    part.size.set(dim, end - start);
  }
  return part;
}

aten::PartChange change_of(const LayerBuilder& b) {
  const std::string_view word = b.word("change");
  if (word == "copy") return b.input_count() == 2 ? aten::PartChange::copy : aten::PartChange::fill;
  if (word == "add") return aten::PartChange::add;
  if (word == "sub") return aten::PartChange::sub;
  b.fail("change", "change '" + std::string(word) + "' is not supported", "expected 'copy', 'add' or 'sub'");
}

void lower(LayerBuilder& b) {
  const aten::Part part = part_of(b);
  const aten::PartChange change = change_of(b);
  if (b.input_count() == 1) {
    if (!b.given("value")) b.fail("value", "needs a second input or a number (value=...)");
    return b.output(aten::change_part(b, change, b.input(), part, kNone, b.real("value")));
  }
  if (b.given("value")) b.fail("value", "has two inputs and a number", "leave it out, or give one input");
  Shape size = part.size;
  const Shape given = b.shape(b.input(1));
  // torch drops leading dimensions of 1, and broadcasts what is set; of that only the whole part is taken here.
  if (given.elements() != size.elements())
    b.fail("sets a part " + to_string(size) + " to " + to_string(given) + ", of another size");
  b.output(aten::change_part(b, change, b.input(), part, b.input(1), 0));
}

const LayerDef kLayers[] = {
    {.name = "SetPart",
     .summary = "writes into a part of a tensor",
     .math =
         "x[part] = y, x[part] += y or x[part] -= y; x[part] = value of one input. In place: the result is x.\n"
         "Saved: nothing. Backward: a copy of the gradient, one of its part, and zeros for a part that was replaced.",
     .parameters = {{"part", ParameterType::integers, "", "dimension, start and end of each dimension that is cut"},
                    {"value", ParameterType::real, "None", "a number instead of a second input"},
                    {"change", ParameterType::word, "copy", "copy, add or sub"}},
     .min_inputs = 1,
     .max_inputs = 2,
     .indices = true,
     .lower = lower,
     .example = {.call = "SetPart([2, 1, 14])",
                 .input_shapes = {{4, 8, 14, 10}, {4, 8, 13, 10}},
                 .derivation = "positions 1 to 13 of dimension 2; nothing is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::set_part
