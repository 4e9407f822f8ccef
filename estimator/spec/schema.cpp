#include "estimator/spec/schema.h"

#include <string_view>

namespace gpuplan {
namespace {

constexpr std::string_view kHead = R"json({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "gpuplan model spec",
  "type": "object",
  "required": ["layers"],
  "additionalProperties": false,
  "properties": {
    "gpuplan": {"const": 1, "description": "Format version; required here or in the spec that this one extends."},
    "name": {"type": "string"},
    "extends": {"type": "string", "description": "A spec that this one changes: maps merge key by key, lists are replaced."},
    "vars": {
      "type": "object",
      "description": "Integers and booleans, used as $name or ${expression}; --set name=value overrides them.",
      "propertyNames": {"$ref": "#/$defs/identifier"},
      "additionalProperties": {"$ref": "#/$defs/quantity"}
    },
    "input": {"$ref": "#/$defs/input"},
    "inputs": {"type": "object", "minProperties": 1, "additionalProperties": {"$ref": "#/$defs/input"}},
    "blocks": {
      "type": "object",
      "propertyNames": {"$ref": "#/$defs/identifier"},
      "additionalProperties": {
        "type": "object",
        "required": ["layers"],
        "additionalProperties": false,
        "properties": {
          "params": {
            "type": "object",
            "description": "Each with its default, or `required`.",
            "propertyNames": {"$ref": "#/$defs/identifier"},
            "additionalProperties": {"anyOf": [{"const": "required"}, {"$ref": "#/$defs/quantity"}]}
          },
          "layers": {"$ref": "#/$defs/list"},
          "order": {"$ref": "#/$defs/order"}
        }
      }
    },
    "recorded_on": {"type": "string", "description": "The simulated GPU on which the Aten layers of an exported spec were recorded; plans of another one say so."},
    "exported_for": {"enum": ["fp16", "bf16", "amp-fp16", "amp-bf16"], "description": "The type that code of an exported model was told where it asks; plans in another one say so."},
    "verified": {"type": "string", "description": "What an exported spec was compared with; plans say it. Not that of a spec that is extended."},
    "differs": {"type": "object", "description": "What it was compared with and is not equal to, and where: a warning of its plans in the mode.",
      "properties": {"train": {"type": "string"}, "infer": {"type": "string"}}, "additionalProperties": false},
    "construction": {
      "type": "array",
      "description": "Tensors that constructors make on the GPU beside the weights: +BYTES allocates one, -K frees the one that was allocated K-th, from 0.",
      "items": {
        "type": "object",
        "additionalProperties": false,
        "required": ["run"],
        "properties": {"after": {"type": "string", "description": "The entry whose weights are there by then."}, "run": {"type": ["string", "integer"]}}
      }
    },
    "notes": {"type": "array", "description": "What the spec lacks: warnings of its plans.", "items": {"anyOf": [{"type": "string"}, {"type": "object", "description": "Of plans that compute in the type.",
      "properties": {"fp16": {"type": "string"}, "bf16": {"type": "string"}}, "additionalProperties": false, "minProperties": 1, "maxProperties": 1}]}},
    "layers": {"$ref": "#/$defs/list", "minItems": 1},
    "order": {"$ref": "#/$defs/order"},
    "lora": {
      "description": "peft's LoraConfig: everything is frozen except two matrices of this rank per target.",
      "type": "object",
      "required": ["targets"],
      "additionalProperties": false,
      "properties": {
        "rank": {"$ref": "#/$defs/size"},
        "alpha": {"$ref": "#/$defs/quantity"},
        "dropout": {"$ref": "#/$defs/quantity"},
        "targets": {
          "type": "array",
          "minItems": 1,
          "description": "Linear and Conv1D layers: the end of their path, or a pattern of it with * and ?.",
          "items": {"type": "string", "pattern": "^[A-Za-z0-9_.*?]+$"}
        }
      }
    },
    "loss": {
      "description": "A loss call, or mean. CrossEntropyLoss() where absent. A list of entries, losses among them, that may name the model's: the last one's result is the loss; a loss with tie: has that one's targets.",
      "anyOf": [{"const": "mean"}, {"$ref": "#/$defs/call"}, {"$ref": "#/$defs/operation"}, {"$ref": "#/$defs/list", "minItems": 1}]
    },
    "own_loss": {"description": "As loss: as a list, of a model whose forward computes its loss.", "$ref": "#/$defs/list", "minItems": 1}
  },
  "$defs": {
    "identifier": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
    "module_name": {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_-]*(\\.[A-Za-z0-9_][A-Za-z0-9_-]*)*$"},
    "expression": {"type": "string", "pattern": "^\\$([A-Za-z_][A-Za-z0-9_]*|\\{[^}]*\\})$"},
    "size": {"anyOf": [{"type": "integer", "minimum": 1}, {"$ref": "#/$defs/expression"}]},
    "flag": {"anyOf": [{"type": "boolean"}, {"$ref": "#/$defs/expression"}]},
    "quantity": {"anyOf": [{"type": ["integer", "number", "boolean"]}, {"$ref": "#/$defs/expression"}]},
    "quantities": {"type": "object", "additionalProperties": {"$ref": "#/$defs/quantity"}},
    "call": {
      "type": "string",
      "description": "A torch.nn constructor call; _ is inferred.",
      "pattern": "^(torch\\.)?(nn\\.)?[A-Za-z_][A-Za-z0-9_]*\\s*\\([\\s\\S]*\\)$"
    },
    "input": {
      "type": "object",
      "required": ["shape"],
      "additionalProperties": false,
      "properties": {
        "shape": {"type": "array", "maxItems": 7, "items": {"$ref": "#/$defs/size"}, "description": "Without the batch."},
        "dtype": {"enum": ["fp32", "fp64", "fp16", "bf16", "int64", "int32", "uint8", "int8", "bool",
                           "float32", "float64", "float16", "bfloat16"]},
        "requires_grad": {"$ref": "#/$defs/flag"}
      }
    },
    "list": {"type": "array", "items": {"$ref": "#/$defs/entry"}},
    "names": {"type": "array", "items": {"$ref": "#/$defs/module_name"}},
    "order": {
      "description": "Entries in the order of their construction, where it is not the order they run in; made and registered where they are not registered in it.",
      "anyOf": [
        {"$ref": "#/$defs/names"},
        {
          "type": "object",
          "additionalProperties": false,
          "properties": {"made": {"$ref": "#/$defs/names"}, "registered": {"$ref": "#/$defs/names"}}
        }
      ]
    },
    "entry": {"anyOf": [{"$ref": "#/$defs/call"}, {"$ref": "#/$defs/structure"}, {"$ref": "#/$defs/named"}]},
    "named": {
      "description": "NAME: Call(...) or NAME: {op, block, layers, residual or parallel: ...}.",
      "type": "object",
      "properties": {)json";

// The modifiers stand in `named` and, with the structure words, in `structure`.
constexpr std::string_view kModifierSchema = R"json(
        "name": {"$ref": "#/$defs/module_name"},
        "if": {"$ref": "#/$defs/flag"},
        "from": {
          "description": "Inputs of the entry: names of earlier entries of the block, or input.",
          "anyOf": [{"$ref": "#/$defs/module_name"}, {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/module_name"}}]
        },
        "tie": {"$ref": "#/$defs/module_name", "description": "Shares the weights of that layer."},
        "frozen": {"$ref": "#/$defs/flag", "description": "No gradient, no optimizer state."},
        "checkpoint": {
          "description": "Activation checkpointing: recomputed in backward; reentrant: use_reentrant=True.",
          "anyOf": [{"$ref": "#/$defs/flag"}, {"const": "reentrant"}]
        },
        "keep": {"$ref": "#/$defs/flag", "description": "The result is a local variable, alive until the block returns."},
        "grad": {"$ref": "#/$defs/flag", "description": "false: runs within torch.no_grad(); nothing is saved for a backward pass."},
        "autocast": {"$ref": "#/$defs/flag", "description": "false: runs within torch.autocast(enabled=False), whatever --amp says."},
        "when": {"enum": ["train", "infer"], "description": "Runs in this mode only; its weights exist in both."})json";

constexpr std::string_view kNamedTail = R"json(
      },
      "additionalProperties": {"anyOf": [{"$ref": "#/$defs/call"}, {"$ref": "#/$defs/structure"}]}
    },
    "structure": {
      "type": "object",
      "anyOf": [{"required": ["op"]}, {"required": ["block"]}, {"required": ["layers"]}, {"required": ["residual"]},
                {"required": ["parallel"]}],
      "properties": {)json";

constexpr std::string_view kStructureTail = R"json(,
        "op": {"$ref": "#/$defs/type"},
        "block": {"$ref": "#/$defs/identifier", "description": "One of blocks:, called with `with`."},
        "order": {"$ref": "#/$defs/order"},
        "repeat": {"$ref": "#/$defs/size", "description": "Number of copies, in an nn.Sequential."},
        "loop": {"$ref": "#/$defs/flag", "description": "A for loop over an nn.ModuleList, not an nn.Sequential."},
        "with": {"$ref": "#/$defs/quantities"},
        "first": {"$ref": "#/$defs/quantities", "description": "Replaces `with` in the first of the repeats."},
        "last": {"$ref": "#/$defs/quantities", "description": "Replaces `with` in the last of the repeats."},
        "layers": {"$ref": "#/$defs/list", "description": "An nn.Sequential; beside block:, its expanded body."},
        "residual": {
          "anyOf": [
            {"$ref": "#/$defs/list"},
            {
              "type": "object",
              "required": ["body"],
              "additionalProperties": false,
              "properties": {
                "inplace": {"$ref": "#/$defs/flag", "description": "out += identity, which allocates nothing."},
                "body": {"$ref": "#/$defs/list"},
                "shortcut": {
                  "anyOf": [
                    {"$ref": "#/$defs/list"},
                    {
                      "type": "object",
                      "required": ["layers"],
                      "additionalProperties": false,
                      "properties": {"if": {"$ref": "#/$defs/flag"}, "layers": {"$ref": "#/$defs/list"}}
                    }
                  ]
                }
              }
            }
          ]
        },
        "parallel": {
          "type": "object",
          "required": ["branches"],
          "additionalProperties": false,
          "properties": {
            "join": {"enum": ["cat", "add", "mul"]},
            "dim": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/expression"}]},
            "branches": {
              "anyOf": [
                {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/branch"}},
                {"type": "object", "minProperties": 1, "additionalProperties": {"$ref": "#/$defs/branch"}}
              ]
            }
          }
        }
      }
    },
    "branch": {"anyOf": [{"$ref": "#/$defs/list"}, {"$ref": "#/$defs/entry"}]},
    "operation": {"type": "object", "required": ["op"], "properties": {"op": {"$ref": "#/$defs/type"}}},
    "type": {"anyOf": [{"$ref": "#/$defs/call"}, )json";

}  // namespace

std::string model_json_schema(const std::vector<std::string>& layers) {
  std::string out;
  for (const std::string_view part : {kHead, kModifierSchema, kNamedTail, kModifierSchema, kStructureTail}) out += part;
  if (layers.empty()) {
    out += R"json({"$ref": "#/$defs/identifier"})json";
  } else {
    out += "{\"enum\": [";  // identifiers: nothing to escape
    for (std::size_t i = 0; i < layers.size(); ++i) out += (i > 0 ? ", \"" : "\"") + layers[i] + "\"";
    out += "]}";
  }
  return out + "]}\n  }\n}\n";
}

}  // namespace gpuplan
