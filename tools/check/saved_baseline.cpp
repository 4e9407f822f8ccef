#include "estimator/report/read_check.h"
#include "tools/check/baseline.h"
#include "tools/process/read_source.h"

namespace gpuplan {

Baseline saved_baseline(const std::string& path, std::string_view version) {
  const auto saved = std::make_shared<const SavedChecks>(read_saved_checks(*read_file_source(path)));
  Baseline baseline;
  baseline.rule = path + ", gpuplan " + saved->version;
  for (const auto& [name, check] : saved->by_name) baseline.names.push_back(name);
  if (saved->version != version)
    baseline.warnings.push_back(path + " was written by gpuplan " + saved->version + ", this is " +
                                std::string(version) + ": differences may come from the program, not the model");
  baseline.find = [saved](const Check& head) {
    BaseCheck base;
    const auto at = saved->by_name.find(head.name);
    if (at == saved->by_name.end()) {
      base.note = "new: not in the base";
      return base;
    }
    const SavedCheck& check = at->second;
    if (!check.figures[Figure::peak]) {
      base.note = "the base has no figures for it";
      return base;
    }
    Measured& measured = base.measured.emplace();
    measured.figures = check.figures;
    for (const ModuleBudget& module : head.modules) {
      const auto modules = check.modules.find(module.pattern);
      measured.modules.push_back(modules == check.modules.end() ? std::vector<ModuleFigures>() : modules->second);
    }
    base.fits = check.fits;
    return base;
  };
  return baseline;
}

}  // namespace gpuplan
