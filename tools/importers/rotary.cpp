// rope_parameters of transformers 5, or rope_theta, partial_rotary_factor and rope_scaling before
// (transformers/modeling_rope_utils.py). What scales the frequencies once changes values only; dynamic and longrope
// look at the positions of every batch.
#include <cstdlib>

#include "tools/importers/families.h"

namespace gpuplan {

namespace {

const JsonValue* value_in(const JsonValue& object, std::string_view key) {
  const JsonValue* const value = object.find(key);
  return value == nullptr || value->kind == JsonValue::Kind::null ? nullptr : value;
}

// The word for LlamaRotaryEmbedding; "" where the frequencies are made once.
std::string scaling_of(const JsonValue& rope, bool is_phi3) {
  const JsonValue* type = value_in(rope, "rope_type");
  if (type == nullptr) type = value_in(rope, "type");
  if (type == nullptr) return "";
  // Phi3Config takes both for what longrope was called before.
  if (is_phi3 && (type->text == "su" || type->text == "yarn")) return "longrope";
  for (const char* scaled_once : {"default", "linear", "llama3", "yarn"})
    if (type->text == scaled_once) return "";
  if (type->text == "dynamic" || type->text == "longrope") return type->text;
  throw Error("positions of the type \"" + type->text + "\" are not modelled")
      .at(type->mark)
      .label("expected default, linear, llama3, yarn, dynamic or longrope");
}

// Of the layers of a kind, where kinds have positions of their own: their tables are alike in size.
void expect_plain(const JsonValue& rope) {
  for (const char* kind : {"full_attention", "sliding_attention"})
    if (const JsonValue* const own = value_in(rope, kind); own != nullptr && !scaling_of(*own, false).empty())
      throw Error("positions that depend on the batch are not modelled for individual layer types").at(own->mark);
}

std::string number_in(const JsonValue& rope, std::string_view key, const std::string& otherwise) {
  const JsonValue* const value = value_in(rope, key);
  if (value == nullptr) return otherwise;
  if (value->kind != JsonValue::Kind::number || !(number_of(*value) > 0))
    throw Error("\"" + std::string(key) + "\" is a number above 0").at(value->mark);
  return value->text;
}

const JsonValue* object_at(const Config& config, std::string_view key) {
  const JsonValue* const value = config.find(key);
  if (value != nullptr && value->kind != JsonValue::Kind::object)
    throw config.wrong(key,
                       "\"" + std::string(key) + "\" must be an object, not " + std::string(describe(value->kind)));
  return value;
}

}  // namespace

std::string rotary_base(const Config& config, const std::string& otherwise) {
  std::string theta = config.positive("rope_theta", otherwise);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const JsonValue* const rope = object_at(config, key);
    if (rope == nullptr) continue;
    if (!scaling_of(*rope, false).empty())
      throw config.wrong(key, "positions that depend on the batch are not modelled for this family")
          .help("transformers plans it: gpuplan hf:FOLDER");
    expect_plain(*rope);
    theta = number_in(*rope, "rope_theta", theta);
  }
  return theta;
}

void set_rotary(const Config& config, const Rotary& otherwise, SpecText& spec) {
  std::string theta = config.positive("rope_theta", otherwise.theta);
  std::string scaling;
  std::string part = config.positive("partial_rotary_factor", otherwise.part);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const JsonValue* const rope = object_at(config, key);
    if (rope == nullptr) continue;
    scaling = scaling_of(*rope, config.word("model_type", "") == "phi3");
    expect_plain(*rope);
    theta = number_in(*rope, "rope_theta", theta);
    part = number_in(*rope, "partial_rotary_factor", part);
  }
  const double share = std::strtod(part.c_str(), nullptr);
  const auto turned =
      share >= 0 && share <= 1 ? static_cast<std::int64_t>(static_cast<double>(otherwise.head) * share) : 0;
  if (turned < 2 || turned % 2 != 0)
    throw config.wrong("partial_rotary_factor", part + " of a head's " + std::to_string(otherwise.head) +
                                                    " numbers is not a positive even count");
  if (otherwise.dimension == "$rotary")
    spec.set("rotary", turned, "of a head's numbers, partial_rotary_factor " + part);
  else if (turned != otherwise.head)
    throw config.wrong("partial_rotary_factor", "this family rotates whole heads");
  std::string more;
  if (std::strtod(theta.c_str(), nullptr) != 10000.0) more = ", base=" + theta;
  if (!scaling.empty()) more += ", scaling=" + scaling;
  if (more.empty()) return;
  // Inside { } a comma ends the text, so that the call is quoted.
  const std::string call = "LlamaRotaryEmbedding(" + otherwise.dimension;
  spec.replace("op: " + call + ")", "op: \"" + call + more + ")\"");
}

}  // namespace gpuplan
