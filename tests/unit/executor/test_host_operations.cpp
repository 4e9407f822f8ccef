// The host device's operations against values derived by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "estimator/base/error.h"
#include "tests/host_device/blocks.h"
#include "tests/host_device/optimizer.h"
#include "tests/support/operator_arguments.h"
#include "validate/executor/hyperparameters.h"
#include "validate/executor/random.h"

namespace gpuplan::host {
namespace {

using Row = std::vector<double>;

Block numbers(std::vector<std::int64_t> sizes, Row values) { return Block(std::move(sizes), DType::fp64, values); }
Block integers(std::vector<std::int64_t> sizes, Row values) { return Block(std::move(sizes), DType::int64, values); }

TEST_CASE("elements are rounded to the nearest and to even") {
  // bf16 has 8 bits of significand: between 1 and 1 + 2^-7 lies 1 + 2^-8, a tie, which goes to the even 1.
  Block b({4}, DType::bf16, {1 + 0x1p-8, 1 + 0x3p-8, 1 + 0x1.01p-8, -3.0});
  CHECK(b.values() == Row{1, 1 + 0x1p-6, 1 + 0x1p-7, -3});
  Block h({4}, DType::fp16, {1 + 0x1p-11, 65520, 0x1p-24, 0x1p-26});
  CHECK(h.values() == Row{1, std::numeric_limits<double>::infinity(), 0x1p-24, 0});
  CHECK(Block({1}, DType::fp32, {0.1}).values() == Row{static_cast<double>(0.1F)});
}

TEST_CASE("any strides are read and written") {
  Block x = numbers({2, 3}, {1, 2, 3, 4, 5, 6});
  Block y({3, 2});
  run("clone", {{transposed(x, 0, 1)}, {y}});
  CHECK(y.values() == Row{1, 4, 2, 5, 3, 6});
  Block z({2, 3});
  run("add", {{x, selected(x, 0, 1)}, {z}});
  CHECK(z.values() == Row{5, 7, 9, 8, 10, 12});
  run("add_", {{z}, {}, {0.5}});
  CHECK(z.values() == Row{5.5, 7.5, 9.5, 8.5, 10.5, 12.5});
}

TEST_CASE("comparisons, masks and choices") {
  Block a = integers({4}, {0, 1, 2, 3}), b = integers({1}, {2});
  Block yes({4}, DType::boolean), other({4}, DType::boolean);
  run("le", {{a, b}, {yes}});
  CHECK(yes.values() == Row{1, 1, 1, 0});
  run("ne", {{a}, {other}, {1}});
  CHECK(other.values() == Row{1, 0, 1, 1});
  run("__and__", {{Block(yes), other}, {yes}});
  Block x = numbers({4}, {1, 2, 3, 4}), y({4});
  run("masked_fill", {{x, other}, {y}, {-9}});
  CHECK(y.values() == Row{-9, 2, -9, -9});
  run("where", {{other, x, y}, {y}});
  CHECK(y.values() == Row{1, 2, 3, 4});
  Block number({});
  run("where", {{other, numbers({}, {0})}, {number, y}, {-7, 2}});
  CHECK(number.values() == Row{-7});
  CHECK(y.values() == Row{0, -7, 0, 0});
  run("where", {{other}, {y}, {0, -1}});
  CHECK(y.values() == Row{0, -1, 0, 0});
}

TEST_CASE("what fills, joins and pads") {
  Block a = numbers({2, 1}, {1, 2}), b = numbers({2, 2}, {3, 4, 5, 6}), joined({2, 3});
  run("cat", {{a, b}, {joined}, {1}});
  CHECK(joined.values() == Row{1, 3, 4, 2, 5, 6});
  Block stacked({2, 2, 2});
  run("stack", {{b, b}, {stacked}, {1}});
  CHECK(stacked.values() == Row{3, 4, 3, 4, 5, 6, 5, 6});
  Block padded({2, 3});
  run("constant_pad_nd", {{b}, {padded}, {0, 0, 0, 1, -100}});
  CHECK(padded.values() == Row{3, 4, -100, 5, 6, -100});
  Block cut({2, 1});
  run("constant_pad_nd", {{b}, {cut}, {0, 0, 0, -1, 0}});
  CHECK(cut.values() == Row{3, 5});
  Block count = integers({3}, {});
  run("arange", {{}, {count}, {2}});
  CHECK(count.values() == Row{2, 3, 4});
  Block all({2, 3});
  run("slice_backward", {{}, {all}});
  run("copy_", {{all, a}, {}, {1, 2, 1}});
  CHECK(all.values() == Row{0, 0, 1, 0, 0, 2});
  run("copy_", {{all, numbers({2}, {8, 9})}, {}, {1, 0}});
  CHECK(all.values() == Row{8, 0, 1, 9, 0, 2});
  run("slice_backward", {{a}, {all}});
  CHECK(all.values() == Row{1, 0, 0, 2, 0, 0});
  Block square = numbers({2, 2}, {1, 1, 1, 1});
  run("tril", {{Block(square)}, {square}});
  CHECK(square.values() == Row{1, 0, 1, 1});
}

TEST_CASE("reductions and look-ups") {
  Block x = numbers({2, 3}, {1, 2, 3, 4, 5, 6}), rows({2}), columns({1, 3}), total({});
  run("sum", {{x}, {rows}, {0b10}});
  CHECK(rows.values() == Row{6, 15});
  run("mean", {{x}, {columns}, {0b01}});
  CHECK(columns.values() == Row{2.5, 3.5, 4.5});
  run("sum", {{x}, {total}, {0b11}});
  CHECK(total.values() == Row{21});
  Block sums({2, 3});
  run("cumsum", {{x}, {sums}, {1}});
  CHECK(sums.values() == Row{1, 3, 6, 4, 9, 15});
  Block every({}, DType::boolean), some({}, DType::boolean);
  const Block flags({3}, DType::boolean, {1, 0, 1});
  run("all", {{flags}, {every}});
  run("any", {{flags}, {some}});
  CHECK(every.values() == Row{0});
  CHECK(some.values() == Row{1});
  Block gathered({2, 2});
  run("gather", {{x, integers({2, 2}, {2, 0, 1, 1})}, {gathered}, {1}});
  CHECK(gathered.values() == Row{3, 1, 5, 5});
  Block first = integers({2, 2}, {}), second = integers({2, 2}, {}), found({2, 2});
  run("index", {{x, integers({2}, {1, 0}), integers({2}, {0, 2})}, {first, second, found}});
  CHECK(found.values() == Row{4, 6, 1, 3});
  CHECK(first.values() == Row{1, 1, 0, 0});
  CHECK(second.values() == Row{0, 2, 0, 2});
  Block y({2, 3});
  run("embedding", {{x, integers({2}, {1, 1})}, {y}});
  CHECK(y.values() == Row{4, 5, 6, 4, 5, 6});
  CHECK_THROWS_WITH_AS(run("embedding", {{x, integers({1}, {2})}, {Block({1, 3})}}), "an index outside of the table",
                       Error);
}

TEST_CASE("products of operands of any strides") {
  Block a = numbers({2, 3}, {1, 2, 3, 4, 5, 6}), bias = numbers({2}, {100, 200}), y({2, 2});
  run("mm", {{a, transposed(a, 0, 1)}, {y}});
  CHECK(y.values() == Row{14, 32, 32, 77});
  run("addmm", {{a, transposed(a, 0, 1), bias}, {y}});
  CHECK(y.values() == Row{114, 232, 132, 277});
}

TEST_CASE("windows of an image, the first of equal elements and any NaN") {
  Block x = numbers({1, 1, 2, 4}, {1, 5, 2, 2, 3, 5, 2, 0});
  Block y({1, 1, 1, 2}), at({1, 1, 1, 2}, DType::int64);
  run("max_pool2d_with_indices", {{x}, {y, at}, {2, 2, 2, 2, 0, 0, 1, 1}});
  CHECK(y.values() == Row{5, 2});
  CHECK(at.values() == Row{1, 2});
  Block broken = x;
  broken.set(4, std::nan(""));
  run("max_pool2d_with_indices", {{broken}, {y, at}, {2, 2, 2, 2, 0, 0, 1, 1}});
  CHECK(std::isnan(y.get(0)));
}

TEST_CASE("the generator is Philox 4x32-10") {
  // The known answer of Random123 for a counter and a key of zeros.
  constexpr Philox kZero = philox(0, 0);
  static_assert(kZero.word[0] == 0x6627E8D5 && kZero.word[1] == 0xE169C58D && kZero.word[2] == 0xBC57AC4C &&
                kZero.word[3] == 0x9B00DBD8);
  const Block x = Block({100, 100}, DType::fp64, Row(10000, 1.0));
  Block mask({100, 100}, DType::boolean), y({100, 100});
  run("native_dropout", {{x}, {mask, y}, {0.25}, Marker{}, {}, 7});
  double kept = 0;
  for (const double v : mask.values()) kept += v;
  CHECK(kept == doctest::Approx(7500).epsilon(0.03));
  for (std::int64_t i = 0; i < y.count(); ++i) CHECK(y.get(i) == doctest::Approx(mask.get(i) / 0.75));
}

TEST_CASE("what the device cannot run it refuses, and says why") {
  const HostDevice device;
  Kernel kernel;
  const KernelTensor t;
  kernel.reads = std::span(&t, 1);
  const auto refusal = [&](std::string_view name) {
    kernel.op = operator_named(name);
    return device.refusal(kernel);
  };
  CHECK(refusal("aten::relu") == "");
  CHECK(refusal("aten::cumsum") == "has no number");
  CHECK(refusal("aten::add") == "has no number");
  CHECK(refusal("aten::mm") == "is given 1 tensors");
  CHECK(refusal("aten::erf") == "the host device has no such operation");
}

// One parameter of two elements and its states of zeros.
struct Stepped {
  Block p = numbers({2}, {1, -2}), g = numbers({2}, {0.5, -4});
  std::vector<Block> states;
  Row step(const OptimizerConfig& config, std::int64_t count, std::size_t kept) {
    while (states.size() < kept) states.emplace_back(std::vector<std::int64_t>{2});
    std::vector<KernelTensor> tensors(states.begin(), states.end());
    update(config, count, {p, g, tensors});
    return p.values();
  }
};

void check_near(const Row& got, const Row& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(wanted[i]).epsilon(1e-12));
}

TEST_CASE("optimizers step by torch.optim's formulas") {
  OptimizerConfig config;
  config.kind = OptimizerKind::sgd;
  check_near(Stepped().step(config, 1, 0), {1 - 0.001 * 0.5, -2 + 0.001 * 4});
  config.momentum = true;
  Stepped momentum;
  momentum.step(config, 1, 1);
  check_near(momentum.step(config, 2, 1), {1 - 0.001 * 0.5 * (1 + 1.9), -2 + 0.001 * 4 * (1 + 1.9)});
  config.momentum = false;
  config.kind = OptimizerKind::adam;  // in its first step Adam goes by the gradient's sign
  check_near(Stepped().step(config, 1, 2), {1 - 0.001 * 0.5 / (0.5 + 1e-8), -2 + 0.001 * 4 / (4 + 1e-8)});
  config.kind = OptimizerKind::adamw;
  check_near(Stepped().step(config, 1, 2),
             {1 * (1 - 1e-5) - 0.001 * 0.5 / (0.5 + 1e-8), -2 * (1 - 1e-5) + 0.001 * 4 / (4 + 1e-8)});
  config.kind = OptimizerKind::rmsprop;
  check_near(Stepped().step(config, 1, 1), {1 - 0.01 * 0.5 / (0.05 + 1e-8), -2 + 0.01 * 4 / (0.4 + 1e-8)});
  config.kind = OptimizerKind::adagrad;
  check_near(Stepped().step(config, 1, 1), {1 - 0.01 * 0.5 / (0.5 + 1e-10), -2 + 0.01 * 4 / (4 + 1e-10)});
}

TEST_CASE("clipping scales all gradients to a norm of 1") {
  Block a = numbers({1}, {3}), b = numbers({1}, {4});
  const KernelTensor both[] = {a, b};
  clip(both);
  check_near({a.get(0), b.get(0)}, {3 / (5 + 1e-6), 4 / (5 + 1e-6)});
}

}  // namespace
}  // namespace gpuplan::host
