#include "tools/options/growth_limits.h"

#include <charconv>
#include <string_view>
#include <vector>

#include "estimator/base/integers.h"
#include "tools/options/words.h"

namespace gpuplan {

namespace {

struct UnitWord {
  std::string_view name;
  std::int64_t factor;
};

// What a number of a metric may be followed by; bytes have size_in_bytes().
std::vector<UnitWord> units_of(Metric metric) {
  constexpr std::int64_t kKilo = 1000, kMega = kKilo * kKilo, kGiga = kMega * kKilo;
  switch (metric) {
    case Metric::parameters: return {{"", 1}, {"K", kKilo}, {"M", kMega}, {"B", kGiga}};
    case Metric::step_flops:
      return {{"FLOP", 1},      {"kFLOP", kKilo},         {"MFLOP", kMega},
              {"GFLOP", kGiga}, {"TFLOP", kKilo * kGiga}, {"PFLOP", kMega * kGiga}};
    case Metric::step_time: return {{"us", kKilo}, {"ms", kMega}, {"s", kGiga}};
    default: return {};
  }
}

std::string example_of(Metric metric) {
  switch (metric) {
    case Metric::parameters: return "params +1M";
    case Metric::step_flops: return "flop +0.5 TFLOP";
    case Metric::step_time: return "seconds +2ms";
    default: return std::string(name_of(metric)) + " +512MiB";
  }
}

Error refuse(const std::string& text, const std::string& why, Metric metric) {
  return Error("--fail-on \"" + text + "\": " + why, ErrorKind::usage)
      .help("for example: --fail-on \"" + std::string(name_of(metric)) + " +5%\", or --fail-on \"" +
            example_of(metric) + "\"");
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// "0.5" times `factor`; nothing where it is no number, or no whole one then.
std::optional<std::int64_t> scaled(std::string_view number, std::int64_t factor) {
  const std::size_t point = number.find('.');
  std::string digits(number.substr(0, point));
  if (digits.empty()) return std::nullopt;
  if (point != std::string_view::npos) {
    const std::string_view fraction = number.substr(point + 1);
    if (fraction.empty()) return std::nullopt;
    for (std::size_t i = 0; i < fraction.size(); ++i) {
      if (factor % 10 != 0) return std::nullopt;
      factor /= 10;
    }
    digits += fraction;
  }
  for (const char c : digits)
    if (c < '0' || c > '9') return std::nullopt;
  std::int64_t value = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc()) return std::nullopt;
  return checked_mul(value, factor);
}

std::optional<std::int64_t> amount_in(Metric metric, std::string_view text) {
  if (metric == Metric::peak || metric == Metric::reserved || metric == Metric::device) return size_in_bytes(text);
  const std::size_t end = text.find_first_not_of("0123456789.");
  const std::string_view number = text.substr(0, end);
  const std::string_view unit = end == std::string_view::npos ? "" : trimmed(text.substr(end));
  for (const UnitWord& known : units_of(metric))
    if (known.name == unit) return scaled(number, known.factor);
  return std::nullopt;
}

}  // namespace

GrowthLimit read_growth_limit(const std::string& text) {
  const std::size_t end = text.find_first_of(" +");
  Choices<Metric> metrics;
  for (const Metric metric : kMetrics) metrics.emplace_back(std::string(name_of(metric)), metric);
  GrowthLimit limit;
  limit.text = text;
  limit.metric = choose<Metric>("--fail-on", text.substr(0, end), metrics);
  std::string_view rest = end == std::string::npos ? std::string_view() : trimmed(std::string_view(text).substr(end));
  if (!rest.starts_with('+')) throw refuse(text, "the allowed growth must begin with +", limit.metric);
  rest = trimmed(rest.substr(1));
  if (rest.ends_with('%')) {
    constexpr std::int64_t kPartsInPercent = 10'000;
    limit.parts_per_million = scaled(trimmed(rest.substr(0, rest.size() - 1)), kPartsInPercent);
  } else {
    limit.amount = amount_in(limit.metric, rest);
  }
  if (!limit.parts_per_million && !limit.amount)
    throw refuse(text, "\"" + std::string(rest) + "\" is neither a percentage nor an amount with a unit", limit.metric);
  return limit;
}

}  // namespace gpuplan
