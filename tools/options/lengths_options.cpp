#include "tools/options/lengths_options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <string_view>

#include "estimator/base/list_text.h"
#include "estimator/device/read_number.h"
#include "estimator/search/batch_lengths.h"
#include "tools/options/words.h"
#include "tools/process/read_source.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMostSteps = 100'000, kMostTokens = 10'000'000, kMostSamples = 10'000'000;
constexpr std::string_view kLognormal = "lognormal:";
constexpr const char* kLengthsExample =
    "--seq-lengths lognormal:mean=600,max=4096, or a file with a length on each line";

[[noreturn]] void refuse_lengths(const std::string& reason) {
  throw Error("--seq-lengths: " + reason, ErrorKind::usage).help(kLengthsExample);
}

double sigma_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || !(value >= 0 && value <= 10))
    refuse_lengths("sigma expects a number from 0 to 10, not \"" + text + "\"");
  return value;
}

LognormalLengths lognormal(std::string_view text) {
  const std::vector<std::string> keys = {"mean", "max", "min", "sigma", "seed"};
  LognormalLengths from;
  std::vector<std::string> seen;
  for (const std::string_view pair : split(text, ',')) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) refuse_lengths("\"" + std::string(pair) + "\" is not KEY=VALUE");
    const std::string key(pair.substr(0, equals)), value(pair.substr(equals + 1));
    if (std::ranges::find(keys, key) == keys.end())
      refuse_lengths("unknown key \"" + key + "\"" + did_you_mean(key, keys));
    if (std::ranges::find(seen, key) != seen.end()) refuse_lengths(key + " is given twice");
    seen.push_back(key);
    if (key == "sigma") {
      from.sigma = sigma_of(value);
      continue;
    }
    const std::string flag = "--seq-lengths " + key;
    if (key == "seed") {
      from.seed = static_cast<std::uint64_t>(whole_number(flag, value, 0, INT64_MAX));
      continue;
    }
    (key == "mean" ? from.mean : key == "max" ? from.most : from.least) = whole_number(flag, value, 1, kMostTokens);
  }
  if (from.mean == 0 || from.most == 0) refuse_lengths("lognormal needs mean and max");
  if (from.least > from.most) refuse_lengths("min is larger than max");
  return from;
}

// What is drawn from, for the first screen: the spread and the seed, too, where they are not said.
std::string with_defaults(std::string text) {
  if (text.find("sigma=") == std::string::npos) text += ",sigma=0.8";
  if (text.find("seed=") == std::string::npos) text += ",seed=0";
  return text;
}

bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

// Numbers apart by blanks, commas or line ends.
std::vector<std::int64_t> read_lengths(const Source& source) {
  std::vector<std::int64_t> lengths;
  const std::string& text = source.text;
  int line = 1;
  std::size_t start = 0;  // of the line
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '\n') {
      ++line;
      start = ++i;
      continue;
    }
    if (is_blank(text[i]) || text[i] == ',') {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && !is_blank(text[end]) && text[end] != ',') ++end;
    const std::optional<std::int64_t> number = decimal(std::string_view(text).substr(i, end - i));
    if (!number || *number < 1 || *number > kMostTokens)
      throw Error("a sample's length is a whole number from 1 to " + std::to_string(kMostTokens))
          .at({&source, line, static_cast<int>(i - start) + 1, static_cast<int>(end - i)})
          .label("tokens");
    lengths.push_back(*number);
    i = end;
  }
  if (lengths.empty()) throw Error(source.name + " has no lengths").help(kLengthsExample);
  return lengths;
}

}  // namespace

SampleLengths sample_lengths(const LengthsOptions& options, std::int64_t batch) {
  std::optional<std::int64_t> steps;
  if (!options.steps.empty()) steps = whole_number("--steps", options.steps, 1, kMostSteps);
  if (std::string_view(options.lengths).starts_with(kLognormal)) {
    const LognormalLengths from = lognormal(std::string_view(options.lengths).substr(kLognormal.size()));
    const std::int64_t count = steps.value_or(200);
    if (batch > kMostSamples / count)
      refuse_lengths(std::to_string(count) + " steps of " + std::to_string(batch) + " samples are more than " +
                     std::to_string(kMostSamples) + " samples");
    return {with_defaults(options.lengths), draw_lengths(from, count * batch)};
  }
  if (options.lengths.find('=') != std::string::npos && !exists(options.lengths))
    refuse_lengths("unknown distribution \"" + options.lengths + "\"");
  const std::shared_ptr<const Source> file = read_file_source(options.lengths);
  std::vector<std::int64_t> lengths = read_lengths(*file);
  const auto count = static_cast<std::int64_t>(lengths.size());
  if (steps && (*steps - 1) * batch >= count)
    throw Error("--steps " + options.steps + ": " + file->name + " has " + std::to_string(count) +
                    " samples, enough for " + std::to_string((count + batch - 1) / batch) + " steps",
                ErrorKind::usage);
  if (steps) lengths.resize(static_cast<std::size_t>(std::min(*steps * batch, count)));
  if ((static_cast<std::int64_t>(lengths.size()) - 1) / batch >= kMostSteps)
    throw Error(file->name + " has more samples than " + std::to_string(kMostSteps) + " steps take")
        .help("--steps N takes the first ones");
  return {file->name, std::move(lengths)};
}

}  // namespace gpuplan
