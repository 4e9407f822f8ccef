#include "estimator/compare/growth_limit.h"

namespace gpuplan {

namespace {

// a / b > c / d of numbers that are not negative, without their products: by continued fractions.
bool is_more(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  for (;;) {
    const std::int64_t left = a / b, right = c / d;
    if (left != right) return left > right;
    const std::int64_t left_rest = a % b, right_rest = c % d;
    if (left_rest == 0 || right_rest == 0) return left_rest > 0;
    // left_rest / b > right_rest / d where d / right_rest > b / left_rest
    a = d;
    d = left_rest;
    c = b;
    b = right_rest;
  }
}

}  // namespace

bool exceeds(const Change& change, const GrowthLimit& limit) {
  const std::int64_t growth = change.delta();
  if (growth <= 0) return false;
  if (limit.amount) return growth > *limit.amount;
  if (change.base == 0) return true;
  constexpr std::int64_t kMillion = 1'000'000;
  return is_more(growth, change.base, limit.parts_per_million.value_or(0), kMillion);
}

}  // namespace gpuplan
