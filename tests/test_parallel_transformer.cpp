// GPTs under Megatron-LM: the formulas of its papers, and the ten rows of arXiv:2104.04473, table 1.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "estimator/parallel/transformer.h"
#include "estimator/parallel/transformer_time.h"
#include "estimator/time/product_time.h"

namespace gpuplan {
namespace {

const Transformer kGpt3{96, 12288, 96, 2048, 51200};

}  // namespace

TEST_CASE("a transformer's FLOPs are four forwards of its layers and three of its head") {
  // A layer's forward: 24 B s h^2 of products with weights, 4 B s^2 h of attention; the head's: 2 B s h V. Layers run
  // twice forward and once backward, which costs twice as much; the head is not run again.
  const double B = 1536, s = 2048, h = 12288, l = 96, V = 51200;
  const double layers = 4 * l * (24 * B * s * h * h + 4 * B * s * s * h), head = 3 * 2 * B * s * h * V;
  CHECK(training_flops(kGpt3, 1536) == doctest::Approx(layers + head));
}

TEST_CASE("ranks and stages together have the model's parameters") {
  CHECK(stage_parameters(kGpt3, 1, 1, 0) == parameters_of(kGpt3));
  // Eight stages: the words are there twice.
  std::int64_t all = 0;
  for (std::int64_t stage = 0; stage < 8; ++stage) all += stage_parameters(kGpt3, 1, 8, stage);
  CHECK(all == parameters_of(kGpt3) + 51200 * 12288);
  // Shared by 8: norms (4 h) and the biases of the two products that are split by rows (2 h) are whole on each.
  CHECK(8 * layer_parameters(kGpt3, 8) == layer_parameters(kGpt3, 1) + 7 * 6 * 12288);
}

TEST_CASE("activations of a layer are those of arXiv:2205.05198") {
  // Section 4.1 with 5 a s / h = 80 for GPT-3: s b h (34 + 80); shared by 8: s b h (10 + 24 / 8 + 80 / 8).
  const double sbh = 2048.0 * 12288;
  CHECK(layer_activation_bytes(kGpt3, 1, 1, Recompute::none) == doctest::Approx(sbh * 114));
  CHECK(layer_activation_bytes(kGpt3, 1, 8, Recompute::none) == doctest::Approx(sbh * 23));
  CHECK(layer_activation_bytes(kGpt3, 1, 8, Recompute::none, true) == doctest::Approx(sbh * 114 / 8));
  CHECK(layer_activation_bytes(kGpt3, 1, 8, Recompute::selective) == doctest::Approx(sbh * 13));
  CHECK(layer_activation_bytes(kGpt3, 1, 8, Recompute::full) == doctest::Approx(sbh * 2));
}

TEST_CASE("the first stage of a pipeline holds the activations of all layers, the last those of its own") {
  const double layer = layer_activation_bytes(kGpt3, 1, 8, Recompute::none), sbh = 2048.0 * 12288;
  // 8 stages of 12 layers, 8 micro-batches in flight on the first: 96 layers, and 8 dropout masks of the embeddings.
  CHECK(stage_activation_bytes(kGpt3, 1, 8, 8, 0, 64, Recompute::none) == doctest::Approx(96 * layer + 8 * sbh));
  CHECK(stage_activation_bytes(kGpt3, 1, 8, 8, 7, 64, Recompute::none) ==
        doctest::Approx(12 * layer + 4 * sbh / 8 * (1 + 51200.0 / 12288)));
}

// A100 80GB as configs/gpus has it, under the time model, which was fitted on other GPUs and other operations.
TEST_CASE("Megatron-LM's ten rows are met within 20 %, GPT 1.7B on 32 A100s to 1T on 3,072") {
  const TimeModel model;
  const ProductUnits units{108, 312e12, 2039e9 * model.bandwidth, true};
  const auto product = [&](double batch, double m, double n, double k) {
    const double traffic = 2 * batch * (m * k + k * n + m * n) / units.bytes;
    return std::max(product_seconds({batch, m, n, k}, units, 1, model), traffic) + model.kernel_seconds;
  };
  const GpuSpeed gpu{product, units.bytes};
  // Section 5: eight GPUs a node with NVLink, 300 GB/s in one direction, and eight adapters of 200 Gbit/s.
  const Topology nodes{8, Link{300e9, 0}, Link{8 * 25e9, 0}};
  std::ifstream file(GPUPLAN_SOURCE_DIR "/tests/facts/megatron_sc21.csv");
  std::string line;
  int rows = 0;
  while (std::getline(file, line)) {
    std::ranges::replace(line, ',', ' ');
    std::istringstream fields(line);
    double billions = 0, teraflops = 0;
    Transformer m{0, 0, 0, 2048, 51200};
    TransformerRun run;
    fields >> billions >> m.heads >> m.hidden >> m.layers >> run.tensor >> run.pipeline >> run.gpus >> run.batch >>
        teraflops;
    if (!fields) continue;  // comments and the heading
    CAPTURE(line);
    CHECK(static_cast<double>(parameters_of(m)) / 1e9 == doctest::Approx(billions).epsilon(0.03));
    const auto micro_batch = fastest_micro_batch(m, run, gpu, nodes, 80e9);
    REQUIRE(micro_batch);
    run.micro_batch = *micro_batch;
    const auto time = transformer_time(m, run, gpu, nodes);
    REQUIRE(time);
    const double planned = time->teraflops_per_gpu;
    CAPTURE(planned);
    CHECK(std::abs(planned / teraflops - 1) <= 0.2);
    ++rows;
  }
  CHECK(rows == 10);
}

}  // namespace gpuplan
