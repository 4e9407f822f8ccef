#include "estimator/report/read_check.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "estimator/report/check_keys.h"

namespace gpuplan {
namespace {

using ParsedJson = nlohmann::json;

FigureValues read_figures(const ParsedJson& json) {
  FigureValues figures;
  for (std::size_t i = 0; i < kFigureKeys.size(); ++i) {
    const auto at = json.find(kFigureKeys[i]);
    if (at == json.end() || !at->is_number_integer()) continue;
    // As much as any machine has, so that sums fit in 64 bits.
    constexpr std::int64_t kMost = std::int64_t{1} << 60;
    if (*at < 0 || *at > kMost) throw std::out_of_range(kFigureKeys[i]);
    figures.values[i] = at->get<std::int64_t>();
  }
  return figures;
}

SavedCheck read_saved_check(const ParsedJson& check) {
  SavedCheck saved;
  saved.figures = read_figures(check.at("figures"));
  for (const ParsedJson& module : check.at("modules"))
    saved.modules[module.at("pattern").get<std::string>()].push_back(
        {.path = module.at("path").get<std::string>(), .figures = read_figures(module.at("figures"))});
  const auto assertions = check.find("assertions");
  if (assertions == check.end()) return saved;
  for (const ParsedJson& a : *assertions)
    if (a.at("kind") == "fits") saved.fits[a.at("subject").get<std::string>()] = a.at("value").get<std::int64_t>();
  return saved;
}

}  // namespace

SavedChecks read_saved_checks(const Source& source) {
  try {
    const ParsedJson json = ParsedJson::parse(source.text);
    if (json.at("schema") != "gpuplan.check/1") throw Error("");
    SavedChecks saved;
    saved.version = json.at("tool").at("version").get<std::string>();
    for (const ParsedJson& check : json.at("checks"))
      saved.by_name.emplace(check.at("name").get<std::string>(), read_saved_check(check));
    return saved;
  } catch (const std::exception&) {
    throw Error(source.name + " was not written by gpuplan check --format json")
        .help("gpuplan check -o base.json writes one; a commit is named as in --base origin/main");
  }
}

}  // namespace gpuplan
