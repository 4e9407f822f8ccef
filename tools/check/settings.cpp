#include "tools/check/settings.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <sstream>
#include <utility>

#include "tools/options/swept_flags.h"
#include "tools/process/read_source.h"

namespace gpuplan {
namespace {

// Flags that are given or not; the first two may have a number too.
constexpr std::string_view kSwitches[] = {"clip-grad-norm", "weight-decay", "optimizer-in-backward", "labels"};
constexpr std::string_view kWords[] = {"offload", "host-copy", "input", "arg"};
// Of data parallelism, which leaves the model as it is. Files that say more (--deepspeed) are not read by a check.
constexpr std::pair<std::string_view, std::string SeveralGpusOptions::*> kOfGpus[] = {
    {"gpus", &SeveralGpusOptions::gpus},
    {"zero", &SeveralGpusOptions::zero},
    {"fsdp", &SeveralGpusOptions::fsdp},
    {"ep", &SeveralGpusOptions::experts},
    {"routing", &SeveralGpusOptions::routing},
    {"rank", &SeveralGpusOptions::rank},
    {"gpus-per-node", &SeveralGpusOptions::gpus_per_node},
    {"network", &SeveralGpusOptions::network},
    {"link", &SeveralGpusOptions::link}};

bool is_of_gpus(const Setting& setting) {
  return std::ranges::find(kOfGpus, setting.key, [](const auto& k) { return k.first; }) != std::end(kOfGpus);
}

std::string switched(const Setting& setting) {
  if (setting.text == "true" || setting.text == "True") return "true";
  if (setting.text == "false" || setting.text == "False") return "";
  if (setting.key == "clip-grad-norm" || setting.key == "weight-decay") return setting.text;
  throw Error(setting.key + " is true or false, not \"" + setting.text + "\"").at(setting.mark);
}

// Several --input are one text: input: input_ids:int64:512 labels=input_ids.
std::vector<std::string> words_in(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

std::string joined_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

void apply(const Setting& setting, RunOptions& options) {
  if (setting.key == "clip-grad-norm")
    options.clip = switched(setting);
  else if (setting.key == "weight-decay")
    options.weight_decay = switched(setting);
  else if (setting.key == "optimizer-in-backward")
    options.optimizer_in_backward = !switched(setting).empty();
  else if (setting.key == "labels")
    options.labels = !switched(setting).empty();
  else if (setting.key == "offload")
    options.offload = setting.text;
  else if (setting.key == "host-copy")
    options.host_copy = setting.text;
  else if (setting.key == "input")
    options.inputs = words_in(setting.text);
  else if (setting.key == "arg")
    options.arguments = words_in(setting.text);
  else
    set_flag(options, setting.key, setting.text);
}

void add_given(std::vector<Setting>& settings, const std::string& key, const std::string& text) {
  if (!text.empty())
    settings.push_back({.key = key, .written = key, .text = text, .key_mark = {}, .mark = {}, .by_default = false});
}

// The flag that a message is about: "--batch expects ...".
const Setting* setting_of(const std::string& message, const Check& check) {
  for (auto s = check.settings.rbegin(); s != check.settings.rend(); ++s) {
    const std::size_t at = message.find("--" + s->key);
    const std::size_t end = at + 2 + s->key.size();
    if (at != std::string::npos && (end == message.size() || message[end] == ' ' || message[end] == ':')) return &*s;
  }
  return nullptr;
}

// What a flag's text is refused for, where gpuplan.yaml has it.
template <class Read>
auto at_setting(const Check& check, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(error).at(mark_of(error, check, check.mark));
  }
}

}  // namespace

SourceMark mark_of(const Error& error, const Check& check, const SourceMark& otherwise) {
  const Setting* const setting = setting_of(error.message(), check);
  return setting != nullptr ? setting->mark : otherwise;
}

RunKeys run_keys() {
  RunKeys keys;
  for (const std::string& name : swept_run_names()) keys.emplace(name, first_flag_name(name));
  for (const std::string_view name : kSwitches) keys.emplace(name, name);
  for (const std::string_view name : kWords) keys.emplace(name, name);
  for (const auto& [name, value] : kOfGpus) keys.emplace(name, name);
  return keys;
}

RunOptions options_of(const Check& check) {
  RunOptions options;
  for (const Setting& setting : check.settings)
    if (!is_of_gpus(setting)) apply(setting, options);
  return options;
}

std::vector<Setting> settings_of(const RunOptions& options) {
  std::vector<Setting> settings;
  const auto add = [&](const std::string& key, const std::string& text) { add_given(settings, key, text); };
  for (const auto& [name, value] : given_flags(options)) add(name, value);
  for (const std::string& text : options.set) {
    const Variable v = read_variable(text);
    add("set." + v.name, std::to_string(v.value));
  }
  add("clip-grad-norm", options.clip);
  add("weight-decay", options.weight_decay);
  add("optimizer-in-backward", options.optimizer_in_backward ? "true" : "");
  add("labels", options.labels ? "true" : "");
  add("offload", options.offload);
  add("host-copy", options.host_copy);
  add("input", joined_words(options.inputs));
  add("arg", joined_words(options.arguments));
  return settings;
}

std::vector<Setting> settings_of(const SeveralGpusOptions& several) {
  std::vector<Setting> settings;
  for (const auto& [name, value] : kOfGpus) add_given(settings, std::string(name), several.*value);
  return settings;
}

RunConfig run_of(const Check& check, const RunOptions& options) {
  return at_setting(check, [&] { return run_config(options); });
}

const Setting* setting_of_gpus(const Check& check) {
  const auto found = std::ranges::find_if(check.settings, is_of_gpus);
  return found == check.settings.end() ? nullptr : &*found;
}

SeveralGpusOptions several_of(const Check& check) {
  SeveralGpusOptions options;
  for (const Setting& setting : check.settings)
    for (const auto& [name, value] : kOfGpus)
      if (setting.key == name) {
        if (setting.text.empty()) throw Error(setting.written + ": expects a value").at(setting.mark);
        options.*value = setting.text;
      }
  return options;
}

std::optional<Strategy> strategy_of(const Check& check) {
  return at_setting(check, [&] {
    const SeveralGpusOptions options = several_of(check);
    if (asks_for_every_rank(options)) throw Error("--rank expects one rank; without it the plan is the worst one's");
    std::optional<Strategy> strategy = strategy_of(options);
    if (strategy && strategy->flat) throw Error("--fsdp version=1 is for gpuplan plan: a check plans FSDP2");
    return strategy;
  });
}

Topology topology_of(const Check& check, const std::optional<Gpu>& gpu) {
  return at_setting(check, [&] { return topology_of(several_of(check), gpu); });
}

}  // namespace gpuplan
