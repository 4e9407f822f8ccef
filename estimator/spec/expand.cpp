#include "estimator/spec/expand.h"

#include <algorithm>

#include "estimator/base/list_text.h"
#include "estimator/spec/cursor.h"
#include "estimator/spec/expand_vars.h"
#include "estimator/spec/limits.h"
#include "estimator/spec/lora.h"
#include "estimator/spec/names.h"

namespace gpuplan {
namespace {

bool is_number(const std::string& name) { return !name.empty() && std::all_of(name.begin(), name.end(), is_digit); }

bool is_transparent(const EntrySyntax& entry) {
  return entry.name.empty() &&
         (std::holds_alternative<ResidualSyntax>(entry.what) || std::holds_alternative<ParallelSyntax>(entry.what));
}

bool is_kept(const EntrySyntax& entry, const Scope& scope) {
  return !entry.condition || entry.condition->boolean(scope);
}

bool has_shortcut(const ResidualSyntax& residual, const Scope& scope) {
  return !residual.shortcut_if || residual.shortcut_if->boolean(scope);
}

// The explicit names of a list, transparent structures included, that are numbers.
void collect_numbers(const ListSyntax& list, const Scope& scope, std::unordered_set<std::string>& out) {
  for (const EntrySyntax& entry : list.entries) {
    if (!is_kept(entry, scope)) continue;
    if (is_number(entry.name)) out.insert(entry.name);
    if (!entry.name.empty()) continue;
    if (const auto* residual = std::get_if<ResidualSyntax>(&entry.what)) {
      collect_numbers(residual->body, scope, out);
      if (has_shortcut(*residual, scope)) collect_numbers(residual->shortcut, scope, out);
    } else if (const auto* parallel = std::get_if<ParallelSyntax>(&entry.what)) {
      for (const ParallelSyntax::Branch& branch : parallel->branches)
        if (branch.name.empty()) collect_numbers(branch.layers, scope, out);
    }
  }
}

std::int64_t text_bytes(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value.as)) return static_cast<std::int64_t>(text->size());
  std::int64_t bytes = 0;
  if (const auto* items = std::get_if<std::vector<Value>>(&value.as))
    for (const Value& item : *items) bytes += static_cast<std::int64_t>(sizeof(Value)) + text_bytes(item);
  return bytes;
}

std::int64_t bytes_of(const LayerCall& call) {
  std::int64_t bytes = 0;
  for (const Argument& a : call.arguments) bytes += static_cast<std::int64_t>(sizeof(Argument)) + text_bytes(a.value);
  return bytes;
}

class Expander {
 public:
  Expander(const SpecSyntax& spec, std::vector<Scalar> vars) : spec_(spec), vars_(std::move(vars)) {}

  void write(Model& model) {
    const Frame frame{"", "", &spec_.layers, {{}, vars_}};
    if (spec_.inputs.size() > 1 || spec_.inputs.front().name != "input")
      for (const InputSyntax& input : spec_.inputs) names_.declare(input.name, input.mark, Named::input);
    Namespace space;
    space.frame = &frame;
    model.layers = list(spec_.layers, space);
    collect_numbers(spec_.losses, frame.scope, space.taken);
    model.losses = transparent_list(spec_.losses, space);
  }

 private:
  class Level {  // one more structure within structures
   public:
    Level(int& depth, const SourceMark& mark) : depth_(depth) {
      if (depth_ >= kMaxModuleDepth)
        throw Error("modules nested deeper than " + std::to_string(kMaxModuleDepth) + " levels").at(mark);
      ++depth_;
    }
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    int& depth_;
  };

  void charge(std::int64_t entries, std::int64_t bytes, const SourceMark& mark) {
    refuse_too_large(entries, bytes, mark);  // a count may be any number, and the sum has to fit
    entries_ += entries;
    bytes_ += bytes;
    refuse_too_large(entries_, bytes_, mark);
  }

  static void refuse_too_large(std::int64_t entries, std::int64_t bytes, const SourceMark& mark) {
    if (entries > kMaxEntries)
      throw Error("the model has more than " + std::to_string(kMaxEntries) + " layers").at(mark);
    if (bytes > kMaxExpandedBytes)
      throw Error("the expanded model takes more than " + std::to_string(kMaxExpandedBytes) + " bytes").at(mark);
  }

  // now + times * each; each and times are within the limits, so the product fits.
  static std::int64_t projected(std::int64_t now, std::int64_t times, std::int64_t each) {
    return now + std::max<std::int64_t>(times, 0) * each;
  }

  // The body of a frame; errors within it say which frame it was.
  Body frame_body(const Frame& frame) {
    Namespace space;
    space.frame = &frame;
    if (frame.where.empty()) return list(*frame.layers, space);
    try {
      return list(*frame.layers, space);
    } catch (Error& error) {
      error.context(frame.where);
      throw;
    }
  }

  // A list that numbers its own entries.
  Body list(const ListSyntax& syntax, Namespace& space) {
    collect_numbers(syntax, space.frame->scope, space.taken);
    const std::vector<const EntrySyntax*> kept = kept_entries(syntax, space);
    space.next = static_cast<std::int64_t>(kept.size());
    Body body;
    body.reserve(kept.size());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const EntrySyntax& e = *kept[i];
      std::string name = is_transparent(e) ? "" : e.name.empty() ? std::to_string(i) : e.name;
      body.push_back(entry(e, space, std::move(name)));
    }
    return body;
  }

  // A list within a transparent structure: its unnamed entries continue the numbers around it.
  Body transparent_list(const ListSyntax& syntax, Namespace& space) {
    const std::vector<const EntrySyntax*> kept = kept_entries(syntax, space);
    Body body;
    body.reserve(kept.size());
    for (const EntrySyntax* e : kept) {
      std::string name = e->name;
      if (name.empty() && !is_transparent(*e)) {
        do name = std::to_string(space.next++);
        while (space.taken.contains(name));
      }
      body.push_back(entry(*e, space, std::move(name)));
    }
    return body;
  }

  std::vector<const EntrySyntax*> kept_entries(const ListSyntax& syntax, const Namespace& space) {
    std::vector<const EntrySyntax*> kept;
    kept.reserve(syntax.entries.size());
    charge(static_cast<std::int64_t>(syntax.entries.size()), 0, syntax.mark);  // those left out cost time too
    for (const EntrySyntax& e : syntax.entries)
      if (is_kept(e, space.frame->scope)) kept.push_back(&e);
    return kept;
  }

  Node entry(const EntrySyntax& syntax, Namespace& space, std::string name) {
    const Frame& frame = *space.frame;
    Node node;
    node.named = !syntax.name.empty();
    node.name = std::move(name);
    node.mark = syntax.mark;
    node.where = frame.where;
    node.frozen = syntax.frozen && syntax.frozen->boolean(frame.scope);
    node.checkpoint = syntax.checkpoint && syntax.checkpoint->boolean(frame.scope);
    node.reentrant = syntax.reentrant;
    node.keep = syntax.keep && syntax.keep->boolean(frame.scope);
    node.autocast = !syntax.autocast || syntax.autocast->boolean(frame.scope);
    node.grad = !syntax.grad || syntax.grad->boolean(frame.scope);
    node.when = syntax.when;
    for (std::size_t i = 0; i < syntax.from.size(); ++i)
      node.from.push_back(from(syntax.from[i], syntax.from_marks[i], space));
    node.from_marks = syntax.from_marks;
    if (!syntax.tie.empty()) {
      node.tie = names_.resolve_tie(syntax.tie, syntax.tie_mark, space);
      node.tie_mark = syntax.tie_mark;
    }
    const std::string path = frame.path + space.prefix + node.name;
    charge(0, static_cast<std::int64_t>(sizeof(Node) + 2 * path.size() + node.where.size()), node.mark);
    NameTable::Entry* slot = node.name.empty() ? nullptr : &names_.declare(path, node.mark, kind_of_entry(syntax));
    std::visit([&](const auto& what) { fill(node, what, space, path); }, syntax.what);
    if (slot != nullptr) slot->finished = true;
    return node;
  }

  static Named kind_of_entry(const EntrySyntax& syntax) {
    if (std::holds_alternative<CallSyntax>(syntax.what)) return Named::layer;
    if (std::holds_alternative<InlineBlockSyntax>(syntax.what)) return Named::block;
    const auto* call = std::get_if<BlockCallSyntax>(&syntax.what);
    return call != nullptr && !call->repeat ? Named::block : Named::group;
  }

  // `from` within the model's own list may name several inputs; "input" is then ambiguous.
  std::string from(const std::string& name, const SourceMark& mark, const Namespace& space) const {
    if (name == "input" && space.frame->path.empty() && spec_.inputs.size() > 1)
      throw Error("the model has several inputs")
          .at(mark)
          .label("name one of them")
          .help("inputs: " + joined(spec_.inputs, ", ", &InputSyntax::name));
    return names_.resolve_from(name, mark, space);
  }

  void fill(Node& node, const CallSyntax& syntax, Namespace& space, const std::string&) {
    LayerCall call = evaluate(syntax, space.frame->scope);
    charge(0, bytes_of(call), call.mark);
    node.what = std::move(call);
  }

  void fill(Node& node, const SequentialSyntax& syntax, Namespace& space, const std::string&) {
    const Level level(depth_, node.mark);
    Namespace inner = within(space, node.name);
    node.what = Repeat{list(syntax.layers, inner), syntax.loop.boolean(space.frame->scope)};
  }

  void fill(Node& node, const ResidualSyntax& syntax, Namespace& space, const std::string&) {
    const Level level(depth_, node.mark);
    Residual residual;
    residual.inplace = syntax.inplace.boolean(space.frame->scope);
    const bool shortcut = has_shortcut(syntax, space.frame->scope);
    const auto fill_from = [&](Namespace& names) {
      residual.body = transparent_list(syntax.body, names);
      if (shortcut) residual.shortcut = transparent_list(syntax.shortcut, names);
    };
    if (node.name.empty()) {
      fill_from(space);
    } else {
      Namespace inner = within(space, node.name);
      collect_numbers(syntax.body, space.frame->scope, inner.taken);
      if (shortcut) collect_numbers(syntax.shortcut, space.frame->scope, inner.taken);
      fill_from(inner);
    }
    residual.shortcut_first = syntax.shortcut_first && !residual.shortcut.empty();
    node.what = std::move(residual);
  }

  void fill(Node& node, const ParallelSyntax& syntax, Namespace& space, const std::string&) {
    const Level level(depth_, node.mark);
    Parallel parallel;
    parallel.join = syntax.join;
    parallel.dim = syntax.dim.integer(space.frame->scope);
    Namespace own = within(space, node.name);
    Namespace& names = node.name.empty() ? space : own;
    if (!node.name.empty())
      for (const ParallelSyntax::Branch& branch : syntax.branches)
        if (branch.name.empty()) collect_numbers(branch.layers, space.frame->scope, names.taken);
    for (const ParallelSyntax::Branch& branch : syntax.branches) {
      charge(1, static_cast<std::int64_t>(sizeof(Parallel::Branch) + branch.name.size()), branch.mark);
      if (branch.name.empty()) {
        parallel.branches.push_back({"", transparent_list(branch.layers, names)});
        continue;
      }
      names_.declare(names.frame->path + names.prefix + branch.name, branch.mark, Named::branch);
      Namespace inner = within(names, branch.name);
      parallel.branches.push_back({branch.name, list(branch.layers, inner)});
    }
    node.what = std::move(parallel);
  }

  void fill(Node& node, const InlineBlockSyntax& syntax, Namespace& space, const std::string& path) {
    const Level level(depth_, node.mark);
    const Frame frame{path + ".", "in " + path + " (block " + syntax.block + ")", &syntax.layers, space.frame->scope};
    node.what = Block{syntax.block, frame_body(frame), syntax.order};
  }

  void fill(Node& node, const BlockCallSyntax& syntax, Namespace& space, const std::string& path) {
    const Level level(depth_, node.mark);
    const BlockSyntax& block = spec_.blocks[syntax.block];
    const Scope& caller = space.frame->scope;
    if (!syntax.repeat) {
      const std::vector<Scalar> params = given(syntax, caller, false, false);
      const Frame frame{path + ".", "in " + path + " (block " + block.name + ")", &block.layers, {params, vars_}};
      node.what = Block{block.name, frame_body(frame), block.order};
      return;
    }
    const std::int64_t count = syntax.repeat->size(caller);
    charge(count, 0, syntax.repeat->mark());
    Repeat repeat;
    repeat.loop = syntax.loop && syntax.loop->boolean(caller);
    repeat.items.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t entries = entries_;
      const std::int64_t bytes = bytes_;
      repeat.items.push_back(item(node, syntax, path, caller, i, count));
      // Items between the first and the last are alike: what all of them take is known from one.
      if (i == 1) {
        const std::int64_t alike = count - 3;
        refuse_too_large(projected(entries_, alike, entries_ - entries), projected(bytes_, alike, bytes_ - bytes),
                         syntax.repeat->mark());
      }
    }
    node.checkpoint = false;  // its items' now
    node.what = std::move(repeat);
  }

  Node item(const Node& repeat, const BlockCallSyntax& syntax, const std::string& repeat_path, const Scope& caller,
            std::int64_t i, std::int64_t count) {
    const Level level(depth_, repeat.mark);
    const BlockSyntax& block = spec_.blocks[syntax.block];
    Node node;
    node.name = std::to_string(i);
    node.mark = repeat.mark;
    node.where = repeat.where;
    node.checkpoint = repeat.checkpoint;
    node.reentrant = repeat.reentrant;
    const std::string path = repeat_path + "." + node.name;
    charge(0, static_cast<std::int64_t>(sizeof(Node) + 2 * path.size() + node.where.size()), node.mark);
    NameTable::Entry& slot = names_.declare(path, node.mark, Named::block);
    const std::string where = "in " + path + " (block " + block.name + ", repeat " + std::to_string(i + 1) + " of " +
                              std::to_string(count) + ")";
    try {
      const std::vector<Scalar> params = given(syntax, caller, i == 0, i + 1 == count);
      const Frame frame{path + ".", where, &block.layers, {params, vars_}};
      node.what = Block{block.name, frame_body(frame), block.order};
    } catch (Error& error) {
      error.context(where);
      throw;
    }
    slot.finished = true;
    return node;
  }

  // A block's parameters in one call: with, then first and last where they apply, then the defaults.
  std::vector<Scalar> given(const BlockCallSyntax& call, const Scope& caller, bool first, bool last) const {
    const std::vector<ParamSyntax>& params = spec_.blocks[call.block].params;
    std::vector<Scalar> values(params.size());
    std::vector<const GivenParam*> givers(params.size(), nullptr);
    for (const GivenParam& g : call.with) givers[g.param] = &g;
    if (first)
      for (const GivenParam& g : call.first) givers[g.param] = &g;
    if (last)
      for (const GivenParam& g : call.last) givers[g.param] = &g;
    for (std::size_t i = 0; i < params.size(); ++i) {
      const ParamSyntax& param = params[i];
      if (givers[i] == nullptr && !param.otherwise) {
        const std::string& name = spec_.blocks[call.block].name;
        throw Error("the block " + name + " needs its parameter \"" + param.name + "\"")
            .at(call.mark)
            .label("missing: " + param.name)
            .help("write with: {" + param.name + ": ...}");
      }
      const Scope inner{std::span<const Scalar>(values).first(i), vars_};
      if (givers[i] == nullptr) {
        values[i] = param.otherwise->value(inner);
        continue;
      }
      values[i] = givers[i]->value.value(caller);
      if (param.otherwise) check_kind(*givers[i], values[i], param.otherwise->value(inner));
    }
    return values;
  }

  // A parameter keeps the kind of its default; an integer may stand for a real number.
  static void check_kind(const GivenParam& giver, const Scalar& value, const Scalar& otherwise) {
    const bool widened = std::holds_alternative<double>(otherwise) && std::holds_alternative<std::int64_t>(value);
    if (value.index() == otherwise.index() || widened) return;
    throw Error("this parameter is " + kind_of(otherwise) + ", not " + to_string(value))
        .at(giver.value.mark())
        .label("expected " + kind_of(otherwise))
        .help("its default is " + to_string(otherwise));
  }

  static Namespace within(const Namespace& space, const std::string& name) {
    Namespace inner;
    inner.frame = space.frame;
    inner.parent = &space;
    inner.prefix = space.prefix + name + ".";
    return inner;
  }

  const SpecSyntax& spec_;
  std::vector<Scalar> vars_;
  NameTable names_;
  int depth_ = 0;
  std::int64_t entries_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace

Model expand(const SpecSyntax& spec, const std::vector<Variable>& values) {
  const std::vector<Scalar> vars = evaluate_vars(spec, values);
  Model model;
  model.name = spec.name;
  for (std::size_t i = 0; i < vars.size(); ++i) {
    const auto* integer = std::get_if<std::int64_t>(&vars[i]);
    model.vars.push_back({spec.vars[i].name, integer != nullptr ? *integer : std::get<bool>(vars[i]) ? 1 : 0});
  }
  const Scope scope{{}, vars};
  for (const InputSyntax& input : spec.inputs) model.inputs.push_back(evaluate_input(input, scope));
  Expander(spec, vars).write(model);
  if (model.layers.empty()) throw Error("every layer of the model is left out by its `if`").at(spec.layers.mark);
  model.order = spec.order;
  model.own_loss = spec.own_loss;
  model.recorded_on = spec.recorded_on;
  model.exported_for = spec.exported_for;
  model.verified = spec.verified;
  model.differs = spec.differs;
  model.notes = spec.notes;
  model.construction = spec.construction;
  if (spec.lora) model.lora = evaluate_lora(*spec.lora, scope);
  if (spec.losses.entries.empty())
    model.loss = evaluate(spec.loss, scope);
  else if (model.losses.empty())
    throw Error("every entry of the loss is left out by its `if`").at(spec.losses.mark);
  return model;
}

}  // namespace gpuplan
