#include "tools/importers/family_template.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "configs/embedded.h"
#include "estimator/spec/expression.h"
#include "estimator/spec/yaml.h"
#include "tools/importers/families.h"
#include "tools/importers/numbered_layers.h"

namespace gpuplan {

namespace {

using Variables = std::map<std::string, std::int64_t, std::less<>>;

constexpr std::string_view kDoor = "transformers plans it: gpuplan hf:FOLDER";

const EmbeddedFile* template_of(std::string_view family) {
  for (const EmbeddedFile& file : embedded_families())
    if (file.name == family) return &file;
  return nullptr;
}

// What stands above the spec's first line, and the spec.
struct Template {
  explicit Template(const EmbeddedFile& file) {
    constexpr std::string_view kBetween = "\n---\n";
    const std::size_t at = file.text.find(kBetween);
    rules_source = {std::string(file.path), std::string(file.text.substr(0, at + 1))};
    spec = file.text.substr(at + kBetween.size());
    rules = &parse_yaml(rules_source, arena);
  }
  Template(const Template&) = delete;
  Template& operator=(const Template&) = delete;

  /// Calls f(name, node) for each entry of a map of the rules.
  template <class F>
  void each(std::string_view section, F&& f) const {
    const YamlNode* const map = rules->find(section);
    if (map != nullptr) each_of(*map, f);
  }
  template <class F>
  static void each_of(const YamlNode& map, F&& f) {
    for (std::size_t i = 0; i + 1 < map.children.size(); i += 2) f(map.children[i]->text, *map.children[i + 1]);
  }

  Source rules_source;
  std::string spec;
  YamlArena arena;
  const YamlNode* rules = nullptr;
};

std::string root_of(std::int64_t n) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", std::sqrt(static_cast<double>(n)));
  return text;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// --- sizes

// A spec's expression, of integers, at the values of its variables.
std::int64_t value_of(const std::string& expression, const Variables& known) {
  YamlNode node;
  node.kind = YamlNode::Kind::scalar;
  node.text = "${" + expression + "}";
  std::vector<std::string> names;
  std::vector<Scalar> values;
  for (const auto& [name, value] : known) {
    names.push_back(name);
    values.emplace_back(value);
  }
  Cursor cursor(node);
  return std::get<std::int64_t>(Expression::read(cursor, {{}, names}).evaluate({{}, values}));
}

// What a size is where its key is missing: a number, a variable, or "hidden//heads", which leaves no remainder.
std::int64_t default_size(const Config& config, const std::string& key, const std::string& written,
                          const Variables& known) {
  const std::size_t slashes = written.find("//");
  if (slashes != std::string::npos) {
    const std::int64_t n = value_of(written.substr(0, slashes), known),
                       by = value_of(written.substr(slashes + 2), known);
    if (n % by != 0)
      throw config.wrong(
          key, "\"" + key + "\" is missing, and " + std::to_string(n) + " cannot be divided by " + std::to_string(by));
  }
  return value_of(written, known);
}

// Variables in the template's order, whose defaults may be expressions of earlier ones.
Variables sizes_of(const Config& config, const Template& of) {
  Variables known;
  of.each("sizes", [&](const std::string& key, const YamlNode& size) {
    const std::string& otherwise = size.find("default")->text;
    const bool given = config.find(key) != nullptr;
    known[size.find("is")->text] = given ? config.size(key) : default_size(config, key, otherwise, known);
  });
  return known;
}

// --- other keys

bool is_boolean(std::string_view word) { return word == "true" || word == "false"; }

std::string word_of(const JsonValue& value) {
  if (value.kind == JsonValue::Kind::boolean) return value.boolean ? "true" : "false";
  return value.kind == JsonValue::Kind::array && value.items.empty() ? "[]" : value.text;
}

bool equal(const JsonValue& value, const std::string& wanted) {
  if (value.kind == JsonValue::Kind::number) return number_of(value) == std::strtod(wanted.c_str(), nullptr);
  return word_of(value) == wanted;
}

void expect_fixed(const Config& config, const Template& of) {
  of.each("fixed", [&](const std::string& key, const YamlNode& wanted) {
    const JsonValue* const value = config.find(key);
    if (is_boolean(wanted.text)) (void)config.flag(key, false);  // a text that reads "true" is none
    if (value != nullptr && !equal(*value, wanted.text))
      throw config.wrong(key, "\"" + key + "\" is not modelled other than " + wanted.text).help(std::string(kDoor));
  });
}

// The lines for a key that has several values.
void set_flags(const Config& config, const Template& of, std::string& spec) {
  of.each("flags", [&](const std::string& key, const YamlNode& values) {
    const JsonValue* const given = config.find(key);
    const std::string& otherwise = values.find("default")->text;
    if (is_boolean(otherwise)) (void)config.flag(key, false);
    const bool is_number = given != nullptr && given->kind == JsonValue::Kind::number;
    const std::string word = is_number          ? number_of(*given) == 0 ? "0.0" : ">0"
                             : given != nullptr ? word_of(*given)
                                                : otherwise;
    if (word == values.find("made_with")->text) return;
    const YamlNode* const changes = values.find(word);
    if (changes == nullptr || changes->kind != YamlNode::Kind::list)
      throw config.wrong(key, "\"" + key + "\" is not modelled as " + word_of(*given)).help(std::string(kDoor));
    for (const YamlNode* change : changes->children) {
      const std::string &from = change->children[0]->text, &to = change->children[1]->text;
      const std::size_t at = spec.find(from);
      if (at == std::string::npos)
        throw config.wrong(key, "\"" + key + "\" is not modelled together with another key").help(std::string(kDoor));
      spec.replace(at, from.size(), to);
    }
  });
}

// {{rms_norm_eps}}, {{1/sqrt(head)}}, {{sqrt(hidden)}}.
void set_numbers(const Config& config, const Template& of, const Variables& known, std::string& spec) {
  std::string theta;
  of.each("numbers", [&](const std::string& key, const YamlNode& otherwise) {
    if (key == "rope_theta") {
      theta = otherwise.text;
    } else {
      const bool zero = config.find(key) != nullptr && number_of(*config.find(key)) == 0;
      replace_all(spec, "{{" + key + "}}", zero ? "0.0" : config.positive(key, otherwise.text));
    }
  });
  theta = rotary_base(config, theta.empty() ? "10000.0" : theta);
  replace_all(spec, "{{rope_theta}}", theta);
  for (const bool inverse : {true, false}) {
    const std::string_view root = inverse ? "{{1/sqrt(" : "{{sqrt(", end = ")}}";
    for (std::size_t at = spec.find(root); at != std::string::npos; at = spec.find(root, at)) {
      const std::size_t from = at + root.size(), to = spec.find(end, from);
      const std::int64_t n = value_of(spec.substr(from, to - from), known);
      spec.replace(at, to + end.size() - at, inverse ? inverse_root(n) : root_of(n));
    }
  }
}

void set_lengths(const Config& config, const Template& of, SpecText& spec) {
  of.each("lengths", [&](const std::string& name, const YamlNode& length) {
    const YamlNode* const most = length.find("most");
    if (most == nullptr)
      return spec.set(name, std::strtoll(length.find("usual")->text.c_str(), nullptr, 10), "tokens of a sample");
    const std::string& key = most->text;
    const std::int64_t otherwise = std::strtoll(length.find("default")->text.c_str(), nullptr, 10);
    set_tokens(spec, name, std::strtoll(length.find("usual")->text.c_str(), nullptr, 10), config.size(key, otherwise),
               key);
  });
}

std::string key_of(const Template& of, std::string_view variable) {
  std::string found;
  of.each("sizes", [&](const std::string& key, const YamlNode& size) {
    if (size.find("is")->text == variable) found = key;
  });
  return found;
}

}  // namespace

std::vector<std::string> families_with_template() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_families()) names.emplace_back(file.name);
  return names;
}

std::optional<SpecText> spec_of_template(const Config& config, std::string_view family) {
  const EmbeddedFile* const file = template_of(family);
  if (file == nullptr) return {};
  const Template of(*file);
  const std::string& cls = of.rules->find("class")->text;
  expect_architecture(config, config.architecture(cls), {cls});
  expect_fixed(config, of);
  refuse_routers_loss(config);
  const Variables known = sizes_of(config, of);
  std::string text = of.spec;
  set_flags(config, of, text);
  of.each("numbered", [&](const std::string& stem, const YamlNode& lines) {
    std::map<std::string, std::string> by_kind;
    Template::each_of(lines, [&](const std::string& kind, const YamlNode& line) { by_kind[kind] = line.text; });
    text = with_numbered_layers(text, stem, kinds_of_layers(config, family, known), by_kind);
  });
  set_numbers(config, of, known, text);
  SpecText spec(text);
  for (const auto& [variable, value] : known) spec.set(variable, value, key_of(of, variable));
  of.each("left_out", [&](const std::string& key, const YamlNode& variable) {
    if (config.find(key) != nullptr) spec.set(variable.text, config.count(key, 0), key + ", which are not built");
  });
  set_lengths(config, of, spec);
  spec.set_name(config.word("model_type", ""));
  spec.set_comment(cls + " of " + config.file() + ", from a template that was exported from transformers.\n");
  return spec;
}

}  // namespace gpuplan
