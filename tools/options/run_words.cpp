#include "tools/options/run_words.h"

#include "tools/options/swept_flags.h"

namespace gpuplan {

std::vector<std::string> run_words(const RunOptions& options) {
  std::vector<std::string> words;
  const auto add = [&](const std::string& flag, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {"--" + flag, value});
  };
  for (const auto& [name, value] : given_flags(options))
    if (name != "batch" && name != "gpu") add(name, value);
  add("offload", options.offload);
  for (const std::string& text : options.set) add("set", text);
  for (const std::string& text : options.inputs) add("input", text);
  for (const std::string& text : options.arguments) add("arg", text);
  if (!options.weight_decay.empty()) words.push_back("--weight-decay=" + options.weight_decay);
  if (!options.clip.empty()) words.push_back("--clip-grad-norm=" + options.clip);
  if (options.optimizer_in_backward) words.emplace_back("--optimizer-in-backward");
  if (options.labels) words.emplace_back("--labels");
  if (options.strict) words.emplace_back("--strict");
  return words;
}

}  // namespace gpuplan
