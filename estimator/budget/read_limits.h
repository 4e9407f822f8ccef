// The parts of gpuplan.yaml that are limits: amounts, thresholds, growth.
#pragma once

#include <vector>

#include "estimator/budget/budget.h"
#include "estimator/spec/yaml.h"

namespace gpuplan {

/// The text of a scalar. Throws Error for anything else; `what` names it for messages.
const std::string& text_of(const YamlNode& node, std::string_view what);
/// "5%", "0.25 %", and 5 where `bare` numbers are percents too: hundredths of a percent.
std::int64_t read_percent(const YamlNode& node, std::string_view what, bool bare);
/// "off", "warn" or "error".
Level read_level(const YamlNode& node, std::string_view what);
/// `peak: 8 GiB` or `peak: {max: 8 GiB, min: 1 GiB, warn: 90%, level: warn}`.
Threshold read_threshold(const YamlNode& node, Figure figure);
/// `5%`, or `{peak: 5%, params: {fail: {percent: 5, by: 1 M}, warn: {percent: 1}}}`: the first is the peak's.
std::vector<Growth> read_growth(const YamlNode& node);
/// The figure of that name among `figures`; nothing where none is.
std::optional<Figure> figure_named(std::string_view name, std::span<const Figure> figures);
std::vector<std::string> names_of(std::span<const Figure> figures);

}  // namespace gpuplan
