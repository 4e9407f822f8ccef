#include "tools/options/lora_options.h"

#include <algorithm>
#include <charconv>

#include "estimator/base/list_text.h"
#include "tools/options/words.h"

namespace gpuplan {
namespace {

constexpr const char* kExample = "--lora r=16,alpha=32,dropout=0.05,targets=q_proj+v_proj";

[[noreturn]] void refuse_lora(const std::string& reason) {
  Error error("--lora: " + reason, ErrorKind::usage);
  error.help(std::string("for example ") + kExample + "; gpuplan explain lora");
  throw error;
}

double number(std::string_view key, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || !(value >= 0 && value < 1e9))
    refuse_lora(std::string(key) + " expects a number, not \"" + text + "\"");
  return value;
}

std::vector<std::string> targets_of(const std::string& text) {
  std::vector<std::string> targets;
  for (const std::string_view target : split(text, '+')) {
    const auto belongs = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
             std::string_view("_.*?-").find(c) != std::string_view::npos;
    };
    if (target.empty() || !std::ranges::all_of(target, belongs))
      refuse_lora("\"" + std::string(target) +
                  "\" cannot be a module's name: letters, digits, underscores and dots; * and ? "
                  "stand for any, + is between two");
    if (std::ranges::find(targets, target) != targets.end())
      refuse_lora("\"" + std::string(target) + "\" is named twice");
    targets.emplace_back(target);
  }
  return targets;
}

// Ends of paths, which no pattern is.
std::vector<std::string> names_of(const std::string& text) {
  std::vector<std::string> names = targets_of(text);
  for (const std::string& name : names)
    if (name.find_first_of("*?") != std::string::npos || name == kAllLinear)
      refuse_lora("save expects names of modules, not \"" + name + "\"");
  return names;
}

}  // namespace

Lora lora_of_flag(const std::string& text) {
  constexpr std::int64_t kMostRanks = 1'000'000;
  Lora lora;
  lora.targets = {std::string(kAllLinear)};
  const std::vector<std::string> keys = {"r", "rank", "alpha", "dropout", "targets", "save", "dora", "rslora"};
  std::vector<std::string> seen;
  for (const std::string_view pair : split(text, ',')) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) refuse_lora("\"" + std::string(pair) + "\" is not KEY=VALUE");
    std::string key(pair.substr(0, equals));
    const std::string value(pair.substr(equals + 1));
    if (key == "modules_to_save") key = "save";
    if (key == "use_dora" || key == "use_rslora") key = key.substr(4);
    if (key == "lora_alpha" || key == "lora_dropout" || key == "target_modules")
      key = key == "target_modules" ? "targets" : key.substr(5);
    if (std::ranges::find(keys, key) == keys.end())
      refuse_lora("unknown key \"" + key + "\"" + did_you_mean(key, keys));
    if (key == "rank") key = "r";
    if (std::ranges::find(seen, key) != seen.end()) refuse_lora(key + " is given twice");
    if (key == "r") lora.rank = whole_number("--lora r", value, 1, kMostRanks);
    if (key == "alpha") lora.alpha = number("alpha", value);
    if (key == "dropout") lora.dropout = number("dropout", value);
    if (key == "targets") lora.targets = targets_of(value);
    if (key == "save") lora.saved = names_of(value);
    // rslora: alpha / sqrt(r) instead of alpha / r: no byte differs.
    if ((key == "rslora" || key == "dora") && value != "true" && value != "True" && value != "false" &&
        value != "False")
      refuse_lora(key + " expects true or false, not \"" + value + "\"");
    if (key == "dora") lora.dora = value == "true" || value == "True";
    seen.push_back(std::move(key));
  }
  if (!(lora.dropout < 1)) refuse_lora("dropout is a probability: 0 to below 1");
  return lora;
}

}  // namespace gpuplan
