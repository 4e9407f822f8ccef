// Strides against PyTorch's own, recorded by tests/recorders/strides.py.
#include "estimator/base/strides.h"

#include <doctest/doctest.h>

#include <array>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace gpuplan {
namespace {

std::vector<std::vector<std::string>> rows(const std::string& kind) {
  std::ifstream in(GPUPLAN_SOURCE_DIR "/tests/shadow/strides.torch2.15.tsv");
  std::vector<std::vector<std::string>> out;
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> cells;
    std::istringstream text(line);
    for (std::string cell; std::getline(text, cell, '\t');) cells.push_back(cell);
    if (cells.front() == kind) out.push_back(cells);
  }
  return out;
}

Shape shape_of(const std::string& text) {
  Shape out;
  std::istringstream in(text);
  for (std::string n; std::getline(in, n, ',');) out.push_back(std::stoll(n));
  return out;
}

Strides strides_of(const std::string& text) {
  Strides out;
  const Shape numbers = shape_of(text);
  for (int i = 0; i < numbers.rank(); ++i) out.set(i, numbers[i]);
  return out;
}

// Along dimensions of size 1 any stride is as good as another.
bool same(const Shape& shape, const Strides& a, const Strides& b) {
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] != 1 && a[i] != b[i]) return false;
  return true;
}

}  // namespace

TEST_CASE("memory formats are told as PyTorch tells them") {
  const auto table = rows("format");
  CHECK(table.size() > 80);
  for (const auto& r : table) {
    CAPTURE(r[1]);
    CAPTURE(r[2]);
    const Shape shape = shape_of(r[1]);
    const Strides strides = strides_of(r[2]);
    CHECK(is_contiguous(shape, strides) == (r[3] == "1"));
    CHECK(is_channels_last(shape, strides) == (r[4] == "1"));
    CHECK((suggested_format(shape, strides) == MemoryFormat::channels_last) == (r[5] == "1"));
    CHECK(is_dense(shape, strides) == (r[6] == "1"));
  }
}

TEST_CASE("views exist where PyTorch finds them, with its strides") {
  const auto table = rows("view");
  CHECK(table.size() > 300);
  for (const auto& r : table) {
    CAPTURE(r[1]);
    CAPTURE(r[2]);
    CAPTURE(r[3]);
    const Shape to = shape_of(r[3]);
    const auto got = view_strides(shape_of(r[1]), strides_of(r[2]), to);
    REQUIRE(got.has_value() == (r[4] != "none"));
    if (got) CHECK(same(to, *got, strides_of(r[4])));
  }
}

TEST_CASE("results of empty_like and of pointwise operations lie as PyTorch's") {
  for (const auto& r : rows("like")) {
    CAPTURE(r[1]);
    CAPTURE(r[2]);
    CHECK(same(shape_of(r[1]), strides_like(shape_of(r[1]), strides_of(r[2])), strides_of(r[3])));
  }
  const auto table = rows("pointwise");
  CHECK(table.size() > 300);
  for (const auto& r : table) {
    CAPTURE(r[1]);
    CAPTURE(r[2]);
    CAPTURE(r[3]);
    CAPTURE(r[4]);
    const std::array<StridedShape, 2> operands{StridedShape{shape_of(r[1]), strides_of(r[2])},
                                               StridedShape{shape_of(r[3]), strides_of(r[4])}};
    CHECK(same(shape_of(r[1]), pointwise_strides(shape_of(r[1]), operands), strides_of(r[5])));
  }
}

// aten/src/ATen/native/cuda/Blas.cpp, prepare_matrix_for_cublas: a step of one along one dimension, and along the other
// one at least the size of the first.
TEST_CASE("cuBLAS takes rows or columns without gaps between their elements") {
  const auto fits = [](const Shape& shape, std::initializer_list<std::int64_t> steps) {
    Strides strides;
    int i = 0;
    for (const std::int64_t step : steps) strides.set(i++, step);
    return fits_cublas({shape, strides});
  };
  CHECK(fits({6, 4}, {4, 1}));
  CHECK(fits({6, 4}, {1, 6}));
  CHECK(fits({6, 4}, {9, 1}));
  CHECK_FALSE(fits({6, 4}, {0, 1}));  // one row, expanded
  CHECK_FALSE(fits({6, 4}, {0, 0}));
  CHECK_FALSE(fits({6, 4}, {8, 2}));
  CHECK(fits({1, 4}, {4, 1}));
  CHECK(fits({3, 6, 4}, {0, 4, 1}));  // one matrix for the whole batch
  CHECK_FALSE(fits({3, 6, 4}, {24, 0, 1}));
}

}  // namespace gpuplan
