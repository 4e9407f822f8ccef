#include "tools/importers/windows.h"

#include <algorithm>
#include <vector>

namespace gpuplan {

namespace {

// Of each layer whether it has a window, as __post_init__ of the configuration fills in layer_types.
std::vector<bool> windowed_layers(const Config& config, std::int64_t layers, bool has_window) {
  std::vector<bool> windowed;
  const JsonValue* const types = config.find("layer_types");
  if (types == nullptr) {
    const std::int64_t first = has_window ? config.count("max_window_layers", 28) : layers;
    for (std::int64_t i = 0; i < layers; ++i) windowed.push_back(i >= first);
    return windowed;
  }
  if (types->kind != JsonValue::Kind::array || static_cast<std::int64_t>(types->items.size()) != layers)
    throw config.wrong("layer_types", "\"layer_types\" is a list of " + std::to_string(layers) +
                                          " words, one for each of num_hidden_layers");
  for (const JsonValue& type : types->items) {
    if (type.text != "full_attention" && type.text != "sliding_attention")
      throw Error("layers of the type \"" + type.text + "\" are not modelled")
          .at(type.mark)
          .help("those that are: full_attention, sliding_attention");
    windowed.push_back(type.text == "sliding_attention");
    if (windowed.back() && !has_window)
      throw Error("a layer has a window, and the model has none").at(type.mark).help("use_sliding_window says so");
  }
  return windowed;
}

// "layers" of a list of names that decides the order of construction.
std::string names_of_layers(std::size_t count) {
  std::string names;
  for (std::size_t i = 0; i < count; ++i) names += (i == 0 ? "layers." : ", layers.") + std::to_string(i);
  return names;
}

}  // namespace

void set_windows(const Config& config, std::int64_t layers, SpecText& spec) {
  constexpr std::int64_t kMostLayers = 1000;  // each is written down
  const bool has_window = config.flag("use_sliding_window", false) &&
                          (config.find("sliding_window") != nullptr || !config.has_null("sliding_window"));
  if (layers > kMostLayers && (has_window || config.find("layer_types") != nullptr))
    throw config.wrong("num_hidden_layers", "\"num_hidden_layers\" is above 1000");
  const std::vector<bool> windowed =
      layers > kMostLayers ? std::vector<bool>{} : windowed_layers(config, layers, has_window);
  if (std::ranges::find(windowed, true) == windowed.end()) return;
  spec.set("window", config.size("sliding_window", 4096), "sliding_window, of the layers that have one");
  const std::string mask =
      "      - {name: causal_mask, op: \"CausalMask(packed=${packed == 1})\", from: [embed_tokens, position_ids], "
      "keep: true}\n";
  spec.replace(mask, mask +
                         "      - name: window_mask\n        op: CausalMask(packed=${packed == 1}, "
                         "sliding_window=$window)\n        from: [embed_tokens, position_ids]\n        keep: true\n");
  const std::string given = ", rotary_emb.0, rotary_emb.1, position_ids]";
  if (std::ranges::find(windowed, false) == windowed.end())
    return spec.replace("from: [embed_tokens, causal_mask" + given, "from: [embed_tokens, window_mask" + given);
  const std::string block = spec.section("name") == "name: qwen3\n" ? "Qwen3DecoderLayer" : "Qwen2DecoderLayer";
  std::string entries;
  for (std::size_t i = 0; i < windowed.size(); ++i)
    entries += "      - {name: layers." + std::to_string(i) + ", block: " + block + ", from: [" +
               (i == 0 ? "embed_tokens" : "layers." + std::to_string(i - 1)) +
               (windowed[i] ? ", window_mask" : ", causal_mask") + given + "}\n";
  spec.replace("      - name: layers\n        block: " + block +
                   "\n        repeat: $layers\n        loop: true\n        from: [embed_tokens, causal_mask" + given +
                   "\n",
               entries);
  spec.replace("order: [embed_tokens, layers, norm, rotary_emb]",
               "order: [embed_tokens, " + names_of_layers(windowed.size()) + ", norm, rotary_emb]");
  spec.remove_variable("layers");
}

}  // namespace gpuplan
