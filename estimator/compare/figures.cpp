#include "estimator/compare/figures.h"

#include <cmath>
#include <unordered_map>

#include "estimator/base/integers.h"
#include "estimator/plan/run_names.h"

namespace gpuplan {

namespace {

std::vector<std::pair<std::string, std::string>> run_of(const Report& report) {
  const RunConfig& run = report.run;
  std::vector<std::pair<std::string, std::string>> words = {{"mode", std::string(name_of(run.mode))},
                                                            {"batch", std::to_string(run.batch)},
                                                            {"precision", precision_words(run)}};
  if (run.mode == Mode::train) words.emplace_back("optimizer", name_of(run.optimizer));
  words.emplace_back("gpu", report.gpu ? report.gpu->name : "none");
  words.emplace_back("pytorch", version_text(run.pytorch));
  return words;
}

}  // namespace

std::vector<Amount> by_module(const std::vector<Amount>& layers) {
  std::vector<Amount> modules;
  std::unordered_map<std::string, std::size_t> places;
  for (const Amount& layer : layers) {
    const std::string name = layer.name.substr(0, layer.name.find('.'));
    const auto [place, added] = places.emplace(name, modules.size());
    if (added) modules.push_back({name, 0});
    std::int64_t& sum = modules[place->second].value;
    sum = checked_add(sum, layer.value);
  }
  return modules;
}

void complete(std::vector<Amount>& parts, std::int64_t total) {
  std::int64_t sum = 0;
  for (const Amount& part : parts) sum = checked_add(sum, part.value);
  if (sum != total) parts.push_back({kEverythingElse, checked_add(total, -sum)});
}

Figures figures_of(const Report& report) {
  Figures f;
  f.model = report.model.name;
  f.allocated_bytes = report.peak.reading.allocated_bytes;
  f.reserved_bytes = report.peak.reading.reserved_bytes;
  f.device_bytes = report.peak.device_bytes;
  f.parameters = report.model.parameters;
  f.step_flops = report.compute.step_flops;
  if (report.time) f.step_nanoseconds = static_cast<std::int64_t>(std::llround(report.time->seconds() * 1e9));
  for (const PeakPart& part : report.peak.parts)
    f.categories.push_back({std::string(name_of(part.category)), part.bytes});
  for (const ModuleBytes& module : report.peak.modules) f.modules.push_back({module.name, module.bytes});
  std::vector<Amount> parameters, flops;
  for (const LayerRow& layer : report.layers) {
    parameters.push_back({layer.name, layer.parameters});
    flops.push_back({layer.name, checked_add(checked_mul(2, layer.forward_macs), layer.backward_flops)});
  }
  f.module_parameters = by_module(parameters);
  f.module_flops = by_module(flops);
  complete(f.categories, f.allocated_bytes);
  complete(f.modules, f.allocated_bytes);
  complete(f.module_parameters, *f.parameters);
  complete(f.module_flops, *f.step_flops);
  f.run = run_of(report);
  return f;
}

}  // namespace gpuplan
