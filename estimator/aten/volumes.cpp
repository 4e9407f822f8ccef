#include "estimator/aten/volumes.h"

#include <string>

namespace gpuplan::aten {

Triple triple(const LayerBuilder& b, std::string_view name, std::int64_t least) {
  const std::vector<std::int64_t> given = b.integers(name);
  if (given.size() != 1 && given.size() != 3)
    b.fail(name, "\"" + std::string(name) + "\" has " + std::to_string(given.size()) + " numbers",
           "expected one number or three");
  for (const std::int64_t n : given)
    if (n < least)
      b.fail(name, "\"" + std::string(name) + "\" must be at least " + std::to_string(least),
             "expected >= " + std::to_string(least));
  return given.size() == 1 ? Triple{given[0], given[0], given[0]} : Triple{given[0], given[1], given[2]};
}

Shape volume_of(const LayerBuilder& b) {
  b.expect_rank(5, "[N, C, D, H, W]");
  if (!b.contiguous(b.input())) b.fail("expects a contiguous input");
  return b.shape(b.input());
}

}  // namespace gpuplan::aten
