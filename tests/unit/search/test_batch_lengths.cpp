#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "estimator/search/batch_lengths.h"

namespace gpuplan {

using Lengths = std::vector<std::int64_t>;
using Batches = std::vector<StepBatch>;

TEST_CASE("a batch is as long as its longest sample, and the last one has what is left") {
  const Lengths lengths = {5, 9, 7, 7, 3};
  CHECK(batches_of(lengths, 2) == Batches{{2, 9, true}, {2, 7, false}, {1, 3, false}});
  CHECK(batches_of(lengths, 1).size() == 5);
  CHECK(batches_of(lengths, 8) == Batches{{5, 9, true}});
  // 31 tokens in 18 + 14 + 3 places.
  CHECK(padding_share(lengths, batches_of(lengths, 2)) == doctest::Approx(1 - 31.0 / 35));
}

TEST_CASE("group_by_length sorts within groups of batches, the longest sample first") {
  // transformers 5.23's get_length_grouped_indices(lengths, 2), whose random order was replaced by 0, 1, 2, ...
  const Lengths lengths = {80, 33, 95, 46, 89, 95, 84, 68, 4, 60, 32, 84, 7, 21, 15, 48, 61, 32, 49, 70, 14, 74, 32, 2};
  CHECK(grouped_by_length(lengths, 2) ==
        Lengths{95, 95, 89, 80, 46, 33, 84, 84, 68, 60, 32, 4, 61, 48, 32, 21, 15, 7, 74, 70, 49, 32, 14, 2});
  CHECK(grouped_by_length(Lengths{1, 3, 2}, 2) == Lengths{3, 1, 2});  // fewer than a group: batches by themselves
  CHECK(grouped_by_length(Lengths{1}, 4) == Lengths{1});
}

TEST_CASE("other orders and paddings of the same batches") {
  const Batches batches = {{2, 9, true}, {2, 70, false}, {1, 100, false}};
  CHECK(longest_first(batches) == Batches{{2, 70, false}, {2, 9, true}, {1, 100, false}});  // of tokens in all
  CHECK(padded_to_multiples(batches, 64, 100) == Batches{{2, 64, true}, {2, 100, true}, {1, 100, false}});
}

TEST_CASE("lengths that are drawn have the mean that was asked for, and are the same everywhere") {
  const LognormalLengths from{.mean = 600, .sigma = 0.8, .least = 1, .most = 1'000'000};
  const Lengths drawn = draw_lengths(from, 100'000);
  const double mean = static_cast<double>(std::accumulate(drawn.begin(), drawn.end(), std::int64_t{0})) / 100'000;
  CHECK(mean == doctest::Approx(600).epsilon(0.02));  // its standard error is 0.3 %
  Lengths sorted = drawn;
  std::ranges::sort(sorted);
  CHECK(static_cast<double>(sorted[50'000]) == doctest::Approx(600 * std::exp(-0.32)).epsilon(0.02));  // e^(mu)
  CHECK(draw_lengths(from, 3) == Lengths(drawn.begin(), drawn.begin() + 3));
  LognormalLengths cut = from;
  cut.least = 100;
  cut.most = 700;
  const Lengths within = draw_lengths(cut, 1000);
  CHECK(std::ranges::min(within) == 100);
  CHECK(std::ranges::max(within) == 700);
  cut.seed = 1;
  CHECK(draw_lengths(cut, 1000) != within);
}

}  // namespace gpuplan
