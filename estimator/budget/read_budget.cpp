#include "estimator/budget/read_budget.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "estimator/base/list_text.h"
#include "estimator/budget/matrix.h"
#include "estimator/budget/read_limits.h"
#include "estimator/spec/keys.h"

namespace gpuplan {
namespace {

constexpr std::string_view kVariable = "set.";
constexpr std::size_t kMaxCheckName = 200;
constexpr std::array<std::string_view, 4> kShared = {"set", "margin", "growth", "inherited"};
constexpr std::array<std::string_view, 8> kOfCheck = {"name",    "model", "matrix",     "budget",
                                                      "message", "owner", "skip_until", "reason"};

// A name ends up in annotations, XML, Markdown and file names: one line, and no flag.
void expect_name(const std::string& name, const SourceMark& mark) {
  if (name.empty() || name.size() > kMaxCheckName)
    throw Error("a check's name has 1 to " + std::to_string(kMaxCheckName) + " characters").at(mark);
  const bool control = std::ranges::any_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (control) throw Error("a line end or another control character in a check's name").at(mark);
  if (name.starts_with('-')) throw Error("a check's name that begins with - looks like a flag").at(mark);
}

std::string with_dashes(std::string key) {
  std::ranges::replace(key, '_', '-');
  return key;
}

class BudgetReader {
 public:
  BudgetReader(const RunKeys& run_keys) : run_keys_(run_keys) {}

  Budget read(const YamlNode& root) {
    expect_keys(root, "gpuplan.yaml", {"gpuplan", "defaults", "checks"});
    const YamlNode& version = require(root, "gpuplan.yaml", "gpuplan");
    if (version.text != "1")
      throw Error("gpuplan.yaml has format version 1, not " + describe(version)).at(version.mark);
    Check defaults;
    if (const YamlNode* node = root.find("defaults")) {
      expect_map(*node, "defaults");
      read_keys(*node, "defaults", defaults, false);
      for (Setting& setting : defaults.settings) setting.by_default = true;
    }
    const YamlNode& checks = require(root, "gpuplan.yaml", "checks");
    expect_list(checks, "checks");
    if (checks.children.empty()) throw Error("no check is listed").at(checks.mark).label("expected at least one check");
    Budget budget;
    for (const YamlNode* check : checks.children) add_check(*check, defaults, budget);
    return budget;
  }

 private:
  void add_check(const YamlNode& node, const Check& defaults, Budget& budget) {
    expect_map(node, "a check");
    Check check = defaults;
    check.mark = node.mark;
    axes_.clear();
    read_keys(node, "a check", check, true);
    if (check.model.empty()) throw Error("a check needs model:").at(node.mark).label("a file, or zoo:NAME");
    if (check.name.empty()) check.name = name_of_model(check.model);
    expect_name(check.name, check.mark);
    expect_path(check);
    refuse_settings_of_matrix(check);
    if (check.limits.empty() && check.fits.empty() && check.modules.empty() && check.growth.empty())
      throw Error("the check " + check.name + " has no limit")
          .at(check.mark)
          .label("budget: {peak: 8 GiB}, or growth:");
    if (check.skip_until && check.reason.find_first_not_of(' ') == std::string::npos)
      throw Error("skip_until needs a reason: \"...\"").at(check.skip_mark).label("why until then?");
    if (!check.skip_until && !check.reason.empty())
      throw Error("reason: belongs to skip_until:, which is not given").at(reason_mark_);
    check.family = check.name;
    for (Check& one : multiply(check, axes_)) {
      expect_name(one.name, one.mark);
      const auto [first, fresh] = names_.emplace(one.name, one.mark.line);
      if (!fresh)
        throw Error("two checks are called " + one.name)
            .at(one.mark)
            .label("the first is on line " + std::to_string(first->second))
            .help("give one of them another name:");
      budget.checks.push_back(std::move(one));
      if (budget.checks.size() > kMostChecks)
        throw Error("more than " + std::to_string(kMostChecks) + " checks").at(node.mark);
    }
  }

  // "configs/gpt2.yaml" is gpt2, "zoo:gpt2" too.
  static std::string name_of_model(std::string model) {
    model.erase(0, model.find_last_of("/:") + 1);
    return model.substr(0, model.rfind('.'));
  }

  // What a matrix says of a flag stands alone; a default gives way to it.
  void refuse_settings_of_matrix(const Check& check) const {
    for (const MatrixAxis& axis : axes_)
      for (const Setting& s : check.settings)
        if (s.key == axis[0].key && !s.by_default)
          throw Error("the matrix and the check both say " + axis[0].written).at(axis[0].key_mark);
  }

  static void expect_path(const Check& check) {
    const bool control = std::ranges::any_of(check.model, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
    if (control) throw Error("a control character in the model's name").at(check.model_mark);
  }

  // Of one map: a flag has several names, and YAML knows of none of them.
  void add_setting(const Setting& setting, std::size_t first, Check& check) const {
    for (std::size_t i = first; i < check.settings.size(); ++i)
      if (check.settings[i].key == setting.key)
        throw Error(setting.written + " is given twice")
            .at(setting.key_mark)
            .label("first on line " + std::to_string(check.settings[i].key_mark.line) + ", as " +
                   check.settings[i].written);
    check.settings.push_back(setting);
  }

  void read_keys(const YamlNode& map, std::string_view what, Check& check, bool whole) {
    first_ = check.settings.size();
    for (std::size_t i = 0; i < map.children.size(); i += 2) {
      const YamlNode &key = *map.children[i], &value = *map.children[i + 1];
      if (read_shared(key.text, value, check)) continue;
      if (whole && read_own(key.text, value, check)) continue;
      if (!is_run_key(key.text)) refuse(key, what, whole);
      add_setting(setting(key, value), first_, check);
    }
  }

  bool read_shared(const std::string& key, const YamlNode& value, Check& check) {
    if (key == "margin") {
      check.margin_hundredths = read_percent(value, "margin", false);
      if (check.margin_hundredths >= 10'000) throw Error("a margin is less than 100%").at(value.mark);
    } else if (key == "growth") {
      for (const Growth& growth : read_growth(value)) {
        std::erase_if(check.growth, [&](const Growth& g) { return g.figure == growth.figure; });
        check.growth.push_back(growth);
      }
    } else if (key == "inherited") {
      check.inherited = read_level(value, "inherited");
    } else if (key == "set") {
      expect_map(value, "set");
      for (std::size_t i = 0; i < value.children.size(); i += 2) {
        Setting one = setting(*value.children[i], *value.children[i + 1]);
        one.key.insert(0, kVariable);
        one.written = one.key;
        add_setting(one, first_, check);
      }
    } else {
      return false;
    }
    return true;
  }

  bool read_own(const std::string& key, const YamlNode& value, Check& check) {
    if (key == "name") {
      check.name = text_of(value, "a check's name");
      check.mark = value.mark;
    } else if (key == "model") {
      check.model = text_of(value, "model");
      check.model_mark = value.mark;
    } else if (key == "matrix") {
      read_matrix(value);
    } else if (key == "budget") {
      read_limits(value, check);
    } else if (key == "message") {
      check.message = text_of(value, "message");
    } else if (key == "owner") {
      check.owner = text_of(value, "owner");
    } else if (key == "reason") {
      check.reason = text_of(value, "reason");
      reason_mark_ = value.mark;
    } else if (key == "skip_until") {
      check.skip_until = day_of(text_of(value, "skip_until"));
      check.skip_mark = value.mark;
      if (!check.skip_until)
        throw Error("skip_until must be a day such as 2026-12-31, not " + describe(value)).at(value.mark);
    } else {
      return false;
    }
    return true;
  }

  void read_matrix(const YamlNode& node) {
    expect_map(node, "a matrix");
    if (node.children.empty()) throw Error("an empty matrix").at(node.mark).label("such as {batch: [8, 16]}");
    for (std::size_t i = 0; i < node.children.size(); i += 2) {
      const YamlNode &key = *node.children[i], &values = *node.children[i + 1];
      if (!is_run_key(key.text) && !key.text.starts_with(kVariable)) refuse(key, "a matrix", false);
      expect_list(values, "a matrix's " + key.text);
      if (values.children.empty()) throw Error("the matrix lists no values for " + key.text).at(values.mark);
      MatrixAxis axis;
      for (const MatrixAxis& other : axes_)
        if (other[0].key == first_name(key.text))
          throw Error(key.text + " is given twice").at(key.mark).label("first as " + other[0].written);
      for (const YamlNode* value : values.children) {
        axis.push_back(setting(key, *value));
        for (std::size_t k = 0; k + 1 < axis.size(); ++k)
          if (axis[k].text == axis.back().text) throw Error(axis.back().text + " appears twice").at(value->mark);
      }
      axes_.push_back(std::move(axis));
    }
  }

  void read_limits(const YamlNode& node, Check& check) {
    expect_map(node, "a budget");
    if (node.children.empty()) throw Error("a budget without limits").at(node.mark).label("such as {peak: 8 GiB}");
    for (std::size_t i = 0; i < node.children.size(); i += 2) {
      const YamlNode &key = *node.children[i], &value = *node.children[i + 1];
      if (key.text == "fits")
        read_fits(value, check);
      else if (key.text == "modules")
        read_modules(value, check);
      else
        check.limits.push_back(read_threshold(value, figure_of(key, figures_of_step(), {"fits", "modules"})));
    }
  }

  static Figure figure_of(const YamlNode& key, std::span<const Figure> figures, std::vector<std::string> others) {
    if (const std::optional<Figure> figure = figure_named(key.text, figures)) return *figure;
    std::vector<std::string> names = names_of(figures);
    names.insert(names.end(), others.begin(), others.end());
    throw Error("a budget has no limit \"" + key.text + "\"" + did_you_mean(key.text, names))
        .at(key.mark)
        .help("the limits are " + joined(names));
  }

  static void read_fits(const YamlNode& node, Check& check) {
    const auto add = [&](const YamlNode& gpu) {
      const std::string& text = text_of(gpu, "a GPU");
      for (const FitsOn& other : check.fits)
        if (other.gpu == text) throw Error(text + " appears twice").at(gpu.mark);
      check.fits.push_back({.gpu = text, .mark = gpu.mark});
    };
    if (node.kind == YamlNode::Kind::scalar) return add(node);
    expect_list(node, "fits");
    if (node.children.empty()) throw Error("fits: names no GPU").at(node.mark).label("such as [t4, l4]");
    for (const YamlNode* gpu : node.children) add(*gpu);
  }

  static void read_modules(const YamlNode& node, Check& check) {
    expect_map(node, "modules");
    for (std::size_t i = 0; i < node.children.size(); i += 2) {
      const YamlNode &pattern = *node.children[i], &limits = *node.children[i + 1];
      ModuleBudget& module = check.modules.emplace_back();
      module.pattern = pattern.text;
      module.mark = pattern.mark;
      expect_map(limits, "a module's budget");
      if (limits.children.empty()) throw Error("no limit for " + pattern.text).at(limits.mark);
      for (std::size_t k = 0; k < limits.children.size(); k += 2)
        module.limits.push_back(
            read_threshold(*limits.children[k + 1], figure_of(*limits.children[k], figures_of_module(), {})));
    }
  }

  bool is_run_key(const std::string& key) const { return run_keys_.contains(with_dashes(key)); }

  std::string first_name(const std::string& key) const {
    const auto at = run_keys_.find(with_dashes(key));
    return at == run_keys_.end() ? key : at->second;
  }

  [[noreturn]] void refuse(const YamlNode& key, std::string_view what, bool whole) const {
    std::vector<std::string> known(kShared.begin(), kShared.end());
    if (whole) known.insert(known.end(), kOfCheck.begin(), kOfCheck.end());
    std::string list = joined(known);
    for (const auto& [word, first] : run_keys_) {
      list += ", " + word;
      known.push_back(word);
      std::ranges::replace(known.back(), '-', '_');
    }
    throw Error("unknown key \"" + key.text + "\" in " + std::string(what) + did_you_mean(key.text, known))
        .at(key.mark)
        .help(std::string(what) + " has the keys " + list);
  }

  Setting setting(const YamlNode& key, const YamlNode& value) const {
    return {.key = first_name(key.text),
            .written = key.text,
            .text = text_of(value, key.text),
            .key_mark = key.mark,
            .mark = value.mark,
            .by_default = false};
  }

  const RunKeys& run_keys_;
  std::vector<MatrixAxis> axes_;  // of the check that is being read
  std::size_t first_ = 0;         // of its settings: where the map that is being read begins
  SourceMark reason_mark_;
  std::unordered_map<std::string, int> names_;  // with their lines
};

}  // namespace

Budget read_budget(std::shared_ptr<const Source> source, const RunKeys& run_keys) {
  YamlArena arena;
  const YamlNode& root = parse_yaml(
      *source, arena, {.name = "a budget file", .help = "it begins with gpuplan: 1, then defaults: and checks:"});
  Budget budget = BudgetReader(run_keys).read(root);
  budget.source = std::move(source);
  return budget;
}

}  // namespace gpuplan
