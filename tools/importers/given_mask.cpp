#include "tools/importers/given_mask.h"

#include <string>
#include <string_view>

#include "tools/importers/spec_text.h"

namespace gpuplan {
namespace {

constexpr std::string_view kTokens = "  input_ids: {shape: [$seq], dtype: int64}\n";
constexpr std::string_view kCausal = "CausalMask(packed=${packed == 1}";
constexpr std::string_view kModelEnd = "Model, keep: true}";

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; at += part.size()) ++n;
  return n;
}

// `from: [embed_tokens, position_ids]` of each mask: what comes second is the model's own second input.
void read_mask(std::string& text) {
  constexpr std::string_view kFrom = "from: [";
  for (std::size_t at = 0; (at = text.find(kCausal, at)) != std::string::npos;) {
    const std::size_t comma = text.find(", ", text.find(kFrom, at)), end = text.find(']', comma);
    if (end == std::string::npos) return;
    text.replace(comma + 2, end - comma - 2, "input.1");
    constexpr std::string_view kGiven = "AttentionMask(padded=${padded == 1}";
    text.replace(at, kCausal.size(), kGiven);
  }
}

}  // namespace

// Where there is an attention_mask, transformers does not look for packed sequences (masking_utils.py,
// _preprocess_mask_arguments).
std::shared_ptr<const Source> with_attention_mask(const Source& source) {
  std::string text = source.text;
  if (count(text, kTokens) != 1 || count(text, kModelEnd) != 1 || count(text, kCausal) == 0) return nullptr;
  read_mask(text);
  text.insert(text.find(kTokens) + kTokens.size(), "  attention_mask: {shape: [$seq], dtype: int64}\n");
  const std::size_t end = text.find(kModelEnd) + kModelEnd.find(", keep");
  text.insert(end, ", from: [input_ids, attention_mask]");
  SpecText spec(text);
  spec.set("padded", 1, "0: no token of the batch is padding, so SDPA kernels get no mask");
  if (count(text, "$packed") + count(text, "${packed") == 0) spec.remove_variable("packed");
  return std::make_shared<const Source>(Source{source.name, spec.text()});
}

}  // namespace gpuplan
