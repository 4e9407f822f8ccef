// Losses, activations, elements by their indices and the routing of experts on the host device: against values derived
// by hand and central differences.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/host_device/finite_differences.h"

namespace gpuplan::host {
namespace {

using Row = std::vector<double>;

Block numbers(std::vector<std::int64_t> sizes, const Row& values) {
  return Block(std::move(sizes), DType::fp64, values);
}
Block integers(std::vector<std::int64_t> sizes, const Row& values) {
  return Block(std::move(sizes), DType::int64, values);
}

TEST_CASE("losses of each element") {
  struct Case {
    const char* name;
    double bend, value;
  };
  // Errors of 0.5 and 3, of which the latter is beyond the bend: 0.25 + 9; with beta 2, 0.5^2 / 4 + 3 - 1; with delta 2
  // twice that. log(1 + e^x) - t x at x = 1, t = 0.5 and x = 2, t = -1.
  const double entropy = std::log1p(std::exp(1)) - 0.5 + std::log1p(std::exp(2)) + 2;
  for (const Case& c : {Case{"mse_loss", 0, 9.25},
                        {"smooth_l1_loss", 2, 2.0625},
                        {"huber_loss", 2, 4.125},
                        {"binary_cross_entropy_with_logits", 0, entropy}}) {
    CAPTURE(c.name);
    for (const bool mean : {false, true}) {
      Block x = numbers({2}, {1, 2}), target = numbers({2}, {0.5, -1}), y({}), dx({2});
      const Block w = numbers({}, {0.7});
      const std::vector<double> how{mean ? 1.0 : 0.0, c.bend};
      const auto forward = [&] { run(c.name, {{x, target}, {y}, how}); };
      forward();
      CHECK(y.get(0) == doctest::Approx(mean ? c.value / 2 : c.value));
      run(std::string(c.name) + "_backward", {{w, x, target}, {dx}, how});
      CHECK(gradient_error(forward, y, w, x, dx) <= kGradientError);
    }
  }
}

TEST_CASE("ELU's gradient reads its input, or in place its result") {
  for (const bool of_result : {false, true}) {
    Block x = random_block({3, 5}, 1), w = random_block({3, 5}, 2), y({3, 5}), dx({3, 5});
    const std::vector<double> how{0.7, of_result ? 1.0 : 0.0};
    const auto forward = [&] { run("elu", {{x}, {y}, how}); };
    forward();
    run("elu_backward", {{w, of_result ? y : x}, {dx}, how});
    CHECK(gradient_error(forward, y, w, x, dx) <= kGradientError);
  }
}

TEST_CASE("signs, logarithms and whole quotients") {
  Block x = numbers({3}, {-2, 0, 4}), y({3});
  run("abs", {{x}, {y}});
  CHECK(y.values() == Row{2, 0, 4});
  run("sgn", {{x}, {y}});
  CHECK(y.values() == Row{-1, 0, 1});
  run("min", {{x, numbers({3}, {1, -1, 9})}, {y}});
  CHECK(y.values() == Row{-2, -1, 4});
  run("rsub", {{x}, {y}, {1}});
  CHECK(y.values() == Row{3, 1, -3});
  run("floor_divide", {{integers({3}, {7, -7, 4})}, {y}, {2}});
  CHECK(y.values() == Row{3, -4, 2});
  Block one({1});
  run("log", {{numbers({1}, {std::exp(2)})}, {one}});
  CHECK(one.get(0) == doctest::Approx(2));
}

TEST_CASE("noise has as many ones as its probability says") {
  Block y({10000});
  run("bernoulli_", {{}, {y}, {0.8}, Marker{}, {}, 3});
  double ones = 0;
  for (const double v : y.values()) ones += v;
  CHECK(std::abs(ones / 10000 - 0.8) < 0.02);  // five standard deviations, sqrt(0.8 * 0.2 / 10000) each
}

TEST_CASE("parts are filled, rolled, repeated and reversed") {
  Block x = numbers({2, 3}, {1, 2, 3, 4, 5, 6}), y({2, 3}), long_row({6});
  run("roll", {{x}, {y}, {1, 1}});
  CHECK(y.values() == Row{3, 1, 2, 6, 4, 5});
  run("roll", {{x}, {y}, {-1, 0}});
  CHECK(y.values() == Row{4, 5, 6, 1, 2, 3});
  run("flip", {{x}, {y}, {0b10}});
  CHECK(y.values() == Row{3, 2, 1, 6, 5, 4});
  run("repeat", {{selected(x, 0, 1)}, {long_row}});
  CHECK(long_row.values() == Row{4, 5, 6, 4, 5, 6});
  run("fill_", {{x}, {}, {9, 1, 1, 2}});
  CHECK(x.values() == Row{1, 9, 9, 4, 9, 9});
  run("fill_", {{x}, {}, {0, 0, 1, 1, 1, 0, 1}});
  CHECK(x.values() == Row{1, 9, 9, 0, 9, 9});
}

TEST_CASE("what is looked up by an index is added where it came from") {
  Block table = random_block({3, 4}, 1), w = random_block({3, 2}, 2), y({3, 2});
  const Block columns = integers({2}, {3, 1}), each = integers({3, 2}, {0, 0, 3, 1, 2, 3});
  for (const bool gathers : {false, true}) {
    const Block& index = gathers ? each : columns;
    const auto forward = [&] { run(gathers ? "gather" : "index_select", {{table, index}, {y}, {1}}); };
    forward();
    Block dtable({3, 4});
    run(gathers ? "scatter_add_" : "index_add_", {{dtable, w, index}, {}, {1}});
    CHECK(gradient_error(forward, y, w, table, dtable) <= kGradientError);
  }
  Block rows({3, 4});
  const Block w_rows = random_block({3, 4}, 3), twice = integers({3}, {2, 0, 2});
  const auto forward = [&] { run("index", {{table, twice}, {rows}}); };
  forward();
  Block dtable({3, 4});
  run("_index_put_impl_", {{dtable, w_rows, twice}, {}});
  CHECK(gradient_error(forward, rows, w_rows, table, dtable) <= kGradientError);
}

TEST_CASE("columns found by numbers of the host") {
  Block ends({2}, DType::int64), y({2, 2});
  run("from_host", {{}, {ends}, {2, 0}});
  run("index", {{numbers({2, 3}, {1, 2, 3, 4, 5, 6}), ends}, {y}, {1}});
  CHECK(y.values() == Row{3, 1, 6, 4});
}

TEST_CASE("what is put by an index") {
  Block to = integers({3}, {0, 0, 0});
  run("index_put_", {{to, integers({3}, {2, 0, 1}), integers({3}, {0, 1, 2})}, {}});
  CHECK(to.values() == Row{1, 2, 0});
  Block rows({2, 3});
  run("scatter_", {{rows, numbers({2, 1}, {5, 6}), integers({2, 1}, {2, 0})}, {}, {1}});
  CHECK(rows.values() == Row{0, 0, 5, 6, 0, 0});
}

TEST_CASE("the best, sorted and counted") {
  Block values({2, 2}), places({2, 2}, DType::int64);
  run("topk", {{numbers({2, 3}, {1, 3, 3, 7, 8, 9})}, {values, places}, {1}});
  CHECK(values.values() == Row{3, 3, 9, 8});
  CHECK(places.values() == Row{1, 2, 2, 1});
  Block sorted({4}, DType::int64), order({4}, DType::int64), counts({3}, DType::int32);
  run("sort", {{integers({4}, {2, 0, 2, 1})}, {sorted, order}, {0}});
  CHECK(sorted.values() == Row{0, 1, 2, 2});
  CHECK(order.values() == Row{1, 3, 0, 2});
  run("histc", {{sorted}, {counts}, {0, 2}});
  CHECK(counts.values() == Row{1, 1, 2});
}

TEST_CASE("a product for each expert") {
  Block x = random_block({5, 3}, 1), weight = random_block({3, 2, 3}, 2), y({5, 2}), w = random_block({5, 2}, 3);
  const Block ends({3}, DType::int32, {2, 2, 5});  // the second has no rows
  Block dx = x, dweight = weight;
  const auto forward = [&] { run("_grouped_mm", {{x, weight, ends}, {y}, {0}}); };
  forward();
  run("_grouped_mm", {{w, weight, ends}, {dx}, {1}});
  run("_grouped_mm", {{w, x, ends}, {dweight}, {2}});
  CHECK(gradient_error(forward, y, w, x, dx) <= kGradientError);
  CHECK(gradient_error(forward, y, w, weight, dweight) <= kGradientError);
}

}  // namespace
}  // namespace gpuplan::host
