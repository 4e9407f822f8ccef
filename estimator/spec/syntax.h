// A spec as written: every key checked, every name of a block and variable resolved, nothing expanded.
// One tree per file (with what it extends); expand.h turns it into a Model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "estimator/spec/call.h"
#include "estimator/spec/expression.h"
#include "estimator/spec/model.h"

namespace gpuplan {

struct EntrySyntax;

/// A `layers:`, `body:` or branch list.
struct ListSyntax {
  std::vector<EntrySyntax> entries;
  SourceMark mark;
};

struct GivenParam {
  std::size_t param = 0;  // index in BlockSyntax::params
  Quantity value;
  SourceMark mark;  // of the parameter's name
};

/// `{block: Name, repeat: n, with: {...}, first: {...}, last: {...}}`
struct BlockCallSyntax {
  std::size_t block = 0;  // index in SpecSyntax::blocks
  SourceMark mark;        // of the block's name
  std::optional<Quantity> repeat, loop;
  std::vector<GivenParam> with, first, last;
};

/// `{block: Name, layers: [...]}`: a call frame written in place, as the canonical form has it.
struct InlineBlockSyntax {
  std::string block;
  ListSyntax layers;
  EntryOrder order;
};

/// `{layers: [...]}`: an nn.Sequential.
struct SequentialSyntax {
  ListSyntax layers;
  Quantity loop = Quantity(Scalar{false});
};

struct ResidualSyntax {
  ListSyntax body;
  std::optional<Quantity> shortcut_if;
  ListSyntax shortcut;
  Quantity inplace = Quantity(Scalar{false});
  bool shortcut_first = false;  // written before the body
};

struct ParallelSyntax {
  struct Branch {
    std::string name;  // empty in a list of branches
    SourceMark mark;
    ListSyntax layers;
  };
  std::vector<Branch> branches;
  Join join = Join::cat;
  Quantity dim = Quantity(Scalar{std::int64_t{1}});
};

struct EntrySyntax {
  std::string name;  // empty: unnamed
  SourceMark mark;   // of the name where there is one, else of the entry
  std::optional<Quantity> condition;
  std::vector<std::string> from;
  std::vector<SourceMark> from_marks;
  std::string tie;
  SourceMark tie_mark;
  std::optional<Quantity> frozen, checkpoint, keep, autocast, grad;
  bool reentrant = false;  // checkpoint: reentrant
  std::optional<Mode> when;
  std::variant<CallSyntax, BlockCallSyntax, InlineBlockSyntax, SequentialSyntax, ResidualSyntax, ParallelSyntax> what;
};

struct ParamSyntax {
  std::string name;
  std::optional<Quantity> otherwise;  // absent: required
  SourceMark mark;
};

struct BlockSyntax {
  std::string name;
  SourceMark mark;
  std::vector<ParamSyntax> params;
  ListSyntax layers;
  EntryOrder order;
};

struct VariableSyntax {
  std::string name;
  Quantity value;
  SourceMark mark;
};

struct InputSyntax {
  std::string name;
  std::vector<Quantity> shape;
  DType dtype = DType::fp32;
  Quantity requires_grad = Quantity(Scalar{false});
  SourceMark mark;
  SourceMark shape_mark;
};

struct LoraSyntax {
  Quantity rank = Quantity(Scalar{std::int64_t{8}});
  Quantity alpha = Quantity(Scalar{std::int64_t{8}});
  Quantity dropout = Quantity(Scalar{0.0});
  std::vector<std::string> targets;
  std::vector<SourceMark> target_marks;
  SourceMark mark;
};

struct SpecSyntax {
  std::string name;
  std::vector<VariableSyntax> vars;
  std::vector<InputSyntax> inputs;
  std::vector<BlockSyntax> blocks;
  ListSyntax layers;
  EntryOrder order;
  std::optional<LoraSyntax> lora;
  CallSyntax loss;
  ListSyntax losses;  // of `loss:` as a list of entries, and of `own_loss:`; empty otherwise
  bool own_loss = false;
  std::string recorded_on;
  std::optional<AskedType> exported_for;
  std::string verified;
  std::vector<Mismatch> differs;
  std::optional<std::vector<ConstructionStep>> construction;
  std::vector<Note> notes;
};

/// Checks a document, `extends:` already merged. Throws Error for an unknown key, a value of the wrong
/// kind, an unknown block or variable, a missing part, or blocks that contain themselves.
/// `default_name` is the model's where the document has no `name:`.
SpecSyntax parse_spec(const YamlNode& document, const std::string& default_name);

}  // namespace gpuplan
