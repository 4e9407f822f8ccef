#include "tools/importers/windows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tools/importers/numbered_layers.h"

namespace gpuplan {

namespace {

// Of each layer whether it has a window: `otherwise`, or as layer_types has it.
std::vector<bool> windowed_layers(const Config& config, std::vector<bool> otherwise, bool has_window) {
  const JsonValue* const types = config.find("layer_types");
  if (types == nullptr) return otherwise;
  const std::vector<std::string> words = layer_types(config, std::vector<std::string>(otherwise.size()));
  for (std::size_t i = 0; i < words.size(); ++i) {
    otherwise[i] = words[i] == "sliding_attention";
    if (otherwise[i] && !has_window)
      throw Error("a layer has a window, and the model has none")
          .at(types->items[i].mark)
          .help("use_sliding_window says so");
  }
  return otherwise;
}

struct Read {
  std::string mask, tables;
};
// An entry for each layer, which reads what its kind has.
std::string entries_of(const std::vector<bool>& windowed, const std::string& block, const Read& all,
                       const Read& window) {
  std::string entries;
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    const Read& own = windowed[i] ? window : all;
    entries += "      - {name: layers." + std::to_string(i) + ", block: " + block + ", from: [" +
               (i == 0 ? "embed_tokens" : "layers." + std::to_string(i - 1)) + ", " + own.mask + ", " + own.tables +
               ".0, " + own.tables + ".1, position_ids]}\n";
  }
  return entries;
}

// "layers" of a list of names that decides the order of construction.
std::string names_of_layers(std::size_t count) {
  std::string names;
  for (std::size_t i = 0; i < count; ++i) names += (i == 0 ? "layers." : ", layers.") + std::to_string(i);
  return names;
}

// Beside the mask that there is, one of `window` tokens.
void add_window_mask(SpecText& spec) {
  const std::string mask =
      "      - {name: causal_mask, op: \"CausalMask(packed=${packed == 1})\", from: [embed_tokens, position_ids], "
      "keep: true}\n";
  spec.replace(mask, mask +
                         "      - name: window_mask\n        op: CausalMask(packed=${packed == 1}, "
                         "sliding_window=$window)\n        from: [embed_tokens, position_ids]\n        keep: true\n");
}

bool is_mixed(const std::vector<bool>& windowed) {
  return std::ranges::find(windowed, true) != windowed.end() && std::ranges::find(windowed, false) != windowed.end();
}

}  // namespace

void set_windows(const Config& config, std::int64_t layers, SpecText& spec) {
  const bool has_window = config.flag("use_sliding_window", false) &&
                          (config.find("sliding_window") != nullptr || !config.has_null("sliding_window"));
  if (layers > kMostLayers && (has_window || config.find("layer_types") != nullptr))
    throw config.wrong("num_hidden_layers", "\"num_hidden_layers\" is above 1000");
  // __post_init__ of the configuration fills in layer_types so.
  std::vector<bool> windowed;
  const std::int64_t first = has_window ? config.count("max_window_layers", 28) : layers;
  for (std::int64_t i = 0; i < layers && layers <= kMostLayers; ++i) windowed.push_back(i >= first);
  if (!windowed.empty()) windowed = windowed_layers(config, std::move(windowed), has_window);
  if (std::ranges::find(windowed, true) == windowed.end()) return;
  spec.set("window", config.size("sliding_window", 4096), "sliding_window, of the layers that have one");
  add_window_mask(spec);
  const std::string given = ", rotary_emb.0, rotary_emb.1, position_ids]";
  if (std::ranges::find(windowed, false) == windowed.end())
    return spec.replace("from: [embed_tokens, causal_mask" + given, "from: [embed_tokens, window_mask" + given);
  const std::string block = spec.section("name") == "name: qwen3\n" ? "Qwen3DecoderLayer" : "Qwen2DecoderLayer";
  const std::string entries = entries_of(windowed, block, {"causal_mask", "rotary_emb"}, {"window_mask", "rotary_emb"});
  spec.replace("      - name: layers\n        block: " + block +
                   "\n        repeat: $layers\n        loop: true\n        from: [embed_tokens, causal_mask" + given +
                   "\n",
               entries);
  spec.replace("order: [embed_tokens, layers, norm, rotary_emb]",
               "order: [embed_tokens, " + names_of_layers(windowed.size()) + ", norm, rotary_emb]");
  spec.remove_variable("layers");
}

namespace {

// Both masks are made, whether or not a layer reads them. `tables`: of the layers that have a window, where others do
// not. Every layer but each `every`-th has one.
std::vector<bool> set_both_masks(const Config& config, std::int64_t layers, std::int64_t every,
                                 const std::string& block, const std::string& tables, SpecText& spec) {
  if (layers > kMostLayers) throw config.wrong("num_hidden_layers", "\"num_hidden_layers\" is above 1000");
  if (config.has_null("sliding_window"))
    throw config.wrong("sliding_window",
                       "\"sliding_window\" is null, and transformers makes a mask of it all the same");
  std::vector<bool> windowed;
  for (std::int64_t i = 0; i < layers; ++i) windowed.push_back((i + 1) % every != 0);
  windowed = windowed_layers(config, std::move(windowed), true);
  spec.set("window", config.size("sliding_window", 4096), "sliding_window, of the layers that have one");
  add_window_mask(spec);
  const std::string entry = "      - name: layers\n        block: " + block +
                            "\n        repeat: $layers\n        loop: true\n        from: [embed_tokens, causal_mask, "
                            "rotary_emb.0, rotary_emb.1, position_ids]\n";
  const std::string local = is_mixed(windowed) ? tables : "rotary_emb";
  spec.replace(entry, entries_of(windowed, block, {"causal_mask", "rotary_emb"}, {"window_mask", local}));
  spec.remove_variable("layers");
  return windowed;
}

}  // namespace

void set_gemma2_windows(const Config& config, std::int64_t layers, SpecText& spec) {
  const auto windowed = set_both_masks(config, layers, 2, "Gemma2DecoderLayer", "rotary_emb", spec);
  spec.replace("order: [embed_tokens, layers, norm, rotary_emb]",
               "order: [embed_tokens, " + names_of_layers(windowed.size()) + ", norm, rotary_emb]");
}

// The tables are of the kinds of layers that there are.
void set_gemma3_windows(const Config& config, std::int64_t layers, SpecText& spec) {
  const std::int64_t every = config.size("sliding_window_pattern", 6);
  const auto windowed = set_both_masks(config, layers, every, "Gemma3DecoderLayer", "rotary_emb_local", spec);
  const bool mixed = is_mixed(windowed);
  const std::string first = "      - {name: layers.0,";
  if (mixed)
    spec.replace(
        first,
        "      - {name: rotary_emb_local, op: LlamaRotaryEmbedding($head), from: position_ids, keep: true}\n" + first);
  spec.replace("order: [embed_tokens, layers, norm, rotary_emb]",
               "order: [embed_tokens, " + names_of_layers(windowed.size()) + ", norm, rotary_emb" +
                   (mixed ? ", rotary_emb_local]" : "]"));
}

}  // namespace gpuplan
