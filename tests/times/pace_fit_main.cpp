// gpuplan_pace_fit: fits the constants of PaceModel again on the half of tests/times/serving_readings.csv that is for
// it, and prints the median factors of both halves. Coordinate descent on the mean absolute logarithm of predicted /
// measured, from guesses.
//   gpuplan_pace_fit [ROUNDS [rows]]     0: the constants as they are, only; rows: every reading and its ratio, too
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>
#include <span>

#include "tests/times/serving_cases.h"

namespace {

using namespace gpuplan;

using Constant = double PaceModel::*;
using Quantity = ServingQuantity;

const char* name_of(Quantity quantity) {
  switch (quantity) {
    case Quantity::decode: return "decode";
    case Quantity::prefill: return "prefill";
    case Quantity::whole: break;
  }
  return "whole";
}

double mean_error(std::span<const ServingReading> readings, const PaceModel& pace) {
  double sum = 0;
  for (const ServingReading& r : readings) sum += std::abs(std::log(predicted_seconds(r, pace) / r.seconds));
  return sum / static_cast<double>(readings.size());
}

// Where the descent begins: round numbers from before the first fit. The optimum is flat, so where it ends depends on
// them: a step of vLLM's host, say, is hard to tell from the kernels of its layers.
PaceModel guesses() {
  PaceModel pace;
  pace.stream = 0.88, pace.element_wise = 0.5, pace.kernel_start = 2e-6;
  pace.full_rate = 0.9, pace.half_rate = 1.1, pace.unpacking = 0.15;
  pace.llama_cpp_bytes_a_clock = 6, pace.llama_cpp_step = 0.5e-3;
  pace.vllm_step = 1.5e-3;
  pace.transformers_host = 0.5, pace.transformers_cache = 2;
  return pace;
}

PaceModel fit(std::span<const ServingReading> readings, std::span<const Constant> constants, int rounds) {
  PaceModel pace = guesses();
  double best = mean_error(readings, pace), step = 1.3;
  for (int round = 0; round < rounds; ++round, step = std::sqrt(step))
    for (const Constant constant : constants)
      for (const double factor : {step, 1 / step}) {
        PaceModel changed = pace;
        changed.*constant *= factor;
        // Nothing is faster than the memory, or than tensor cores at their clock: tiles reach 0.86 of them.
        if (changed.stream > 1 || changed.full_rate > 1.16 || changed.half_rate > 1.16) continue;
        const double mean = mean_error(readings, changed);
        if (mean < best) best = mean, pace = changed;
      }
  return pace;
}

void print_medians(std::span<const ServingReading> readings, const PaceModel& pace, const char* when) {
  for (const char* engine : {"transformers", "vllm", "llama.cpp"})
    for (const Quantity quantity : {Quantity::decode, Quantity::prefill, Quantity::whole})
      for (const bool held : {false, true}) {
        std::vector<double> ratios;
        double bias = 0;
        for (const ServingReading& r : readings)
          if (r.engine == engine && r.quantity == quantity && r.held == held)
            ratios.push_back(predicted_seconds(r, pace) / r.seconds), bias += std::log(ratios.back());
        if (ratios.empty()) continue;
        std::printf("%-12s %-12s %-7s %-4s %3zu readings, median factor %.3f, bias %+.1f %%\n", when, engine,
                    name_of(quantity), held ? "held" : "fit", ratios.size(), median_factor(ratios),
                    100 * std::expm1(bias / static_cast<double>(ratios.size())));
      }
}

// The median factors on GPUs that the constants were not fitted on.
void print_left_out(std::span<const ServingReading> all, std::span<const Constant> constants, int rounds) {
  std::set<std::string> gpus;
  for (const ServingReading& r : all) gpus.insert(r.gpu);
  std::map<std::pair<std::string, Quantity>, std::vector<double>> ratios;
  for (const std::string& gpu : gpus) {
    std::vector<ServingReading> others;
    std::ranges::copy_if(all, std::back_inserter(others), [&](const auto& r) { return r.gpu != gpu; });
    const PaceModel pace = fit(others, constants, rounds);
    for (const ServingReading& r : all)
      if (r.gpu == gpu) ratios[{r.engine, r.quantity}].push_back(predicted_seconds(r, pace) / r.seconds);
  }
  for (const auto& [what, some] : ratios)
    std::printf("each GPU left out: %-12s %-7s %3zu readings, median factor %.3f\n", what.first.c_str(),
                name_of(what.second), some.size(), median_factor(some));
}

void print_rows(std::span<const ServingReading> readings, const PaceModel& pace) {
  for (const ServingReading& r : readings) {
    const double p = predicted_seconds(r, pace);
    std::printf("%s %s %s %s %.3g bits, %lld GPUs, batch %lld, %lld + %lld: %.2f ms, measured %.2f, %.2f %s\n",
                r.engine.c_str(), r.gpu.c_str(), r.model.c_str(), name_of(r.quantity), r.settings.weights.bits,
                static_cast<long long>(r.settings.tensor_ranks), static_cast<long long>(r.batch),
                static_cast<long long>(r.prompt), static_cast<long long>(r.generated), 1e3 * p, 1e3 * r.seconds,
                p / r.seconds, r.held ? "held" : "fit");
  }
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 8;
  using M = PaceModel;
  const Constant constants[] = {&M::stream,
                                &M::element_wise,
                                &M::kernel_start,
                                &M::full_rate,
                                &M::half_rate,
                                &M::unpacking,
                                &M::llama_cpp_bytes_a_clock,
                                &M::vllm_step,
                                &M::llama_cpp_step,
                                &M::transformers_host,
                                &M::transformers_cache};
  const std::vector<ServingReading> all = serving_readings();
  print_medians(all, {}, "as they are");
  if (count > 2) print_rows(all, {});
  if (rounds <= 0) return 0;
  std::vector<ServingReading> some;
  for (const ServingReading& r : all)
    if (!r.held) some.push_back(r);
  const PaceModel fitted = fit(some, constants, rounds);
  print_medians(all, fitted, "fitted again");
  print_left_out(all, constants, rounds);
  for (const Constant c : constants) std::printf("  %.4g -> %.4g\n", PaceModel{}.*c, fitted.*c);
}
