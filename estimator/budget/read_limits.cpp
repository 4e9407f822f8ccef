#include "estimator/budget/read_limits.h"

#include <algorithm>

#include "estimator/spec/keys.h"

namespace gpuplan {
namespace {

constexpr std::array<AmountUnit, 2> kPercent = {{{"%", 100}, {" %", 100}}};
constexpr std::array<AmountUnit, 1> kBarePercent = {{{"", 100}}};
constexpr std::int64_t kWhole = 10'000;  // 100 %

std::string unit_names(Unit unit) {
  std::string names;
  for (const AmountUnit& u : units_of(unit))
    if (!u.name.empty()) names += (names.empty() ? "" : ", ") + std::string(u.name);
  return names;
}

// Throws Error at the node where reading its text does.
std::optional<std::int64_t> amount_of(const YamlNode& node, std::span<const AmountUnit> units) {
  try {
    return read_amount(node.text, units);
  } catch (const Error& error) {
    throw Error(error.message()).at(node.mark);
  }
}

Limit read_limit(const YamlNode& node, Unit unit, const std::string& what) {
  const std::string& text = text_of(node, what);
  const std::optional<std::int64_t> amount = amount_of(node, units_of(unit));
  const bool bare = !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos;
  if (!amount && bare)
    throw Error(what + " is an amount with its unit, and " + text + " has none")
        .at(node.mark)
        .label("such as " + text + std::string(example_of(unit).substr(example_of(unit).find(' '))))
        .help("the units: " + unit_names(unit));
  if (!amount)
    throw Error(what + " is an amount such as " + std::string(example_of(unit)) + ", not " + describe(node))
        .at(node.mark)
        .help("the units: " + unit_names(unit));
  if (*amount <= 0) throw Error(what + " must be above 0").at(node.mark).label("expected more than 0");
  return {.amount = *amount, .text = text, .mark = node.mark};
}

// An amount, or a share of the limit above it.
Limit read_warning(const YamlNode& node, const Threshold& threshold, const std::string& what) {
  const std::string& text = text_of(node, what);
  if (!text.ends_with('%')) return read_limit(node, unit_of(threshold.figure), what);
  const std::int64_t share = read_percent(node, what, false);
  if (!threshold.max) throw Error("a share of max:, which is not given").at(node.mark);
  if (share > kWhole)
    throw Error("a warning level above the limit never triggers").at(node.mark).label("expected at most 100%");
  return {.amount = share_of(threshold.max->amount, share), .text = text, .mark = node.mark};
}

GrowthBound read_growth_limit(const YamlNode& node, Figure figure) {
  GrowthBound limit;
  limit.mark = node.mark;
  if (node.kind == YamlNode::Kind::scalar) {
    if (node.text.ends_with('%'))
      limit.hundredths = read_percent(node, "growth", false);
    else
      limit.amount = read_limit(node, unit_of(figure), "growth").amount;
    return limit;
  }
  expect_map(node, "a growth limit");
  const bool bytes = unit_of(figure) == Unit::bytes;
  if (bytes)
    expect_keys(node, "a growth limit", {"percent", "bytes", "by"});
  else
    expect_keys(node, "a growth limit", {"percent", "by"});
  if (const YamlNode* percent = node.find("percent")) limit.hundredths = read_percent(*percent, "percent", true);
  const YamlNode *by = node.find("by"), *as_bytes = bytes ? node.find("bytes") : nullptr;
  if (by != nullptr && as_bytes != nullptr) throw Error("by: and bytes: are the same").at(as_bytes->mark);
  if (by == nullptr) by = as_bytes;
  if (by != nullptr) limit.amount = read_limit(*by, unit_of(figure), "growth").amount;
  if (!limit.hundredths && !limit.amount)
    throw Error("a growth limit without a percent or an amount").at(node.mark).label("such as {percent: 5}");
  return limit;
}

Growth read_figure_growth(const YamlNode& node, Figure figure) {
  Growth growth{.figure = figure, .fail = {}, .warn = {}};
  const bool parts = node.kind == YamlNode::Kind::map && (node.find("fail") != nullptr || node.find("warn") != nullptr);
  if (!parts) {
    growth.fail = read_growth_limit(node, figure);
    return growth;
  }
  expect_keys(node, "growth", {"fail", "warn"});
  if (const YamlNode* fail = node.find("fail")) growth.fail = read_growth_limit(*fail, figure);
  if (const YamlNode* warn = node.find("warn")) growth.warn = read_growth_limit(*warn, figure);
  return growth;
}

}  // namespace

const std::string& text_of(const YamlNode& node, std::string_view what) {
  if (node.kind != YamlNode::Kind::scalar)
    throw Error(std::string(what) + " must be text, not " + describe(node)).at(node.mark);
  return node.text;
}

std::int64_t read_percent(const YamlNode& node, std::string_view what, bool bare) {
  const std::string& text = text_of(node, what);
  std::optional<std::int64_t> hundredths = amount_of(node, kPercent);
  if (!hundredths && bare) hundredths = amount_of(node, kBarePercent);
  constexpr std::int64_t kMost = 1'000'000 * kWhole;
  if (!hundredths || *hundredths > kMost || (text == "0" && !bare))
    throw Error(std::string(what) + " must be a percentage such as 5%, not " + describe(node)).at(node.mark);
  return *hundredths;
}

Level read_level(const YamlNode& node, std::string_view what) {
  const std::string& text = text_of(node, what);
  if (text == "off") return Level::off;
  if (text == "warn") return Level::warn;
  if (text == "error") return Level::error;
  throw Error(std::string(what) + " must be error, warn or off, not " + describe(node) +
              did_you_mean(text, {"error", "warn", "off"}))
      .at(node.mark);
}

Threshold read_threshold(const YamlNode& node, Figure figure) {
  const std::string name(name_of(figure));
  Threshold threshold;
  threshold.figure = figure;
  if (node.kind != YamlNode::Kind::map) {
    threshold.max = read_limit(node, unit_of(figure), name);
    return threshold;
  }
  expect_keys(node, name, {"max", "min", "warn", "level"});
  if (const YamlNode* max = node.find("max")) threshold.max = read_limit(*max, unit_of(figure), name + "'s max");
  if (const YamlNode* min = node.find("min")) threshold.min = read_limit(*min, unit_of(figure), name + "'s min");
  if (const YamlNode* warn = node.find("warn")) threshold.warn = read_warning(*warn, threshold, name + "'s warn");
  if (const YamlNode* level = node.find("level")) threshold.level = read_level(*level, name + "'s level");
  if (!threshold.max && !threshold.min && !threshold.warn)
    throw Error(name + " has no limit").at(node.mark).label("expected max:, min: or warn:");
  const auto above = [](const std::optional<Limit>& a, const std::optional<Limit>& b) {
    return a && b && a->amount > b->amount;
  };
  if (above(threshold.min, threshold.max)) throw Error("min is above max").at(threshold.min->mark);
  if (above(threshold.warn, threshold.max)) throw Error("warn is above max").at(threshold.warn->mark);
  return threshold;
}

std::vector<Growth> read_growth(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::scalar) return {read_figure_growth(node, Figure::peak)};
  expect_map(node, "growth");
  std::vector<Growth> list;
  for (std::size_t i = 0; i < node.children.size(); i += 2) {
    const YamlNode& key = *node.children[i];
    const std::optional<Figure> figure = figure_named(key.text, figures_of_step());
    if (!figure)
      throw Error("growth of \"" + key.text + "\", which is not a figure" +
                  did_you_mean(key.text, names_of(figures_of_step())))
          .at(key.mark);
    list.push_back(read_figure_growth(*node.children[i + 1], *figure));
  }
  return list;
}

std::optional<Figure> figure_named(std::string_view name, std::span<const Figure> figures) {
  const auto at = std::ranges::find(figures, name, [](Figure f) { return name_of(f); });
  return at == figures.end() ? std::nullopt : std::optional(*at);
}

std::vector<std::string> names_of(std::span<const Figure> figures) {
  std::vector<std::string> names;
  for (const Figure f : figures) names.emplace_back(name_of(f));
  return names;
}

}  // namespace gpuplan
