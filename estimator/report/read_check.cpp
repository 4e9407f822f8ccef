#include "estimator/report/read_check.h"

#include <nlohmann/json.hpp>

#include "estimator/report/check_keys.h"

namespace gpuplan {
namespace {

using Json = nlohmann::json;

FigureValues read_figures(const Json& json) {
  FigureValues figures;
  for (std::size_t i = 0; i < kFigureKeys.size(); ++i) {
    const auto at = json.find(kFigureKeys[i]);
    if (at != json.end() && at->is_number_integer()) figures.values[i] = at->get<std::int64_t>();
  }
  return figures;
}

Measured read_measured(const Json& check) {
  Measured measured{.figures = read_figures(check.at("figures")), .modules = {}};
  std::string pattern;
  for (const Json& module : check.at("modules")) {
    const auto of = module.at("pattern").get<std::string>();
    if (measured.modules.empty() || of != pattern) measured.modules.emplace_back();
    pattern = of;
    measured.modules.back().push_back(
        {.path = module.at("path").get<std::string>(), .figures = read_figures(module.at("figures"))});
  }
  return measured;
}

}  // namespace

SavedChecks read_saved_checks(const Source& source) {
  try {
    const Json json = Json::parse(source.text);
    if (json.at("schema") != "gpuplan.check/1") throw Error("");
    SavedChecks saved;
    saved.version = json.at("tool").at("version").get<std::string>();
    for (const Json& check : json.at("checks"))
      saved.by_name.emplace(check.at("name").get<std::string>(), read_measured(check));
    return saved;
  } catch (const std::exception&) {
    throw Error(source.name + " is nothing that gpuplan check --format json wrote")
        .help("gpuplan check -o base.json writes one; a commit is named as in --base origin/main");
  }
}

}  // namespace gpuplan
