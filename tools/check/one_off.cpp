#include "tools/check/one_off.h"

#include <array>
#include <utility>

#include "estimator/budget/read_budget.h"
#include "tools/check/settings.h"
#include "tools/options/words.h"

namespace gpuplan {
namespace {

std::vector<std::pair<std::string, std::string>> given(const LimitOptions& limits) {
  const std::array<std::pair<const char*, const std::string*>, 8> all = {{{"peak", &limits.max_peak},
                                                                          {"reserved", &limits.max_reserved},
                                                                          {"device", &limits.max_device},
                                                                          {"params", &limits.max_params},
                                                                          {"step_flop", &limits.max_flop},
                                                                          {"step_time", &limits.max_time},
                                                                          {"cost", &limits.max_cost},
                                                                          {"growth", &limits.max_growth}}};
  std::vector<std::pair<std::string, std::string>> list;
  for (const auto& [name, text] : all)
    if (!text->empty()) list.emplace_back(name, *text);
  for (const std::string& gpu : limits.fits) list.emplace_back("fits", gpu);
  return list;
}

// In double quotes, as YAML reads them.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20)
      out += {'\\', 'x', "0123456789abcdef"[c >> 4], "0123456789abcdef"[c & 15]};
    else if (c == '"' || c == '\\')
      out += {'\\', c};
    else
      out += c;
  }
  return out + "\"";
}

}  // namespace

bool LimitOptions::any() const { return !given(*this).empty(); }

namespace {

std::string margin_line(const RunOptions& run, const LimitOptions& limits) {
  if (run.margin.empty()) return "";
  (void)percentage("--margin", run.margin);
  if (limits.fits.empty())
    throw Error("--margin needs GPUs that the step must fit", ErrorKind::usage).help("for example --fits t4,l4");
  return "    margin: " + quoted(run.margin) + "\n";
}

}  // namespace

// Limits are read where gpuplan.yaml's are, out of a file that is made for them.
Budget one_off_budget(const RunOptions& run, const SeveralGpusOptions& several, const LimitOptions& limits) {
  std::string budget, fits, growth;
  for (const auto& [name, text] : given(limits)) {
    if (name == "fits")
      fits += (fits.empty() ? "" : ", ") + quoted(text);
    else if (name == "growth")
      growth = "    growth: " + quoted(text) + "\n";
    else
      budget += "      " + name + ": " + quoted(text) + "\n";
  }
  if (!fits.empty()) budget += "      fits: [" + fits + "]\n";
  const auto source = std::make_shared<Source>();
  source->name = "command line";
  source->text = "gpuplan: 1\nchecks:\n  - model: " + quoted(run.model) + "\n" +
                 (run.model == "-" ? "    name: standard input\n" : "") + growth + margin_line(run, limits) +
                 (budget.empty() ? "" : "    budget:\n" + budget);
  try {
    Budget one = read_budget(source, run_keys());
    for (Check& check : one.checks) {
      check.settings = settings_of(run);
      for (Setting& setting : settings_of(several)) check.settings.push_back(std::move(setting));
    }
    return one;
  } catch (const Error& error) {
    throw Error(error.message(), ErrorKind::usage);
  }
}

}  // namespace gpuplan
