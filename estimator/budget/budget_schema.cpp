// The format of gpuplan.yaml for editors.
#include "estimator/budget/read_budget.h"
#include "estimator/budget/read_limits.h"

#include <algorithm>

namespace gpuplan {
namespace {

constexpr std::string_view kAmounts =
    R"json(    "bytes": {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)? *(B|KiB|MiB|GiB|TiB|kB|MB|GB|TB)$"},
    "count": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)? *(k|M|G|B|T)?$"}]},
    "flop": {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)? *(k|M|G|T|P|E)?FLOP$"},
    "nanoseconds": {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)? *(ns|us|ms|s|min|h)$"},
    "micro_usd": {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)? *USD/Msample$"},
    "percent": {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)? ?%$"},
    "percent_of": {"anyOf": [{"type": "number", "minimum": 0}, {"$ref": "#/$defs/percent"}]},
    "scalar": {"type": ["string", "integer", "number", "boolean"]},
    "level": {"enum": ["error", "warn", "off"]},
    "settings": {"type": "object", "additionalProperties": {"$ref": "#/$defs/scalar"}})json";

std::string_view name_of(Unit unit) {
  constexpr std::array<std::string_view, 5> kNames = {"bytes", "count", "flop", "nanoseconds", "micro_usd"};
  return kNames[static_cast<std::size_t>(unit)];
}

std::string reference(std::string_view name) { return "{\"$ref\": \"#/$defs/" + std::string(name) + "\"}"; }

// Thresholds and growth of each kind of amount.
std::string limits_of(Unit unit) {
  const std::string name(name_of(unit)), amount = reference(name);
  return ",\n    \"" + name + "_limit\": {\"anyOf\": [" + amount +
         ", {\"type\": \"object\", \"minProperties\": 1, \"additionalProperties\": false, \"properties\": {\"max\": " +
         amount + ", \"min\": " + amount + ", \"warn\": {\"anyOf\": [" + amount + ", " + reference("percent") +
         "]}, \"level\": " + reference("level") + "}}]},\n    \"" + name + "_bound\": {\"anyOf\": [" +
         reference("percent") + ", " + amount +
         ", {\"type\": \"object\", \"minProperties\": 1, \"additionalProperties\": false, \"properties\": "
         "{\"percent\": " +
         reference("percent_of") + ", \"by\": " + amount + (unit == Unit::bytes ? ", \"bytes\": " + amount : "") +
         "}}]},\n    \"" + name + "_growth\": {\"anyOf\": [" + reference(name + "_bound") +
         ", {\"type\": \"object\", \"minProperties\": 1, \"additionalProperties\": false, \"properties\": "
         "{\"fail\": " +
         reference(name + "_bound") + ", \"warn\": " + reference(name + "_bound") + "}}]}";
}

std::string figures(std::span<const Figure> list, const char* suffix) {
  std::string out;
  for (const Figure f : list)
    out += (out.empty() ? "" : ", ") + ("\"" + std::string(name_of(f))) +
           "\": " + reference(std::string(name_of(unit_of(f))) + suffix);
  return out;
}

std::string shared_keys(const RunKeys& run_keys) {
  std::string out = "\"margin\": " + reference("percent") + ", \"inherited\": " + reference("level") +
                    ", \"set\": " + reference("settings") + ", \"growth\": " + reference("growth");
  for (const auto& [key, first] : run_keys) {
    std::string with_underscores = key;
    std::ranges::replace(with_underscores, '-', '_');
    out += ",\n      \"" + with_underscores + "\": " + reference("scalar");
    if (with_underscores != key) out += ", \"" + key + "\": " + reference("scalar");
  }
  return out;
}

}  // namespace

std::string budget_json_schema(const RunKeys& run_keys) {
  std::string out = R"json({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "gpuplan.yaml",
  "type": "object",
  "required": ["gpuplan", "checks"],
  "additionalProperties": false,
  "properties": {
    "gpuplan": {"const": 1, "description": "Format version."},
    "defaults": {"type": "object", "description": "Defaults for all checks.", "additionalProperties": false, "properties": {
      )json" + shared_keys(run_keys) +
                    R"json(
    }},
    "checks": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["model"], "additionalProperties": false, "properties": {
      "name": {"type": "string", "minLength": 1, "maxLength": 200, "description": "The model's file name where absent."},
      "model": {"type": "string", "description": "A path from this file's folder, or zoo:NAME."},
      "matrix": {"type": "object", "minProperties": 1, "description": "A check for each combination of these run flags.", "additionalProperties": {"type": "array", "minItems": 1, "items": )json" +
                    reference("scalar") + R"json(}},
      "budget": {"type": "object", "minProperties": 1, "additionalProperties": false, "properties": {
        )json" + figures(figures_of_step(), "_limit") +
                    R"json(,
        "fits": {"description": "GPUs that the step must fit.", "anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": "string"}}]},
        "modules": {"type": "object", "description": "Limits for each module that a pattern matches: * within a name, ** across them.", "additionalProperties": {"type": "object", "minProperties": 1, "additionalProperties": false, "properties": {)json" +
                    figures(figures_of_module(), "_limit") + R"json(}}}
      }},
      "message": {"type": "string", "description": "Printed when the check fails."},
      "owner": {"type": "string"},
      "skip_until": {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "description": "The last day on which a broken limit does not count."},
      "reason": {"type": "string", "description": "Why the check is skipped until then."},
      )json" + shared_keys(run_keys) +
                    R"json(
    }}}
  },
  "$defs": {
)json" + std::string(kAmounts);
  for (const Unit unit : {Unit::bytes, Unit::count, Unit::flop, Unit::nanoseconds, Unit::micro_usd})
    out += limits_of(unit);
  out += ",\n    \"growth\": {\"anyOf\": [" + reference("percent") + ", " + reference("bytes") +
         ", {\"type\": \"object\", \"additionalProperties\": false, \"properties\": {" +
         figures(figures_of_step(), "_growth") + "}}]}\n  }\n}\n";
  return out;
}

}  // namespace gpuplan
