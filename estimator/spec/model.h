// An expanded model: what a spec file says once blocks, repeats, variables, `if` and `extends` are
// resolved. A tree of values; every layer call keeps the place that it was written at.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "estimator/base/dtype.h"
#include "estimator/base/error.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

struct Inferred {  // `_` in a call: taken from the input, as torch.nn.LazyLinear does
  bool operator==(const Inferred&) const = default;
};
struct None {
  bool operator==(const None&) const = default;
};

/// An argument of a layer call: None, _, True/False, an integer, a real, a word or quoted string, or a
/// tuple/list of those.
struct Value {
  std::variant<None, Inferred, bool, std::int64_t, double, std::string, std::vector<Value>> as;
  bool operator==(const Value&) const = default;
};

struct Argument {
  std::string name;  // empty: positional
  Value value;
  SourceMark mark;  // of the value
  SourceMark name_mark;
};

/// `Conv2d(64, 128, 3, padding=1)`; the map form gives the same value.
struct LayerCall {
  std::string type;
  std::vector<Argument> arguments;
  SourceMark mark;  // of the type's name
};

struct Node;
using Body = std::vector<Node>;

/// `order:`: names of entries; those that it does not name come after them.
struct EntryOrder {
  std::vector<std::string> made;        // as their weights get memory
  std::vector<std::string> registered;  // as Module.parameters() has them; the same unless the spec says otherwise
  bool empty() const { return made.empty() && registered.empty(); }
};

/// `{block: Name}`: a function call, one Python frame. What it was given stays referenced by the caller
/// until it returns.
struct Block {
  std::string block;  // name in `blocks:`
  Body body;
  EntryOrder order;
};

/// `{block: Name, repeat: n}`: an nn.Sequential whose items are call frames, named 0 .. n-1. Each is given the one
/// before's result and what the repeat was given besides.
struct Repeat {
  Body items;
  bool loop = false;  // a for loop over an nn.ModuleList instead: no frame holds what it was given
};

/// out = body(x) + shortcut(x); the shortcut is the identity when empty. `inplace`: out += identity. The body runs
/// first; `shortcut_first` says that the shortcut is written before the body, which is the order in which the
/// weights are allocated (torchvision's ResNets construct `downsample` before the block it belongs to).
struct Residual {
  Body body;
  Body shortcut;
  bool inplace = false;
  bool shortcut_first = false;
};

enum class Join { cat, add, mul };

/// Branches of one input, joined. Every branch's result is held until the join has run.
struct Parallel {
  struct Branch {
    std::string name;  // empty: transparent, as residual bodies are
    Body body;
  };
  std::vector<Branch> branches;
  Join join = Join::cat;
  std::int64_t dim = 1;  // of cat
};

/// One entry of a `layers:` list.
struct Node {
  std::string name;  // own part of the path ("conv1", "downsample.0"); an unnamed entry has its index,
                     // as in nn.Sequential; empty for an unnamed residual or parallel (transparent)
  bool named = false;
  std::vector<std::string> from;       // names within the enclosing block; empty: the entry before;
                                       // "input" (or an input's name) is what the block was given,
                                       // "inputs" all of it
  std::vector<SourceMark> from_marks;  // one each
  std::string tie;                     // path (or sibling name) of the layer whose weights it shares
  SourceMark tie_mark;
  bool frozen = false;
  bool checkpoint = false;
  bool reentrant = false;  // with use_reentrant=True
  bool keep = false;       // its result is a local variable of the block's function: alive until that returns
  bool autocast = true;    // false: within torch.autocast(enabled=False), whatever --amp says
  bool grad = true;        // false: within torch.no_grad()
  /// It runs in this mode only; in the other its weights are there and it hands on its first input.
  std::optional<Mode> when;
  SourceMark mark;    // of the entry
  std::string where;  // "in layer1.1 (block Bottleneck, repeat 2 of 3)" for errors; empty at top level
  std::variant<LayerCall, Block, Repeat, Residual, Parallel> what;
};

struct Input {
  std::string name;                 // "input" where the spec has the singular form
  std::vector<std::int64_t> shape;  // without the batch
  DType dtype = DType::fp32;        // floating inputs follow the run's precision
  bool requires_grad = false;
  SourceMark mark;
};

struct Variable {
  std::string name;
  std::int64_t value = 0;
};

/// What constructors make on the GPU beside the weights, and let go. In `run`, what is positive allocates so many
/// bytes, and what is negative, -k - 1, frees the allocation k of all steps.
struct ConstructionStep {
  std::string after;  // the entry whose weights are the last ones there; empty: before the first
  std::vector<std::int64_t> run;
  SourceMark mark;
};

/// What a spec says that it lacks: a warning of its plans, where `of` is given of those that compute in this type
/// alone.
struct Note {
  std::string text;
  std::optional<DType> of;
};

/// A type that a plan can ask for.
struct AskedType {
  DType precision = DType::fp32;
  std::optional<DType> autocast;

  bool operator==(const AskedType&) const = default;
};

/// Or that it was compared with PyTorch and is not equal, and where: a warning of its plans in this mode.
struct Mismatch {
  Mode mode = Mode::train;
  std::string text;
};

struct Model {
  std::string name;
  std::vector<std::shared_ptr<const Source>> sources;  // what the marks point into; the first is the file
  std::vector<Variable> vars;                          // after --set
  std::vector<Input> inputs;
  Body layers;
  EntryOrder order;
  std::optional<Lora> lora;
  LayerCall loss;  // CrossEntropyLoss() when the spec has none; type "mean" for `loss: mean`
  /// `loss:` as a list: entries after those of the model, which may name these, among them losses. The last one's
  /// result is the loss; empty: `loss` alone, of the model's output. A loss with `tie:` has that one's targets.
  Body losses;
  bool own_loss = false;                  // `own_loss:`, such a list that the model's forward computes
  std::string recorded_on;                // the GPU that its Aten layers were recorded on; empty: there are none
  std::optional<AskedType> exported_for;  // what code was told that asks for its type; nothing: none does
  std::string verified;  // what the spec says that it was compared with and is equal to; empty: nothing
  std::vector<Mismatch> differs;
  std::optional<std::vector<ConstructionStep>>
      construction;         // nothing: weights alone are made, where they are tied first of their own
  std::vector<Note> notes;  // what the spec says that it lacks
};

}  // namespace gpuplan
