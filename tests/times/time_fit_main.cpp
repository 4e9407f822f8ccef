// gpuplan_time_fit: fits the constants of the time model again, with each GPU left out in turn, and prints the errors
// on the one left out. Coordinate descent on the mean absolute logarithm of predicted / measured. Minutes; by hand.
//   gpuplan_time_fit [ROUNDS]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <span>

#include "tests/times/time_cases.h"

namespace {

using namespace gpuplan;

using Constant = double TimeModel::*;

template <class Case>
std::vector<double> ratios(const std::vector<Case>& cases, const TimeModel& model) {
  std::vector<double> all;
  for (const Case& c : cases) all.push_back(predicted_seconds(c, model) / c.seconds);
  return all;
}

template <class Case>
TimeModel fit(const std::vector<Case>& cases, std::span<const Constant> constants, TimeModel model, int rounds) {
  double best = log_errors(ratios(cases, model)).mean;
  double step = 1.3;
  for (int round = 0; round < rounds; ++round, step = std::sqrt(step))
    for (const Constant constant : constants)
      for (const double factor : {step, 1 / step}) {
        TimeModel changed = model;
        changed.*constant *= factor;
        const double mean = log_errors(ratios(cases, changed)).mean;
        if (mean < best) best = mean, model = changed;
      }
  return model;
}

template <class Case>
std::vector<Case> of_gpu(const std::vector<Case>& cases, const std::string& gpu, bool that) {
  std::vector<Case> some;
  for (const Case& c : cases)
    if ((c.gpu == gpu) == that) some.push_back(c);
  return some;
}

void print(const char* what, const std::string& gpu, const LogErrors& e) {
  std::printf("%-22s %-16s median %5.1f %%  90 %% within %5.1f %%  bias %+6.1f %%  within a factor of 1.6: %5.1f %%\n",
              what, gpu.c_str(), 100 * std::expm1(e.median), 100 * std::expm1(e.worst_of_90_percent),
              100 * std::expm1(e.bias), 100 * e.within_1_6);
}

template <class Case>
void hold_out(const char* what, const std::vector<Case>& cases, std::span<const Constant> constants, int rounds) {
  std::set<std::string> gpus;
  for (const Case& c : cases) gpus.insert(c.gpu);
  std::vector<double> held_out;
  for (const std::string& gpu : gpus) {
    const TimeModel model = fit(of_gpu(cases, gpu, false), constants, {}, rounds);
    const std::vector<double> r = ratios(of_gpu(cases, gpu, true), model);
    print(what, gpu, log_errors(r));
    held_out.insert(held_out.end(), r.begin(), r.end());
  }
  print(what, "each left out", log_errors(held_out));
  print(what, "as they are", log_errors(ratios(cases, TimeModel{})));
  const TimeModel all = fit(cases, constants, {}, rounds);
  print(what, "fitted again", log_errors(ratios(cases, all)));
  for (const Constant c : constants) std::printf("  %.3g -> %.3g\n", TimeModel{}.*c, all.*c);
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 3;
  using M = TimeModel;
  const Constant kernels[] = {&M::convolution_forward, &M::convolution_data,   &M::convolution_filter,  &M::winograd,
                              &M::kernel_seconds,      &M::fill_on_cuda_cores, &M::fill_on_tensor_cores};
  hold_out("kernels", measured_kernels(), kernels, rounds);
  const Constant host[] = {&M::host_product,  &M::host_norm,      &M::host_other,     &M::host_recording,
                           &M::host_backward, &M::host_parameter, &M::pageable_bytes, &M::layout_passes};
  hold_out("steps", measured_steps(), host, rounds);
}
