// GroupedMM: rows times the weight of the group they are in, for experts that are all computed by one call.

#include "estimator/aten/grouped_product.h"
#include "estimator/aten/views.h"

namespace gpuplan::layers::grouped_product {
namespace {

void lower(LayerBuilder& b) {
  const TensorId x = b.input(0), weights = b.input(1), ends = b.input(2);
  const Shape rows = b.shape(x), each = b.shape(weights);
  if (rows.rank() != 2 || each.rank() != 3) b.fail("expects rows [n, k] and weights [groups, k, m]");
  if (rows[1] != each[1])
    b.fail("the rows have " + std::to_string(rows[1]) + " numbers, the weights take " + std::to_string(each[1]));
  if (b.shape(ends).rank() != 1 || b.shape(ends)[0] != each[0])
    b.fail("expects the ends of " + std::to_string(each[0]) + " groups, got " + to_string(b.shape(ends)));
  if (b.dtype(x) != b.dtype(weights)) b.fail("expects rows and weights of one type");
  b.output(aten::grouped_product(b, x, aten::transpose(b, weights, 1, 2), ends));
}

const LayerDef kLayers[] = {
    {.name = "GroupedMM",
     .summary = "torch.nn.functional.grouped_mm: each row times its group's weight",
     .math = "x [n, k], weights [g, k, m], ends [g] -> [n, m]: rows ends[i-1] to ends[i] times weights[i]. n k m "
             "multiply-adds,\nbackward twice that. Saved: x, weights, ends.",
     .min_inputs = 3,
     .max_inputs = 3,
     .lower = lower,
     .example = {.call = "GroupedMM()",
                 .input_shapes = {{32, 16}, {4, 16, 64}, {4}},
                 .output_shape = {32, 64},
                 .forward_macs = 32'768,
                 .backward_macs = 65'536,
                 .saved_bytes = 18'448,
                 .derivation = "32*16*64 multiply-adds; x 2048 bytes, weights 16384, ends 4*4"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::grouped_product
