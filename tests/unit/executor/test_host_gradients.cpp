// Every backward operation of the host device against central differences of its forward operation, in fp64.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/host_device/finite_differences.h"

namespace gpuplan::host {
namespace {

void check_gradient(const std::function<void()>& forward, const Block& y, const Block& w, Block& x, const Block& dx) {
  CHECK(gradient_error(forward, y, w, x, dx) <= kGradientError);
}

enum class Reads { grad_x, grad_y, y_grad };

struct Activation {
  const char *forward, *backward;
  Reads reads;
  std::vector<double> numbers = {};
};

TEST_CASE("activations") {
  for (const Activation& a : {Activation{"relu", "threshold_backward", Reads::y_grad},
                              {"gelu", "gelu_backward", Reads::grad_x, {0}},
                              {"gelu", "gelu_backward", Reads::grad_x, {1}},
                              {"silu", "silu_backward", Reads::grad_x},
                              {"tanh", "tanh_backward", Reads::grad_y},
                              {"sigmoid", "sigmoid_backward", Reads::grad_y},
                              {"hardtanh", "hardtanh_backward", Reads::grad_x, {-0.5, 0.5}},
                              {"leaky_relu", "leaky_relu_backward", Reads::y_grad, {0.1}},
                              {"hardswish", "hardswish_backward", Reads::grad_x},
                              {"hardsigmoid", "hardsigmoid_backward", Reads::grad_x}}) {
    CAPTURE(a.forward);
    Block x = random_block({3, 7}, 1), w = random_block({3, 7}, 2), y({3, 7}), dx({3, 7});
    const auto forward = [&] { run(a.forward, {{x}, {y}, a.numbers}); };
    forward();
    const auto reads = a.reads == Reads::grad_x   ? std::vector<KernelTensor>{w, x}
                       : a.reads == Reads::grad_y ? std::vector<KernelTensor>{w, y}
                                                  : std::vector<KernelTensor>{y, w};
    run(a.backward, {reads, {dx}, a.numbers});
    check_gradient(forward, y, w, x, dx);
  }
}

TEST_CASE("dropout") {
  Block x = random_block({5, 9}, 1), w = random_block({5, 9}, 2), mask({5, 9}, DType::boolean), y({5, 9}), dx({5, 9});
  const auto forward = [&] { run("native_dropout", {{x}, {mask, y}, {0.3}, Marker{}, {}, 5}); };
  forward();
  run("native_dropout_backward", {{w, mask}, {dx}, {0.3}});
  check_gradient(forward, y, w, x, dx);
}

void check_convolution(Convolution c) {
  const std::vector<std::int64_t> image{c.n, c.c, c.h, c.w}, feature{c.n, c.k, c.p, c.q};
  const bool transposed = c.pass == ConvolutionPass::backward_data;
  Block x = random_block(transposed ? feature : image, 1), filter = random_block({c.k, c.c / c.groups, c.r, c.s}, 2);
  Block y(transposed ? image : feature), w = random_block(transposed ? image : feature, 3), dx = x, dfilter = filter;
  const auto forward = [&] { run("convolution", {{x, filter}, {y}, {}, c}); };
  forward();
  Convolution data = c, weight = c;
  data.pass = transposed ? ConvolutionPass::forward : ConvolutionPass::backward_data;
  weight.pass = ConvolutionPass::backward_filter;
  run("convolution_backward", {{w, filter}, {dx}, {}, data});
  run("convolution_backward", {{w, x}, {dfilter}, {transposed ? 1.0 : 0.0}, weight});
  check_gradient(forward, y, w, x, dx);
  check_gradient(forward, y, w, filter, dfilter);
}

TEST_CASE("convolutions, plain, strided, dilated, grouped and transposed") {
  check_convolution({.n = 2, .c = 2, .h = 4, .w = 3, .k = 3, .p = 4, .q = 3, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1});
  check_convolution(
      {.c = 1, .h = 5, .w = 7, .k = 2, .p = 2, .q = 4, .r = 2, .s = 3, .stride_h = 2, .stride_w = 2, .pad_w = 1});
  check_convolution(
      {.c = 2, .h = 5, .w = 5, .k = 4, .p = 3, .q = 3, .r = 2, .s = 2, .dilation_h = 2, .dilation_w = 2, .groups = 2});
  check_convolution(
      {.c = 3, .h = 3, .w = 3, .k = 3, .p = 3, .q = 3, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1, .groups = 3});
  check_convolution({.pass = ConvolutionPass::backward_data,
                     .c = 2,
                     .h = 4,
                     .w = 4,
                     .k = 3,
                     .p = 2,
                     .q = 2,
                     .r = 2,
                     .s = 2,
                     .stride_h = 2,
                     .stride_w = 2});
}

void check_batch_norm(bool training, bool cudnn, bool rows) {
  CAPTURE(training);
  CAPTURE(cudnn);
  CAPTURE(rows);
  BatchNorm work{.elements = 24, .training = training, .channels = 2, .rows = 12, .native_rows = rows};
  Block x = random_block({3, 2, 2, 2}, 1), weight = random_block({2}, 2), bias = random_block({2}, 3);
  const Block averages = random_block({2}, 4), variances({2}, DType::fp64, {0.5, 2});
  Block y({3, 2, 2, 2}), mean({2}), invstd({2}), w = random_block({3, 2, 2, 2}, 5), dx = x, dweight({2}), dbias({2});
  const auto forward = [&] {
    Block running_mean = averages, running_variance = variances;
    run("batch_norm", {{x}, {y, mean, invstd}, {0.1, 1e-5}, work, {weight, bias, running_mean, running_variance}});
  };
  forward();
  work.backward = true;
  const std::vector<KernelTensor> beside{weight, mean, invstd, averages, variances};
  if (cudnn)
    run("cudnn_batch_norm_backward", {{x, w, weight}, {dx, dweight, dbias}, {1e-5}, work, beside});
  else if (rows)
    run("native_batch_norm_backward", {{w, x}, {dweight, dbias, dx}, {1e-5}, work, beside});
  else
    run("native_batch_norm_backward", {{w, x}, {dx, dweight, dbias}, {1e-5}, work, beside});
  check_gradient(forward, y, w, x, dx);
  check_gradient(forward, y, w, weight, dweight);
  check_gradient(forward, y, w, bias, dbias);
}

TEST_CASE("batch normalisation") {
  check_batch_norm(true, true, false);
  check_batch_norm(true, false, true);
  check_batch_norm(true, false, false);
  check_batch_norm(false, false, false);
}

TEST_CASE("batch normalisation keeps running statistics, with the unbiased variance") {
  const BatchNorm work{.elements = 4, .channels = 1, .rows = 4};
  const Block x({4, 1}, DType::fp64, {1, 2, 3, 6});
  Block y({4, 1}), mean({1}), variance({1}, DType::fp64, {1});
  run("batch_norm", {{x}, {y}, {0.1, 1e-5}, work, {KernelTensor{}, KernelTensor{}, mean, variance}});
  CHECK(mean.get(0) == doctest::Approx(0.3));
  CHECK(variance.get(0) == doctest::Approx(0.9 + 0.1 * 14 / 3));
}

TEST_CASE("layer and RMS normalisation") {
  for (const bool centred : {true, false}) {
    CAPTURE(centred);
    const LayerNorm work{.rows = 3, .columns = 5, .weights = centred ? 2 : 1, .dtype = DType::fp64};
    Block x = random_block({3, 5}, 1), weight = random_block({5}, 2), bias = random_block({5}, 3);
    Block y({3, 5}), mean({3, 1}), rstd({3, 1}), w = random_block({3, 5}, 4), dx = x, dweight = weight, dbias = bias;
    const auto forward = [&] {
      if (centred)
        run("native_layer_norm", {{x}, {y, mean, rstd}, {1e-5}, work, {weight, bias}});
      else
        run("_fused_rms_norm", {{x}, {y, rstd}, {1e-5}, work, {weight}});
    };
    forward();
    const auto reads =
        centred ? std::vector<KernelTensor>{w, x, mean, rstd, weight} : std::vector<KernelTensor>{w, x, rstd, weight};
    const KernelTensor absent;
    run("native_layer_norm_backward", {reads, {}, {}, work, {dx, dweight, centred ? dbias.tensor() : absent}});
    check_gradient(forward, y, w, x, dx);
    check_gradient(forward, y, w, weight, dweight);
    if (centred) check_gradient(forward, y, w, bias, dbias);
  }
}

TEST_CASE("pooling") {
  Block x = random_block({2, 2, 5, 5}, 1), y({2, 2, 3, 3}), at({2, 2, 3, 3}, DType::int64), dx = x;
  const Block w = random_block({2, 2, 3, 3}, 2);
  auto forward = [&] { run("max_pool2d_with_indices", {{x}, {y, at}, {3, 3, 2, 2, 1, 1, 1, 1}}); };
  forward();
  run("max_pool2d_with_indices_backward", {{w, x, at}, {dx}});
  check_gradient(forward, y, w, x, dx);
  auto average = [&] { run("_adaptive_avg_pool2d", {{x}, {y}}); };
  average();
  run("_adaptive_avg_pool2d_backward", {{w, x}, {dx}});
  check_gradient(average, y, w, x, dx);
}

void check_attention(bool causal, double p, bool masked, std::int64_t key_heads) {
  Block q = random_block({2, 2, 3, 4}, 1), k = random_block({2, key_heads, 5, 4}, 2);
  Block v = random_block({2, key_heads, 5, 6}, 3), mask = random_block({2, 2, 3, 5}, 4);
  Block y({2, 2, 3, 6}), sums({2, 2, 32, 1}), w = random_block({2, 2, 3, 6}, 5);
  Block dq = q, dk = k, dv = v, dmask = mask, state({1, 1, 1, 2}, DType::int64);
  const std::vector<double> numbers{0.5, causal ? 1.0 : 0.0, p};
  const KernelTensor given = masked ? mask.tensor() : KernelTensor{};
  const std::string name = "_scaled_dot_product_efficient_attention";
  const auto forward = [&] { run(name, {{q, k, v, given}, {state, y, sums}, numbers, Marker{}, {}, 9}); };
  forward();
  run(name + "_backward", {{w}, {dq, dk, dv, dmask}, numbers, Marker{}, {q, k, v, given, y, sums}, 9});
  check_gradient(forward, y, w, q, dq);
  check_gradient(forward, y, w, k, dk);
  check_gradient(forward, y, w, v, dv);
  if (masked) check_gradient(forward, y, w, mask, dmask);
}

TEST_CASE("attention, causal, masked, dropped out and in groups") {
  check_attention(false, 0, false, 2);
  check_attention(true, 0, false, 2);
  check_attention(false, 0, true, 2);
  check_attention(true, 0.4, true, 1);
}

TEST_CASE("softmax and losses") {
  for (const bool log : {false, true})
    for (const int dim : {0, 1, 2}) {
      Block x = random_block({3, 2, 4}, 1), w = random_block({3, 2, 4}, 2), y({3, 2, 4}), dx({3, 2, 4});
      const std::string name = log ? "_log_softmax" : "_softmax";
      const std::vector<double> numbers{static_cast<double>(dim)};
      const auto forward = [&] { run(name, {{x}, {y}, numbers}); };
      forward();
      run(name + "_backward_data", {{w, y}, {dx}, numbers});
      check_gradient(forward, y, w, x, dx);
    }
  for (const bool spatial : {false, true}) {
    Block x = spatial ? random_block({2, 3, 2, 2}, 1) : random_block({4, 3}, 1), dx = x, loss({}), count({});
    const Block target(spatial ? std::vector<std::int64_t>{2, 2, 2} : std::vector<std::int64_t>{4}, DType::int64,
                       spatial ? std::vector<double>{0, 2, 1, -100, 1, 1, 0, 2} : std::vector<double>{0, 2, -100, 1});
    const Block w({}, DType::fp64, {0.7});
    const std::string name = spatial ? "nll_loss2d" : "nll_loss";
    const auto forward = [&] { run(name + "_forward", {{x, target}, {loss, count}, {-100}}); };
    forward();
    CHECK(count.get(0) == (spatial ? 7 : 3));
    run(name + "_backward", {{w, x, target, count}, {dx}, {-100}});
    check_gradient(forward, loss, w, x, dx);
  }
}

TEST_CASE("rows that are masked out whole") {
  const double none = -std::numeric_limits<double>::infinity();
  const Block x({2, 2}, DType::fp64, {none, none, 0, 0});
  Block y({2, 2});
  run("_safe_softmax", {{x}, {y}, {1}});
  CHECK(y.values() == std::vector<double>{0, 0, 0.5, 0.5});
}

TEST_CASE("embeddings") {
  Block table = random_block({4, 3}, 1), y({2, 2, 3}), w = random_block({2, 2, 3}, 2), dtable = table;
  const Block at({2, 2}, DType::int64, {0, 3, 3, 1});
  const auto forward = [&] { run("embedding", {{table, at}, {y}}); };
  forward();
  run("embedding_dense_backward", {{w, at}, {dtable}});
  check_gradient(forward, y, w, table, dtable);
}

}  // namespace
}  // namespace gpuplan::host
