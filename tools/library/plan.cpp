// gpuplan::v0::plan(): the flags of the command, and the values of its JSON.
#include <gpuplan/plan.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "estimator/base/error.h"
#include "estimator/report/writers.h"
#include "tools/answers/planning.h"
#include "tools/options/run_options.h"

namespace gpuplan::v0 {

namespace {

RunOptions options_of(const Spec& spec, const Run& run) {
  RunOptions options;
  CLI::App app;
  add_run_options(app, options);
  add_margin_option(app, options);
  std::vector<std::string> names;
  for (CLI::Option* const option : app.get_options()) {
    if (!option->get_positional()) option->allow_extra_args(false);
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const std::string& flag : run.flags) {
    const std::string name = flag.substr(0, flag.find('='));
    if (flag.starts_with('-') && app.get_option_no_throw(name) == nullptr)
      throw gpuplan::Error("unknown flag " + name + did_you_mean(name, names), ErrorKind::usage);
  }
  std::vector<std::string> words = {"--batch=" + std::to_string(run.batch), "--optimizer=" + run.optimizer};
  if (!run.gpu.empty()) words.push_back("--gpu=" + run.gpu);
  words.insert(words.end(), run.flags.begin(), run.flags.end());
  std::ranges::reverse(words);  // CLI11 takes them from the end
  try {
    app.parse(words);
  } catch (const CLI::ParseError& wrong) {
    throw gpuplan::Error(wrong.what(), ErrorKind::usage);
  }
  if (!options.model.empty())
    throw gpuplan::Error("flags: expected a flag, not \"" + options.model + "\"", ErrorKind::usage);
  options.model = spec.name;
  if (!spec.text.empty()) options.piped = std::make_shared<Source>(Source{spec.name, spec.text});
  return options;
}

Report report_of(std::string text) {
  const auto json = nlohmann::json::parse(text);
  const auto& peak = json.at("peak");
  Report report;
  report.peak_bytes = peak.at("allocated_bytes");
  report.requested_bytes = peak.at("requested_bytes");
  report.reserved_bytes = peak.at("reserved_bytes");
  report.device_bytes = peak.at("device_bytes");
  report.at_most_bytes = json.at("at_most").at("device_bytes");
  if (json.at("fits").is_boolean()) report.fits = json.at("fits").get<bool>();
  if (json.at("time").is_object()) report.step_seconds = json.at("time").at("step_seconds").get<double>();
  report.step_flops = json.at("compute").at("step_flops");
  for (const auto& part : peak.at("parts"))
    report.categories[part.at("category")] += part.at("bytes").get<std::int64_t>();
  report.warnings = json.at("warnings").get<std::vector<std::string>>();
  report.json = std::move(text);
  return report;
}

}  // namespace

Report plan(const Spec& spec, const Run& run) {
  try {
    return report_of(report_json(make_report(prepare(options_of(spec, run))), GPUPLAN_VERSION));
  } catch (const gpuplan::Error& wrong) {
    Error error(wrong.render());
    error.message = wrong.message();
    error.file = wrong.file();
    error.line = wrong.line();
    error.column = wrong.column();
    throw error;
  }
}

}  // namespace gpuplan::v0
