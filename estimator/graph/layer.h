// A layer of the catalog (LayerDef), and the LayerBuilder that its `lower` function uses. A layer is one file: its
// math, its parameters (with torch.nn's names, order and defaults), `lower`, and a worked example.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/graph/graph.h"
#include "estimator/graph/tensor_style.h"
#include "estimator/operators/scratch_program.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

class LayerBuilder;

enum class ParameterType : std::uint8_t {
  size,      // an integer >= 1, or _
  integer,   // any integer
  pair,      // an integer or two of them
  integers,  // one or more integers, as *args or a tuple
  real,
  boolean,
  word,  // a word or quoted string
};

struct ParameterDef {
  std::string_view name;
  ParameterType type = ParameterType::integer;
  std::string_view default_value = "";  // as Python writes it; empty: required
  std::string_view doc = "";
  bool variadic = false;  // takes all remaining positional arguments (Flatten no, View yes)
};

/// A worked example with expectations that a person can derive; the tests run it and `gpuplan explain` prints it.
struct LayerExample {
  std::string_view call;                                // "Linear(784, 512)"
  std::vector<std::vector<std::int64_t>> input_shapes;  // with the batch
  DType input_dtype = DType::fp32;
  // The first input's where none is given; {}: a scalar.
  std::vector<std::int64_t> output_shape = input_shapes.empty() ? std::vector<std::int64_t>{} : input_shapes.front();
  std::int64_t parameters = 0;
  std::int64_t forward_macs = 0;
  std::int64_t backward_macs = 0;  // of a layer whose input needs a gradient
  std::int64_t saved_bytes = 0;    // what its autograd nodes keep beside parameters, inputs of the layer included
  std::string_view derivation;
};

struct LayerDef {
  std::string_view name;
  std::string_view summary;
  std::string_view math;  // formula, shapes, what is saved, and the source of the rule
  std::vector<ParameterDef> parameters = {};
  int min_inputs = 1;
  int max_inputs = min_inputs;
  bool loss = false;
  bool in_model = false;  // a loss that the model computes itself, within its forward (Hugging Face)
  bool adapter = false;   // its weights are made after the model: of fp32 where that is of half precision, trained
  bool indices = false;   // its input may be integers; weights need a floating-point one otherwise
  void (*lower)(LayerBuilder&) = nullptr;
  LayerExample example;
};

/// All layers, sorted by name. Passed in, never looked up globally.
using Catalog = std::span<const LayerDef* const>;
/// nullptr when there is none.
const LayerDef* find_layer(Catalog catalog, std::string_view name);

/// A non-owning list of operands, made from a vector, an array, a span or a braced list. Do not store it.
template <class Value>
class Several : public std::span<const Value> {
 public:
  Several(std::initializer_list<Value> values) : Several(values.begin(), values.size()) {}
  template <class Values>
  requires std::is_convertible_v<const Values&, std::span<const Value>> Several(const Values& values)
      : std::span<const Value>(values) {}

 private:
  Several(const Value* first, std::size_t count) : std::span<const Value>(first, count) {}
};
using Operands = Several<Operand>;  // in forward: ids of tensors

/// Result of an operation. Without `placing` a pointwise kernel's result lies as TensorIterator places it and any other
/// one is contiguous.
struct OutputSpec {
  Shape shape;
  DType dtype = DType::fp32;
  std::optional<Placing> placing = std::nullopt;
  Strides strides = {};    // Placing::given
  std::int64_t bytes = 0;  // of its storage, where that is larger than the shape says
};

/// Records the backward of one forward operation during lowering; must be finished before the next node is begun.
/// Operands are forward tensors or values of this node. Reading a forward tensor saves it for backward.
class NodeBuilder {
 public:
  /// False: no gradient flows here, nothing is recorded and nothing is saved.
  explicit operator bool() const { return graph_ != nullptr; }
  /// True when the gradient of this input is wanted.
  bool needs(TensorId input) const;
  /// The gradient of output k, as it arrives.
  Operand grad(int k = 0) const { return local(k); }
  /// Runs a kernel that allocates one result.
  Operand run(Operator op, const Primitive& what, Operands reads, const OutputSpec& output);
  Operand run(Operator op, const Primitive& what, Operands reads, const Shape& shape, DType dtype) {
    return run(op, what, reads, {shape, dtype});
  }
  /// Runs a kernel with several results, allocated in this order.
  std::vector<Operand> run_many(Operator op, const Primitive& what, Operands reads,
                                std::span<const OutputSpec> outputs);
  /// Runs a kernel that writes into what it reads.
  void run_in_place(Operator op, const Primitive& what, Operands reads);
  /// Of the kernel run last: arguments that are alive anyway, and arguments that are no tensors (see Op).
  void extra(Operands operands);
  void attributes(std::span<const AttributeValue> values);
  void attributes(std::initializer_list<AttributeValue> values) {
    attributes(std::span(values.begin(), values.size()));
  }
  /// Holds values until here, as names in the function that computes the gradients do.
  void hold(Operands values) { run_in_place(Operator::locals_die, Marker{}, values); }

  // Views of a value of this node (not of a forward tensor). The first three need no kernel.
  /// Another tensor object of the same shape on the same storage.
  Operand view(Operand value);
  /// No view of a value: a gradient of `like` that is written over a forward tensor, which nothing reads after the
  /// node.
  Operand in_saved(TensorId over, TensorId like);
  /// Dimension i of the result is dimension order[i] of the value.
  Operand permute(Operand value, std::span<const int> order);
  Operand expand(Operand value, const Shape& shape);
  /// A part of the value, of this shape, from position `start` of dimension `dim` on.
  Operand narrow(Operand value, const Shape& shape, int dim, std::int64_t start);
  /// A contiguous piece of a contiguous value, from its element `start` on.
  Operand piece(Operand value, const Shape& shape, std::int64_t start);
  /// value.reshape(shape): a view, or a copy where its strides allow none.
  Operand reshape(Operand value, const Shape& shape);
  /// value.contiguous(format): itself, or a copy.
  Operand contiguous(Operand value, MemoryFormat format = MemoryFormat::contiguous);
  /// value.contiguous(value.suggest_memory_format()): itself, or a copy, as of a slice of channels.
  Operand without_gaps(Operand value);
  /// value.to(memory_format): itself where its strides suggest that format, be it with gaps, or a copy.
  Operand to_format(Operand value, MemoryFormat format);
  /// value.to(dtype): itself, or a copy.
  Operand cast(Operand value, DType dtype);
  const Shape& shape(Operand value) const;
  DType dtype(Operand value) const;

  /// The gradient of `input` is `value`. Where its shape or type is another one, the engine sums it to the input's
  /// shape and casts it, after everything that the node runs itself (torch/csrc/autograd/engine.cpp, validate_outputs).
  void give(TensorId input, Operand value);
  /// Keeps a forward tensor that no kernel of the backward reads (convolution's unneeded operand, avg_pool2d's input).
  void save(TensorId tensor);
  /// Lets go of a saved tensor where a kernel of the node last reads it, and not when all of them have run.
  void clear(TensorId tensor);
  /// Keeps it until the graph goes, beyond this node's backward.
  void keep(TensorId tensor);

 private:
  friend class LayerBuilder;
  Graph* graph_ = nullptr;
  NodeId node_ = kNone;
  Operand add_local(const BackwardValue& value);
  Operand add_result(const OutputSpec& output);
  Operand add_view(ViewKind kind, Operand value, const Shape& shape);
  BackwardValue& value_of(Operand value) const;
  Op& append(Operator op, const Primitive& what, std::span<const Operand> reads);
};

struct Pair {
  std::int64_t h = 0, w = 0;
};

/// One of a model's calls of a layer.
struct LoweredCall {
  const LayerDef* def = nullptr;
  const LayerCall* written = nullptr;  // must outlive the lowering
  bool frozen = false;
  bool head = false;   // it makes the model's output
  bool saved = false;  // a copy of its weights is trained in their place
  LayerId layer = kNone;
  LayerId tied = kNone;  // the layer whose weights it shares, or the loss whose targets
};

/// What a layer's `lower` sees: its arguments, its inputs, and the graph to append to.
class LayerBuilder {
 public:
  LayerBuilder(Graph& graph, const RunConfig& run, const Gpu& gpu) : graph_(graph), run_(run), gpu_(gpu) {}

  // --- arguments, by torch.nn's names; a type or range that is wrong throws Error at the argument
  bool given(std::string_view name) const;    // written, and not None
  bool is_none(std::string_view name) const;  // None, by default or written
  std::int64_t integer(std::string_view name) const;
  /// A size: checked against `inferred` when written, taken from it when `_`. `what` words the error: "input channels".
  std::int64_t size(std::string_view name, std::int64_t inferred, std::string_view what) const;
  std::int64_t size(std::string_view name) const;  // not inferable
  /// One integer for both or two, each within 32 bits as cuDNN's and the pooling kernels' arguments are.
  Pair pair(std::string_view name) const;
  std::vector<std::int64_t> integers(std::string_view name) const;
  /// The same, `_` standing for the batch.
  std::vector<std::int64_t> sizes(std::string_view name) const;
  /// Of the model's inputs, a micro-batch's where there are several.
  std::int64_t batch() const;
  double real(std::string_view name) const;
  bool is_integer(std::string_view name) const;  // written, without a fraction or an exponent
  bool boolean(std::string_view name) const;
  std::string_view word(std::string_view name) const;
  bool is_word(std::string_view name) const;  // written, as a word
  /// Throws Error at the argument (or the call).
  [[noreturn]] void fail(std::string_view argument, std::string message, std::string label = "") const;
  [[noreturn]] void fail(std::string message) const { fail("", std::move(message)); }

  // --- inputs
  int input_count() const { return static_cast<int>(inputs_.size()); }
  TensorId input(int i = 0) const { return inputs_[static_cast<std::size_t>(i)]; }
  Shape shape(TensorId t) const { return graph_.tensor(t).shape; }  // by value: every new tensor may move the others
  DType dtype(TensorId t) const { return graph_.tensor(t).dtype; }
  std::int64_t elements(TensorId t) const { return shape(t).elements(); }
  bool contiguous(TensorId t) const { return graph_.tensor(t).contiguous; }
  Strides strides(TensorId t) const { return graph_.tensor(t).strides; }
  MemoryFormat suggested_format(TensorId t) const;
  bool requires_grad(TensorId t) const { return !without_grad_ && graph_.tensor(t).requires_grad; }
  /// A weight that is trained, also where no gradient is computed.
  bool trained(TensorId t) const { return graph_.tensor(t).trained; }
  /// Whether tensor.requires_grad is True, which views of a trained weight say under no_grad, too.
  bool says_requires_grad(TensorId t) const { return graph_.tensor(t).requires_grad || graph_.tensor(t).of_trained; }
  /// Throws Error unless the input has this rank ("expects [N, C, H, W]").
  void expect_rank(int rank, std::string_view layout) const;

  // --- what is run
  const RunConfig& run() const { return run_; }
  const Gpu& gpu() const { return gpu_; }
  /// How the ranks of tensor parallelism share the layer; `whole` where there are none.
  TensorStyle tensor_style() const;
  bool training() const { return run_.mode == Mode::train; }
  /// True for releases older than major * 100 + minor.
  bool before(PyTorchVersion version) const { return run_.pytorch < version; }

  // --- weights
  /// A parameter named "PATH.name", `name` of static lifetime; an empty name is the path itself. Of integers it is
  /// frozen.
  TensorId parameter(std::string_view name, const Shape& shape) { return parameter(name, shape, run_.precision); }
  TensorId parameter(std::string_view name, const Shape& shape, DType dtype);
  TensorId buffer(std::string_view name, const Shape& shape, DType dtype, Initial initial = {});
  /// bitsandbytes' form that the module's matrix is stored in, and its module computes with; nothing where the layer is
  /// torch.nn's.
  std::optional<WeightFormat> stored() const;
  /// Whether both lie in one storage.
  bool is_view_of(TensorId t, TensorId base) const { return buffer_of(graph_, t) == buffer_of(graph_, base); }
  /// The target of a loss, an input of the step.
  TensorId target(const Shape& shape, DType dtype);

  // --- forward: kernels. Those that compute in autocast's type or in fp32 ask for their operands first
  TensorId emit(Operator op, const Primitive& what, Operands reads, const OutputSpec& output);
  TensorId emit(Operator op, const Primitive& what, Operands reads, const Shape& shape, DType dtype) {
    return emit(op, what, reads, {shape, dtype});
  }
  std::vector<TensorId> emit_many(Operator op, const Primitive& what, Operands reads,
                                  std::span<const OutputSpec> outputs);
  /// Writes into the first tensor read; the result is the same Python object.
  TensorId emit_in_place(Operator op, const Primitive& what, Operands reads);
  /// Of the kernel emitted last: arguments that are alive anyway (kNone: not given), and those that are no tensors.
  void extra(Operands tensors);
  void attributes(std::span<const AttributeValue> values);
  void attributes(std::initializer_list<AttributeValue> values) {
    attributes(std::span(values.begin(), values.size()));
  }
  /// Keeps tensors alive until here, as local variables of a function do.
  void hold(Operands tensors) { emit_many(Operator::locals_die, Marker{}, tensors, {}); }
  struct Returned {  // ModelBuilder::return_beside()
    TensorId tensor;
    int frames;
  };
  /// `sent` stays until the first kernel that reads `result`, a collective's that nobody has waited for yet
  /// (torch/distributed/_functional_collectives.py, AsyncCollectiveTensor).
  void keep_until_read(TensorId sent, TensorId result) { unwaited_ = {sent, result}; }
  /// The same storage under another shape and strides, without an autograd node between; `offset` elements further on.
  TensorId alias(TensorId t, const Shape& shape, const Strides& strides, std::int64_t offset = 0);

  /// t as a DTensor, or as this rank's tensor: DTensor.from_local(t), t.to_local(). Itself where it is one.
  TensorId distributed(TensorId t, bool is);
  /// Stands for Python's None where a tensor like `t` may be: of its shape, without memory.
  TensorId none_like(TensorId t);

  // --- forward: autocast (torch.amp; aten/src/ATen/autocast_mode.cpp)
  /// The type that matrix products compute in under autocast; empty outside of it, where an entry turns it off, too.
  std::optional<DType> autocast() const { return without_autocast_ ? std::nullopt : run_.autocast; }
  /// cached_cast to autocast's type: a trained fp32 weight is cast once a context, anything else each time. The tensor
  /// itself outside of autocast, when it is not floating or has the type already.
  TensorId cached_cast(TensorId t);
  /// To fp32 under autocast, as the operators of its fp32 list are given their operands.
  TensorId autocast_fp32(TensorId t);
  /// t.to(dtype): itself or a copy, with its node.
  TensorId cast(TensorId t, DType dtype);

  /// What follows is of a module within the layer, a unit of its own where FSDP2 shares the experts; `type` of static
  /// lifetime. Returns what end_part() goes back to.
  LayerId begin_part(std::string_view name, std::string_view type);
  void end_part(LayerId layer);

  /// What a rank of context parallelism is given beside its tokens (RunConfig::context_ranks), of those tokens each.
  struct Context {
    TensorId shifted_labels = kNone, positions = kNone;
  };
  const std::optional<Context>& context() const { return context_; }

  /// Whether what follows has no gradient, as under torch.no_grad() or what is detached. Returns what was before.
  bool leave_grad(bool leave) { return std::exchange(without_grad_, leave); }

  /// The autograd node of what was just run. Empty (false) when no input requires a gradient.
  NodeBuilder node(std::string_view name, Operands outputs, Operands inputs);
  NodeBuilder node(std::string_view name, TensorId output, Operands inputs) {
    return node(name, Operands{output}, inputs);
  }

  /// The outputs of the layer; several for Chunk and Split.
  void output(TensorId t) { outputs_ = {t}; }
  void outputs(std::vector<TensorId> ts) { outputs_ = std::move(ts); }

 private:
  friend class NodeBuilder;
  friend class LayerLowering;
  friend class ModelBuilder;
  struct Bound {
    const Value* value = nullptr;  // null: the default
    SourceMark mark;
    std::int32_t first_positional = -1, positionals = 0;  // variadic
  };
  TensorId new_tensor(const Shape& shape, DType dtype, Category category);
  TensorId new_input(const Shape& shape, DType dtype);
  bool in_format() const;
  bool reads_distributed(Operands reads) const;
  void wait_for(Operands reads);
  int index_of(std::string_view name) const;  // -1 for none
  std::vector<std::int64_t> listed(std::string_view name, std::optional<std::int64_t> inferred) const;
  std::size_t declared(std::string_view name) const;
  const Value* argument(std::string_view name) const { return bound_[declared(name)].value; }
  Value value_of(std::string_view name) const;  // the default's where nothing was written
  void bind();
  Bound& place_of(const Argument& argument, std::size_t& position);
  TensorId trained_copy(TensorId t, std::string_view name);
  TensorId tied_parameter(std::string_view name, const Shape& shape) const;
  TensorId tied_buffer(std::string_view name, const Shape& shape) const;
  void mark_views(std::span<const TensorId> outputs, std::span<const TensorId> inputs);
  void place(TensorId result, const OutputSpec& output, const Primitive& what, std::span<const TensorId> reads);

  Graph& graph_;
  const RunConfig& run_;
  const Gpu& gpu_;
  LoweredCall call_;
  std::vector<TensorId> inputs_;
  std::vector<TensorId> outputs_;
  std::vector<Returned> returned_;
  std::vector<Bound> bound_;
  std::unordered_map<TensorId, TensorId> cast_cache_;  // autocast's: the weight, its cast
  std::optional<Context> context_;
  struct Unwaited {
    TensorId sent = kNone, result = kAbsent;
  };
  Unwaited unwaited_;
  bool without_autocast_ = false;                  // within an entry with `autocast: false`
  bool without_grad_ = false;                      // within an entry with `grad: false`
  std::unordered_map<LayerId, TensorId> targets_;  // of losses
};

}  // namespace gpuplan
