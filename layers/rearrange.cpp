// Roll, Pad: torch.roll and F.pad with a constant.
//
// Both copy and save sizes only; their backward copies again. Roll moves one dimension after the other.

#include <string>

#include "estimator/aten/rearrange.h"
#include "estimator/graph/dimensions.h"

namespace gpuplan::layers::rearrange {
namespace {

void lower_roll(LayerBuilder& b) {
  const std::vector<std::int64_t> shifts = b.integers("shifts");
  const std::vector<std::int64_t> dims = b.integers("dims");
  if (shifts.size() != dims.size())
    b.fail("dims", std::to_string(shifts.size()) + " shifts of " + std::to_string(dims.size()) + " dimensions",
           "expected one shift a dimension");
  const int rank = b.shape(b.input()).rank();
  (void)dimension_mask(b, "dims", rank);  // each within the rank and once
  std::vector<aten::Roll1d> rolls;
  for (std::size_t i = 0; i < dims.size(); ++i)
    rolls.push_back({shifts[i], static_cast<int>(dims[i] < 0 ? dims[i] + rank : dims[i])});
  b.output(aten::roll(b, b.input(), rolls));
}

void lower_pad(LayerBuilder& b) {
  const std::vector<std::int64_t> pad = b.integers("pad");
  const int rank = b.shape(b.input()).rank();
  if (pad.size() % 2 != 0) b.fail("pad", "pad lists both sides of each dimension", "expected an even number of sizes");
  if (pad.size() / 2 > static_cast<std::size_t>(rank))
    b.fail("pad", "pad has more dimensions than the input's " + std::to_string(rank));
  std::vector<aten::Padding1d> sides;
  for (std::size_t i = 0; i < pad.size(); i += 2) sides.push_back({pad[i], pad[i + 1]});
  b.output(aten::constant_pad(b, b.input(), sides, b.real("value")));
}

const LayerDef kLayers[] = {
    {.name = "Roll",
     .summary = "rotates a tensor along dimensions",
     .math = "y[(i + shift) mod n] = x[i]. Saved: nothing. A copy for each dimension, one after the other.",
     .parameters = {{"shifts", ParameterType::integers, "", "how far, one a dimension"},
                    {"dims", ParameterType::integers, "", "the dimensions"}},
     .lower = lower_roll,
     .example = {.call = "Roll([-3, -3], [1, 2])",
                 .input_shapes = {{4, 14, 14, 8}},
                 .derivation = "only sizes are saved"}},
    {.name = "Pad",
     .summary = "adds constant values on the sides of a tensor",
     .math = "y = x with pad[0] and pad[1] values before and after the last dimension, pad[2] and pad[3] those of the "
             "one before, ...\nSaved: nothing. A copy even where nothing is added.",
     .parameters = {{"pad", ParameterType::integers, "", "both sides of the last dimension, then of the one before"},
                    {"value", ParameterType::real, "0.0", "what is added; takes no memory"}},
     .lower = lower_pad,
     .example = {.call = "Pad([0, 0, 1, 2])",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {4, 8, 17, 14},
                 .derivation = "14 + 1 + 2 rows; only sizes are saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::rearrange
