#include "tests/times/time_cases.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <tuple>

#include "estimator/base/csv.h"
#include "estimator/device/read_gpu.h"
#include "estimator/time/operation_time.h"
#include "layers/catalog.h"
#include "tests/support/model_time.h"
#include "tests/support/zoo_models.h"

namespace gpuplan {
namespace {

const std::string kRoot = std::string(GPUPLAN_SOURCE_DIR) + "/";

Source without_comments(const std::string& path) {
  std::ifstream in(kRoot + path);
  if (!in) throw std::runtime_error("cannot read " + path);
  Source source{path, ""};
  for (std::string line; std::getline(in, line);)
    if (!line.starts_with('#')) source.text += line + '\n';
  return source;
}

// Cards that only these tables have, by NVIDIA's pages of them.
struct Card {
  const char* name;
  int major, minor, multiprocessors;
  double boost_ghz, bandwidth_gb_s, memory_gib;
};
constexpr Card kCards[] = {{"titan-xp", 6, 1, 30, 1.582, 547.7, 12},
                           {"titan-x-pascal", 6, 1, 28, 1.531, 480, 12},
                           {"gtx1080", 6, 1, 20, 1.733, 320, 8},
                           {"titan-x-maxwell", 5, 2, 24, 1.075, 336.5, 12}};

Gpu gpu_of(const Card& card) {
  Gpu gpu;
  gpu.name = card.name;
  gpu.capability_major = card.major, gpu.capability_minor = card.minor;
  gpu.sm_count = card.multiprocessors;
  Datasheet sheet;
  sheet.memory_gib = card.memory_gib;
  sheet.bandwidth_gb_s = card.bandwidth_gb_s;
  sheet.teraflops[static_cast<std::size_t>(Rate::fp32)] = 2e-3 * 128 * card.multiprocessors * card.boost_ghz;
  sheet.host_link_gb_s = 15.75;  // PCIe 3.0 x16
  gpu.datasheet = sheet;
  return gpu;
}

std::string spec_of(const std::string& model) {
  for (const std::string& path : {"configs/models/" + model, "tests/exported/specs/torchvision." + model,
                                  "tests/times/specs/torchvision." + model})
    if (std::filesystem::exists(kRoot + path + ".yaml")) return path;
  return "";
}

const Model& model_named(const std::string& name) {
  static std::map<std::string, Model> read;
  auto at = read.find(name);
  if (at == read.end()) at = read.emplace(name, model_in_file(spec_of(name))).first;
  return at->second;
}

RunConfig run_of(const std::string& mode, const std::string& precision) {
  RunConfig run;
  run.batch = 12;
  run.mode = mode == "train" ? Mode::train : Mode::infer;
  run.precision = precision == "fp16" ? DType::fp16 : DType::fp32;
  run.optimizer.kind = OptimizerKind::none;
  return run;
}

Primitive primitive_of(const CsvTable& table, std::size_t row) {
  const auto number = [&](const char* column) {
    return static_cast<std::int64_t>(std::stoll(table.at(row, column).text));
  };
  const DType type = table.at(row, "precision").text == "fp32" ? DType::fp32 : DType::fp16;
  const std::string& what = table.at(row, "what").text;
  if (what == "gemm") {
    Gemm gemm;
    gemm.m = number("n_or_m"), gemm.n = number("c_or_n"), gemm.k = number("h_or_k"), gemm.dtype = type;
    return gemm;
  }
  Convolution c;
  c.pass = what == "forward" ? ConvolutionPass::forward
           : what == "data"  ? ConvolutionPass::backward_data
                             : ConvolutionPass::backward_filter;
  c.n = number("n_or_m"), c.c = number("c_or_n"), c.h = number("h_or_k"), c.w = number("w"), c.k = number("k");
  c.r = number("r"), c.s = number("s"), c.pad_h = number("pad_h"), c.pad_w = number("pad_w");
  c.stride_h = number("stride_h"), c.stride_w = number("stride_w"), c.dtype = type;
  c.p = (c.h + 2 * c.pad_h - c.r) / c.stride_h + 1;
  c.q = (c.w + 2 * c.pad_w - c.s) / c.stride_w + 1;
  // NCHW, as all of them; but what cuDNN 7 converted is in the shares of convolutions, which come from these times.
  c.channels_last = type == DType::fp16;
  return c;
}

Work work_of_kernel(const Primitive& what) {
  Work work;
  work.product_flops = 2 * cost(what).macs;
  if (const auto* g = std::get_if<Gemm>(&what)) {
    work.dtype = g->dtype;
    work.bytes = (g->m * g->k + g->k * g->n + g->m * g->n) * size_of(g->dtype);
  }
  if (const auto* c = std::get_if<Convolution>(&what)) {
    work.dtype = c->dtype;
    work.bytes =
        (c->n * c->c * c->h * c->w + c->k * c->c * c->r * c->s + c->n * c->k * c->p * c->q) * size_of(c->dtype);
  }
  return work;
}

}  // namespace

const Gpu& measured_gpu(const std::string& name) {
  static std::map<std::string, Gpu> read;
  auto at = read.find(name);
  if (at != read.end()) return at->second;
  for (const Card& card : kCards)
    if (name == card.name) return read.emplace(name, gpu_of(card)).first->second;
  return read.emplace(name, read_gpu(without_comments("configs/gpus/" + name + ".yaml"))).first->second;
}

std::vector<MeasuredStep> measured_steps() {
  const CsvTable table(without_comments("tests/times/cnn_step_times.csv"));
  std::map<std::tuple<std::string, std::string, std::string, std::string>, std::vector<double>> logs;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const auto& text = [&](const char* column) { return table.at(i, column).text; };
    logs[{text("gpu"), text("model"), text("mode"), text("precision")}].push_back(
        std::log(std::stod(text("median_ms")) / 1000));
  }
  std::vector<MeasuredStep> steps;
  for (const auto& [key, values] : logs) {
    const auto& [gpu, model, mode, precision] = key;
    if (spec_of(model).empty()) continue;
    double sum = 0;
    for (const double v : values) sum += v;
    const auto [least, most] = std::ranges::minmax(values);
    steps.push_back({gpu, model, run_of(mode, precision), std::exp(sum / static_cast<double>(values.size())),
                     std::exp(most - least)});
  }
  return steps;
}

double predicted_seconds(const MeasuredStep& step, const TimeModel& model) {
  const auto time =
      step_time(model_named(step.model), make_catalog(), step.run, measured_gpu(step.gpu), HostCopy::pageable, model);
  return time.value().seconds() - time->optimizer_seconds;
}

std::vector<MeasuredStep> torch7_steps() {
  const CsvTable table(without_comments("tests/times/cnn_step_times_torch7.csv"));
  std::vector<MeasuredStep> steps;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const auto seconds = [&](const char* column) { return std::stod(table.at(i, column).text) / 1000; };
    MeasuredStep step{table.at(i, "gpu").text, table.at(i, "model").text, run_of("train", "fp32"),
                      seconds("forward_ms") + seconds("backward_ms")};
    step.run.batch = 16;
    steps.push_back(std::move(step));
  }
  return steps;
}

std::vector<MeasuredStep> nvidia_steps() {
  const CsvTable table(without_comments("tests/times/nvidia_resnet50.csv"));
  std::vector<MeasuredStep> steps;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const std::string& mode = table.at(i, "mode").text;
    MeasuredStep step{table.at(i, "gpu").text, "resnet50", run_of(mode, "fp32"), 0};
    step.run.batch = std::stoll(table.at(i, "batch").text);
    step.run.tf32 = true;
    if (table.at(i, "precision").text == "amp") {
      step.run.autocast = DType::fp16;
      step.run.layout = MemoryFormat::channels_last;
    }
    step.run.optimizer.kind = mode == "train" ? OptimizerKind::sgd : OptimizerKind::none;
    step.run.optimizer.momentum = mode == "train";
    step.seconds = static_cast<double>(step.run.batch) / std::stod(table.at(i, "images_per_second").text);
    steps.push_back(std::move(step));
  }
  return steps;
}

double predicted_seconds_of_nvidia(const MeasuredStep& step, const TimeModel& model) {
  const auto time =
      step_time(model_named(step.model), make_catalog(), step.run, measured_gpu(step.gpu), HostCopy::overlapped, model);
  return time.value().seconds();
}

double predicted_seconds_of_torch7(const MeasuredStep& step, TimeModel model) {
  model.host_product = model.host_norm = model.host_other = model.host_backward = model.host_parameter = 0;
  const auto time =
      step_time(model_named(step.model), make_catalog(), step.run, measured_gpu(step.gpu), HostCopy::none, model);
  return time.value().forward_seconds + time->backward_seconds;
}

std::vector<MeasuredPair> unaligned_pairs() {
  const CsvTable table(without_comments("tests/times/unaligned.csv"));
  std::vector<MeasuredPair> pairs;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const auto number = [&](const char* column) { return std::stoll(table.at(i, column).text); };
    const auto gemm = [&](const std::string& which) {
      Gemm g;
      g.dtype = table.at(i, "precision").text == "bf16" ? DType::bf16 : DType::fp16;
      g.batch = number("batch"), g.m = number((which + "_m").c_str()), g.n = number((which + "_n").c_str());
      g.k = number((which + "_k").c_str());
      return g;
    };
    pairs.push_back(
        {table.at(i, "gpu").text, gemm("unaligned"), gemm("aligned"), std::stod(table.at(i, "share").text)});
  }
  return pairs;
}

double predicted_share(const MeasuredPair& pair, const TimeModel& model) {
  const Processor on = make_processor(measured_gpu(pair.gpu), model);
  const auto flops_per_second = [&](const Gemm& gemm, bool aligned) {
    Work work = work_of_kernel(gemm);
    work.product_flops = 2 * cost(Primitive(gemm)).macs;
    work.bytes *= gemm.batch;
    work.aligned = aligned;
    return static_cast<double>(work.product_flops) / operation_time(gemm, work, on).seconds;
  };
  return flops_per_second(pair.unaligned, false) / flops_per_second(pair.aligned, true);
}

std::vector<MeasuredKernel> measured_kernels() {
  const CsvTable table(without_comments("tests/times/kernels.csv"));
  std::vector<MeasuredKernel> kernels;
  for (std::size_t i = 0; i < table.rows(); ++i)
    if (table.at(i, "precision").text != "pseudo")
      kernels.push_back(
          {table.at(i, "gpu").text, primitive_of(table, i), std::stod(table.at(i, "milliseconds").text) / 1000});
  return kernels;
}

double predicted_seconds(const MeasuredKernel& kernel, const TimeModel& model) {
  return operation_time(kernel.what, work_of_kernel(kernel.what), make_processor(measured_gpu(kernel.gpu), model))
      .seconds;
}

LogErrors log_errors(const std::vector<double>& ratios) {
  std::vector<double> logs, sizes;
  for (const double r : ratios) logs.push_back(std::log(r));
  for (const double l : logs) sizes.push_back(std::abs(l));
  std::ranges::sort(logs);
  std::ranges::sort(sizes);
  const auto at = [](const std::vector<double>& v, double share) {
    return v[static_cast<std::size_t>(share * static_cast<double>(v.size() - 1))];
  };
  LogErrors e{at(sizes, 0.5), at(sizes, 0.9), at(logs, 0.5)};
  for (const double s : sizes) e.mean += s / static_cast<double>(sizes.size());
  for (const double s : sizes) e.within_1_6 += (s <= std::log(1.6) ? 1.0 : 0.0) / static_cast<double>(sizes.size());
  return e;
}

PairsInOrder pairs_in_order(const std::vector<double>& a, const std::vector<double>& b,
                            const std::function<bool(std::size_t i, std::size_t j)>& counts) {
  PairsInOrder pairs;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      if (!counts(i, j)) continue;
      pairs.all += 1;
      pairs.right += (a[i] - a[j]) * (b[i] - b[j]) > 0 ? 1 : 0;
    }
  return pairs;
}

double kendall_tau(const std::vector<double>& a, const std::vector<double>& b) {
  return pairs_in_order(a, b, [](std::size_t, std::size_t) { return true; }).tau();
}

}  // namespace gpuplan
