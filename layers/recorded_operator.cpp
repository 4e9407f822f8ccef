// Aten: an operator that has no layer, as PyTorch's own CUDA code ran it when a model was exported.
//
// The exporter runs the operator and its backward on a simulated GPU at several batches (tools/python/gpuplan/
// recorded_operators.py) and writes what PyTorch's allocator was asked for, in order. Nothing is known here of why.

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "estimator/aten/opaque_kernel.h"
#include "estimator/aten/promote.h"
#include "estimator/aten/recorded_call.h"
#include "estimator/base/integers.h"

namespace gpuplan::layers::recorded_operator {
namespace {

/// The widest floating type of the operands; fp32 where none is floating.
DType type_of(const LayerBuilder& b, std::span<const TensorId> x) {
  std::optional<DType> type;
  for (const TensorId t : x)
    if (is_floating(b.dtype(t))) type = type ? aten::promote(*type, b.dtype(t)) : b.dtype(t);
  return type.value_or(DType::fp32);
}

/// What autocast does to the operands, and whose type is the operator's.
enum class Autocast { none, half, fp32, widest, first, recorded };

Autocast autocast_of(const LayerBuilder& b) {
  constexpr std::pair<std::string_view, Autocast> kLists[] = {
      {"none", Autocast::none},     {"half", Autocast::half},   {"fp32", Autocast::fp32},
      {"widest", Autocast::widest}, {"first", Autocast::first}, {"recorded", Autocast::recorded}};
  const std::string_view word = b.word("autocast");
  for (const auto& [name, list] : kLists)
    if (name == word) return list;
  b.fail("autocast", "\"" + std::string(word) + "\" is none of autocast's lists",
         "expected none, half, fp32, widest, first or recorded");
}

std::vector<TensorId> operands(LayerBuilder& b, Autocast list) {
  std::vector<TensorId> x;
  for (int i = 0; i < b.input_count(); ++i) x.push_back(b.input(i));
  const bool converted = list == Autocast::half || list == Autocast::fp32 || list == Autocast::widest;
  if (!b.autocast() || !converted) return x;
  const DType widest = type_of(b, x);
  for (TensorId& t : x) {
    if (!is_floating(b.dtype(t))) continue;
    t = list == Autocast::half ? b.cached_cast(t) : list == Autocast::fp32 ? b.autocast_fp32(t) : b.cast(t, widest);
  }
  return x;
}

OpaqueKernel work_of(const aten::RecordedCall& call) {
  std::int64_t elements = 0;
  for (const OutputSpec& result : call.results) elements += result.shape.elements();
  OpaqueKernel work = aten::opaque_kernel(call.program, elements);
  work.macs = call.macs;
  return work;
}

/// More than one kernel of a plan takes: each allocation is an operation, and what a call frees is held until there.
/// `run` runs an operation that allocates one result, `hold` is where values go.
template <class Tensor, class Run, class Hold>
std::vector<Tensor> run_apart(const aten::RecordedCall& call, Run run, Hold hold) {
  std::vector<Tensor> results, scratch;
  std::vector<bool> held;
  OpaqueKernel work{.macs = call.macs};
  for (const std::int64_t action : call.program) {
    if (frees(action)) {
      hold({scratch[freed_by(action)]});
      held[freed_by(action)] = false;
      continue;
    }
    if (allocates(action)) {
      scratch.push_back(run(work, {Shape{action}, DType::uint8, Placing::contiguous}));
      held.push_back(true);
    } else {
      results.push_back(run(work, call.results[results.size()]));
    }
    work.macs = 0;
  }
  for (std::size_t i = 0; i < scratch.size(); ++i)
    if (held[i]) hold({scratch[i]});
  return results;
}

bool is_one_kernel(const aten::RecordedCall& call) { return call.program.size() <= OpaqueKernel{}.program.size(); }

/// Those of a type that has gradients.
std::vector<TensorId> differentiable(const LayerBuilder& b, std::span<const TensorId> outputs) {
  std::vector<TensorId> found;
  for (const TensorId t : outputs)
    if (is_floating(b.dtype(t))) found.push_back(t);
  return found;
}

void lower_backward(LayerBuilder& b, const aten::RecordedAt& at, std::string_view argument, std::span<const TensorId> x,
                    std::span<const TensorId> outputs, std::span<const TensorId> kept, std::span<const TensorId> held,
                    std::span<const TensorId> saved) {
  const std::vector<TensorId> of = differentiable(b, outputs);
  if (of.empty()) return;
  if (b.is_none(argument)) {
    for (const TensorId t : x)
      if (b.requires_grad(t))
        b.fail(argument, "the operator was recorded without its backward, and an input wants a gradient");
    return;
  }
  NodeBuilder node = b.node("AtenBackward0", of, x);
  if (!node) return;
  const aten::RecordedCall call =
      aten::recorded_backward(b, argument, at, x, static_cast<int>(of.size()), static_cast<int>(saved.size()));
  for (const aten::RecordedCall::Same& p : call.passed)
    if (node.needs(x[index(p.input)])) node.give(x[index(p.input)], node.grad(p.output));
  std::vector<Operand> reads;
  for (int k = 0; k < static_cast<int>(of.size()); ++k) reads.push_back(node.grad(k));
  reads.insert(reads.end(), kept.begin(), kept.end());
  for (const TensorId t : kept) node.save(t);
  for (const TensorId t : held) node.keep(t);
  const auto over = [&](const aten::RecordedCall::Over& o, TensorId t) {
    if (node.needs(x[index(o.input)])) node.give(x[index(o.input)], node.in_saved(t, x[index(o.input)]));
  };
  for (const aten::RecordedCall::Over& o : call.over_inputs) over(o, x[index(o.other)]);
  for (const aten::RecordedCall::Over& o : call.over_saved) over(o, saved[index(o.other)]);
  if (call.program.empty() && call.over_inputs.empty() && call.over_saved.empty()) return;
  const auto run = [&](const OpaqueKernel& work, const OutputSpec& result) {
    return node.run(Operator::recorded_backward, work, reads, result);
  };
  const std::vector<Operand> gradients =
      is_one_kernel(call) ? node.run_many(Operator::recorded_backward, work_of(call), reads, call.results)
                          : run_apart<Operand>(call, run, [&](Operands values) { node.hold(values); });
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (node.needs(x[index(call.of[i])])) node.give(x[index(call.of[i])], gradients[i]);
}

std::size_t output_count(const aten::RecordedCall& call) {
  const auto is_output = [](int of) { return of >= 0; };
  return index(std::ranges::count_if(call.of, is_output)) + call.in_place.size();
}

/// The first floating type, whose recording is the operator's where the operands have several.
DType first_type(const LayerBuilder& b, std::span<const TensorId> x) {
  const auto first = std::ranges::find_if(x, [&](TensorId t) { return is_floating(b.dtype(t)); });
  return first == x.end() ? DType::fp32 : b.dtype(*first);
}

/// The name of the argument that has the recording in these types: those that are left out are like another one.
std::string recording_of(const LayerBuilder& b, std::span<const TensorId> x, DType type, Autocast list,
                         std::string_view direction) {
  const bool amp = list == Autocast::recorded && b.autocast();
  const auto is_wide = [&](TensorId t) { return is_floating(b.dtype(t)) && !is_half(b.dtype(t)); };
  std::vector<std::string> prefixes;
  if (is_half(type) && std::ranges::any_of(x, is_wide)) prefixes.emplace_back("mixed_");
  if (amp) prefixes.emplace_back(is_half(type) ? "amp_half_" : "amp_");
  if (is_half(type)) prefixes.emplace_back("half_");
  for (const std::string& prefix : prefixes) {
    if (b.is_word(prefix + "forward") && b.word(prefix + "forward") == "refused")
      b.fail(prefix + "forward",
             "PyTorch's " + std::string(b.word("operator")) + " does not take " + std::string(name_of(type)));
    if (std::string name = prefix + std::string(direction); !b.is_none(name)) return name;
  }
  return std::string(direction);
}

void lower(LayerBuilder& b) {
  const Autocast list = autocast_of(b);
  const std::vector<TensorId> x = operands(b, list);
  const bool of_first = list == Autocast::first || list == Autocast::recorded;
  const aten::RecordedAt at{b.batch(), of_first ? first_type(b, x) : type_of(b, x), b.autocast().value_or(DType::bf16)};
  if (at.type == DType::fp64)
    b.fail(std::string(b.word("operator")) +
           " was recorded in fp32 and in half types, not in fp64; gpuplan shadow --learn plans the step of any script");
  const aten::RecordedCall call = aten::recorded_forward(b, recording_of(b, x, at.type, list, "forward"), at);
  const auto run = [&](const OpaqueKernel& work, const OutputSpec& result) {
    return b.emit(Operator::recorded, work, x, result);
  };
  const std::vector<TensorId> results = is_one_kernel(call)
                                            ? b.emit_many(Operator::recorded, work_of(call), x, call.results)
                                            : run_apart<TensorId>(call, run, [&](Operands t) { b.hold(t); });
  std::vector<TensorId> outputs(output_count(call)), kept, held, saved;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (call.of[i] >= 0) {
      outputs[index(call.of[i])] = results[i];
      continue;
    }
    kept.push_back(results[i]);
    saved.push_back(results[i]);
    if (call.of[i] == aten::RecordedCall::kHeld) held.push_back(results[i]);
  }
  const auto results_held = static_cast<std::ptrdiff_t>(held.size());
  for (const aten::RecordedCall::Same& same : call.in_place)
    outputs[index(same.output)] = b.emit_in_place(Operator::recorded, OpaqueKernel{}, {x[index(same.input)]});
  for (const int i : call.kept_inputs) kept.push_back(x[index(i)]);
  for (const int i : call.kept_outputs) kept.push_back(outputs[index(i)]);
  for (const int i : call.held_inputs) held.push_back(x[index(i)]);
  kept.insert(kept.end(), held.begin() + results_held, held.end());
  lower_backward(b, at, recording_of(b, x, at.type, list, "backward"), x, outputs, kept, held, saved);
  b.outputs(outputs);
}

const LayerDef kLayers[] = {
    {.name = "Aten",
     .summary = "any operator, as it was recorded",
     .math =
         "What PyTorch's CUDA code allocated when the exporter ran the operator on a simulated GPU, in order.\n"
         "forward:\n"
         "  yN=xM             an output that is an input, changed in place\n"
         "  yN=TYPE[SIZES]    an output; /AMOUNT behind it is its storage's, where that is larger\n"
         "  sAMOUNT           what only its backward reads\n"
         "  +AMOUNT, -N       scratch that comes, and the N-th one that goes; c+AMOUNT is cuDNN's\n"
         "  xN, yN            inputs and outputs that its backward keeps\n"
         "  hsAMOUNT, hxN     the same until the graph goes, in attributes of its node\n"
         "  macs=AMOUNT       multiply-adds\n"
         "backward: +, - and macs= as before, and\n"
         "  dN, dN=gM         the gradient of an input; that of an output itself\n"
         "  dN=xM, dN=sM      one that is written over an input, or over the M-th s of the forward\n"
         "AMOUNT is 512+4096b, b being the batch, and in elements of the operands' type where an e follows; or bytes\n"
         "at some batches, 2:512,16:4096, with a line between them. TYPE is float, the operands' type, amp, "
         "autocast's,\n"
         "or float32, int64, bool, ... autocast names the list that the operator is in, first where it has its first\n"
         "operand's type, recorded where the recordings amp_... are of all that autocast does.",
     .parameters = {{"operator", ParameterType::word, "", "its name"},
                    {"forward", ParameterType::word, "", "what it allocated"},
                    {"backward", ParameterType::word, "None", "what its backward allocated"},
                    {"half_forward", ParameterType::word, "None", "in half types, where it is another; or refused"},
                    {"half_backward", ParameterType::word, "None", "the same of backward"},
                    {"mixed_forward", ParameterType::word, "None",
                     "what the model computed in half types, its weights in fp32"},
                    {"mixed_backward", ParameterType::word, "None", "the same of backward"},
                    {"amp_forward", ParameterType::word, "None", "under autocast, of operands in fp32"},
                    {"amp_backward", ParameterType::word, "None", "the same of backward"},
                    {"amp_half_forward", ParameterType::word, "None", "under autocast, of operands in half types"},
                    {"amp_half_backward", ParameterType::word, "None", "the same of backward"},
                    {"autocast", ParameterType::word, "none", "none, half, fp32, widest, first or recorded"}},
     .max_inputs = std::numeric_limits<int>::max(),
     .indices = true,
     .lower = lower,
     .example = {.call = "Aten(softshrink, forward=\"y0=float[b,8,14,14] x0\", backward=\"d0\")",
                 .input_shapes = {{4, 8, 14, 14}},
                 .saved_bytes = 25'088,
                 .derivation = "x is 4*8*14*14*4 bytes"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::recorded_operator
