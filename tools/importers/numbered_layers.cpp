#include "tools/importers/numbered_layers.h"

#include <algorithm>
#include <stdexcept>

namespace gpuplan {

namespace {

const std::vector<std::string> kAttention{"full_attention", "sliding_attention"};

// Layer `full` and every `step`th after it attend to all tokens, the others to a window.
std::vector<std::string> with_windows(std::size_t layers, std::size_t step, std::size_t full) {
  std::vector<std::string> kinds(layers, kAttention[1]);
  for (std::size_t i = full; i < layers; i += step) kinds[i] = kAttention[0];
  return kinds;
}

}  // namespace

std::vector<std::string> layer_types(const Config& config, std::vector<std::string> otherwise) {
  const JsonValue* const types = config.find("layer_types");
  if (types == nullptr) return otherwise;
  if (types->kind != JsonValue::Kind::array || types->items.size() != otherwise.size())
    throw config.wrong("layer_types", "\"layer_types\" is a list of " + std::to_string(otherwise.size()) +
                                          " words, one for each of num_hidden_layers");
  std::vector<std::string> words;
  for (const JsonValue& type : types->items) {
    if (std::find(kAttention.begin(), kAttention.end(), type.text) == kAttention.end())
      throw Error("layers of the type \"" + type.text + "\" are not modelled")
          .at(type.mark)
          .help("those that are: full_attention, sliding_attention");
    words.push_back(type.text);
  }
  return words;
}

namespace {

std::vector<std::int64_t> whole_numbers(const Config& config, const std::string& key) {
  const JsonValue* const list = config.find(key);
  std::vector<std::int64_t> numbers;
  if (list == nullptr || list->kind == JsonValue::Kind::null) return numbers;
  const auto is_whole = [](const JsonValue& n) {
    return n.kind == JsonValue::Kind::number && n.text.size() < 10 &&
           std::ranges::all_of(n.text, [](unsigned char c) { return c >= '0' && c <= '9'; });
  };
  if (list->kind != JsonValue::Kind::array || !std::ranges::all_of(list->items, is_whole))
    throw config.wrong(key, "\"" + key + "\" is a list of whole numbers");
  for (const JsonValue& n : list->items) numbers.push_back(std::stoll(n.text));
  return numbers;
}

// Experts in every interleave_moe_layer_step-th layer, or as moe_layers has them; attention to all tokens, without
// rotary positions, in every no_rope_layer_interval-th, or where no_rope_layers is 0.
std::vector<std::string> kinds_of_llama4(const Config& config, std::size_t layers) {
  std::vector<std::int64_t> experts = whole_numbers(config, "moe_layers"),
                            rotary = whole_numbers(config, "no_rope_layers");
  const auto step = static_cast<std::size_t>(config.size("interleave_moe_layer_step", 1));
  const auto interval = static_cast<std::size_t>(config.size("no_rope_layer_interval", 4));
  if (config.find("moe_layers") == nullptr || config.find("moe_layers")->kind == JsonValue::Kind::null)
    for (std::size_t i = step - 1; i < layers; i += step) experts.push_back(static_cast<std::int64_t>(i));
  if (rotary.empty())
    for (std::size_t i = 0; i < layers; ++i) rotary.push_back((i + 1) % interval == 0 ? 0 : 1);
  if (rotary.size() != layers)
    throw config.wrong("no_rope_layers", "\"no_rope_layers\" is a list of " + std::to_string(layers) +
                                             " numbers, one for each of num_hidden_layers");
  std::vector<std::string> kinds;
  for (std::size_t i = 0; i < layers; ++i) {
    const bool routed = std::ranges::find(experts, static_cast<std::int64_t>(i)) != experts.end();
    kinds.push_back((routed ? "experts" : "dense") + std::string(rotary[i] != 0 ? "" : "_everywhere"));
  }
  const JsonValue* const types = config.find("layer_types");
  if (types == nullptr || types->kind == JsonValue::Kind::null) return kinds;
  std::vector<std::string> expected;
  for (const std::int64_t turned : rotary) expected.emplace_back(turned != 0 ? "chunked_attention" : "full_attention");
  if (!std::ranges::equal(types->items, expected, {}, &JsonValue::text))
    throw config.wrong("layer_types",
                       "\"layer_types\" is not modelled other than chunked_attention where a layer has "
                       "rotary positions, and full_attention where it has none");
  return kinds;
}

}  // namespace

// transformers/models/*/configuration_*.py
std::vector<std::string> kinds_of_layers(const Config& config, std::string_view family,
                                         const std::map<std::string, std::int64_t, std::less<>>& sizes) {
  const std::int64_t count = sizes.find("layers")->second;
  if (count > kMostLayers)
    throw config.wrong("num_hidden_layers", "more than " + std::to_string(kMostLayers) + " layers of several kinds");
  const auto layers = static_cast<std::size_t>(count);
  if (family == "deepseek_v3") {
    const auto dense = static_cast<std::size_t>(config.count("first_k_dense_replace", 3));
    std::vector<std::string> kinds(layers, "experts");
    std::fill_n(kinds.begin(), std::min(dense, layers), "dense");
    return kinds;
  }
  if (family == "gpt_oss") return layer_types(config, with_windows(layers, 2, 1));
  if (family == "modernbert") {
    const auto step = static_cast<std::size_t>(config.size("global_attn_every_n_layers", 3));
    std::vector<std::string> kinds = layer_types(config, with_windows(layers, step, 0));
    if (kinds[0] != kAttention[0])
      throw config.wrong("layer_types", "a first layer with a window is not modelled")
          .help("transformers plans it: gpuplan hf:FOLDER");
    kinds[0] = "first";  // which has no norm before its attention
    return kinds;
  }
  if (family == "llama4_text") return kinds_of_llama4(config, layers);
  throw std::logic_error("a template with layers of several kinds: " + std::string(family));
}

std::string with_numbered_layers(std::string text, const std::string& stem, const std::vector<std::string>& kinds,
                                 const std::map<std::string, std::string>& lines) {
  const auto replace_in = [](std::string& where, std::string_view from, std::string_view to) {
    for (std::size_t at = where.find(from); at != std::string::npos; at = where.find(from, at + to.size()))
      where.replace(at, from.size(), to);
  };
  const std::string mark = "@" + stem, entries = mark + " after ";
  const std::size_t at = text.find("\n" + entries) + 1, end = text.find('\n', at);
  std::string previous = text.substr(at + entries.size(), end - at - entries.size()), written, names;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const auto line = lines.find(kinds[i]);
    if (line == lines.end()) throw std::logic_error("a template without lines of a layer: " + kinds[i]);
    std::string entry = line->second;
    replace_in(entry, "{i}", std::to_string(i));
    replace_in(entry, "{previous}", previous);
    written += (i == 0 ? "" : "\n") + entry;
    previous = stem + "." + std::to_string(i);
    names += (i == 0 ? "" : ", ") + previous;
  }
  text.replace(at, end - at, written);
  replace_in(text, stem + ".{last}", previous);
  replace_in(text, mark, names);
  return text;
}

}  // namespace gpuplan
