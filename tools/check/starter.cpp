#include "tools/check/starter.h"

#include <algorithm>
#include <map>

#include "estimator/base/amount.h"
#include "estimator/base/format.h"
#include "estimator/base/integers.h"
#include "estimator/budget/read_budget.h"
#include "estimator/budget/rounded_amount.h"
#include "tools/answers/planning.h"
#include "tools/check/settings.h"

namespace gpuplan {
namespace {

// As YAML has to have it: plain where that reads as itself.
std::string scalar(const std::string& text) {
  const bool plain = !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '/';
  });
  if (plain) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string with_underscores(std::string key) {
  std::ranges::replace(key, '-', '_');
  return key;
}

// The unit in which an amount has one to four digits before the point.
std::string_view unit_for(std::int64_t bytes) {
  return bytes < std::int64_t{10} << 20 ? " KiB" : bytes < std::int64_t{1} << 30 ? " MiB" : " GiB";
}

std::string path_from(const std::filesystem::path& folder, const std::string& model) {
  const bool control = std::ranges::any_of(model, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (control) throw Error("a control character in the name of a model", ErrorKind::usage);
  if (model.starts_with("zoo:")) return model;
  return std::filesystem::absolute(model).lexically_normal().lexically_relative(folder).generic_string();
}

std::string defaults_of(const RunOptions& run) {
  std::string text, set;
  for (const Setting& s : settings_of(run)) {
    if (s.key.starts_with("set."))
      set += (set.empty() ? "" : ", ") + s.key.substr(4) + ": " + s.text;
    else
      text += "  " + with_underscores(s.key) + ": " + scalar(s.text) + "\n";
  }
  if (!set.empty()) text += "  set: {" + set + "}\n";
  return text;
}

}  // namespace

std::string starter_budget(const std::vector<std::string>& models, const std::filesystem::path& folder,
                           const RunOptions& run, std::int64_t headroom) {
  std::string text =
      "# Limits on the memory and compute of a step, for `gpuplan check`; all keys: `gpuplan schema budget`.\ngpuplan: "
      "1\n"
      "defaults:\n" +
      defaults_of(run) +
      "  # Against a base (--base auto) a peak may grow by 5 % or by 256 MiB, whichever is more.\n"
      "  growth: {peak: {fail: {percent: 5, bytes: 256 MiB}, warn: {percent: 1}}}\n"
      "  inherited: warn  # a limit that the base breaks just as much only warns\nchecks:\n";
  std::map<std::string, int> names;
  for (const std::string& model : models) {
    RunOptions options = run;
    options.model = model;
    const Report report = make_report(prepare(options));
    const std::int64_t peak = report.peak.reading.allocated_bytes;
    const std::int64_t limit = checked_add(peak, share_of(peak, headroom));
    const std::string path = path_from(folder, model);
    std::string name = path.substr(path.find_last_of("/:") + 1);
    name.resize(std::min(name.rfind('.'), name.size()));
    if (const int n = ++names[name]; n > 1)
      text += "  - name: " + scalar(name + "-" + std::to_string(n)) + "\n    model: ";
    else
      text += "  - model: ";
    text += scalar(path) +
            "\n    budget:\n      peak: " + rounded_amount(limit, Unit::bytes, unit_for(limit), Rounding::up) + "  # " +
            format_bytes(peak) + " today\n";
    if (report.model.parameters > 0)  // a limit is above 0
      text += "      params: {max: " + std::to_string(report.model.parameters) + "}\n";
  }
  // What is written is read again, so that it is a budget.
  const auto source = std::make_shared<Source>(Source{.name = "gpuplan.yaml", .text = text});
  (void)read_budget(source, run_keys());
  return text;
}

}  // namespace gpuplan
