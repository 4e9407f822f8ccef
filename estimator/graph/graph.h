// One forward and backward of a model, as PyTorch would run it: tensors, forward operations in order, and autograd
// nodes with the operations of their backward. Shapes are inferred while it is built. A graph is a few flat vectors
// that refer to each other by index, so it can be built, scheduled and freed in microseconds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/dtype.h"
#include "estimator/base/error.h"
#include "estimator/base/shape.h"
#include "estimator/base/strides.h"
#include "estimator/operators/operators.h"
#include "estimator/operators/primitive.h"

namespace gpuplan {

using TensorId = std::int32_t;
using BufferId = std::int32_t;
using NodeId = std::int32_t;
using LayerId = std::int32_t;
constexpr std::int32_t kNone = -1;

/// The purpose of a buffer: the rows of every memory breakdown.
enum class Category : std::uint8_t {
  parameters,
  buffers,
  gradients,
  optimizer_state,
  inputs,
  activations,
  activation_gradients,
  scratch,
  kv_cache
};
constexpr int kCategories = 9;
std::string_view name_of(Category category);

/// A storage. Views and in-place results share one.
struct Buffer {
  std::int64_t bytes = 0;  // unrounded
  Category category = Category::activations;
  LayerId layer = kNone;
};

struct Tensor {
  Shape shape;
  Strides strides;
  DType dtype = DType::fp32;
  BufferId buffer = kNone;
  bool requires_grad = false;
  std::int64_t offset = 0;        // elements between the beginning of the storage and the first one
  bool contiguous = true;         // strides are row-major
  bool trained = false;           // a parameter whose requires_grad is set, also where no gradient is computed
  bool distributed = false;       // a DTensor, of sequence parallelism (TensorPlan)
  bool of_trained = false;        // a trained parameter, autocast's cached cast of one, or a view of either
  NodeId producer = kNone;        // the autograd node whose output it is; kNone for leaves
  std::int32_t output_index = 0;  // which output
  TensorId replaced_by = kNone;   // the same Python object after an in-place operation
};

/// An operand of a backward operation: a forward tensor (>= 0), or a value of the node (~index).
using Operand = std::int32_t;
constexpr Operand local(std::int32_t index) { return ~index; }
constexpr Operand kAbsent = INT32_MIN;  // an optional argument that was not given

struct Range {  // into one of the graph's flat vectors
  std::int32_t begin = 0, end = 0;
};

/// One kernel-level operation.
struct Op {
  Operator kind;
  Primitive what;
  LayerId layer = kNone;
  Range reads;   // of Graph::operands
  Range writes;  // of Graph::operands: what it allocates, in order; in-place results are only read
  // Used only when the operation is executed; these do not affect memory.
  Range extra = {};  // of Graph::operands: arguments that are alive anyway, weights and statistics; kAbsent: not given
  Range attributes = {};  // of Graph::attributes: arguments that are no tensors
};

/// How the result of an operation lies in memory.
enum class Placing : std::uint8_t {
  contiguous,
  channels_last,
  pointwise,  // as TensorIterator places the result of what the operation reads
  like,       // as empty_like of the first operand read, or of a part of it
  suggested,  // in the memory format that the first operand read suggests
  given       // BackwardValue::strides
};

/// How a value of a node is derived from another one.
enum class ViewKind : std::uint8_t {
  none,              // a result of its own
  same,              // another tensor object of the same shape
  permute,           // BackwardValue::order
  expand,            // repeated along dimensions of size 1, new ones in front
  narrow,            // a part along a dimension
  saved,             // no view of a value: it lies where a forward tensor lies, whose TensorId is alias_of
  reshape,           // a view where the strides allow one, else a copy
  contiguous,        // itself where it is row-major, else a copy
  channels_last,     // itself where it is channels-last, else a copy
  without_gaps,      // itself where it fills its memory in the format that its strides suggest, else a copy in that
  to_contiguous,     // itself where its strides do not suggest channels-last, else a copy
  to_channels_last,  // itself where they do, else a copy
};
/// Views that become copies if the value's strides require it.
constexpr bool may_copy(ViewKind kind) { return kind >= ViewKind::reshape; }

/// A value inside an autograd node's backward. The first ones are the incoming gradients, one an output.
struct BackwardValue {
  Shape shape;
  DType dtype = DType::fp32;
  Placing placing = Placing::contiguous;
  ViewKind view = ViewKind::none;
  std::int32_t strides = kNone;    // of Graph::strides: Placing::given; the dimension order of ViewKind::permute
  std::int32_t alias_of = kNone;   // the value that it views or copies, or ViewKind::saved's tensor
  std::int64_t storage_bytes = 0;  // if the storage is larger than the shape requires
  std::int64_t start = 0;          // ViewKind::narrow: the first position of dimension `dim`; same: the first element
  std::int32_t dim = 0;
  std::int64_t bytes() const { return std::max(storage_bytes, shape.elements() * size_of(dtype)); }
};

struct GradientEdge {
  TensorId input = kNone;      // the forward tensor it is the gradient of
  std::int32_t value = kNone;  // BackwardValue index within the node
};

struct AutogradNode {
  std::string_view name;  // "ConvolutionBackward0"
  LayerId layer = kNone;
  std::int32_t op = kNone;  // of Graph::forward_ops: the last one run when the node was made
  Range outputs;            // of Graph::operands: forward tensors
  Range saved;              // of Graph::saved: forward tensors it keeps alive until it ran
  Range ops;                // of Graph::backward_ops
  Range locals;             // of Graph::locals
  Range edges;              // of Graph::edges, in the order of the forward op's inputs
};

/// A leaf module or functional op of the model, in the order of execution; a row of the layer table.
struct Layer {
  std::string name;  // PyTorch path, "layer1.0.conv1"
  std::string_view type;
  SourceMark mark;
  Range inputs;  // of Graph::operands
  TensorId output = kNone;
  Range ops;                    // of Graph::forward_ops
  std::int64_t parameters = 0;  // elements owned by it
  bool module = true;           // false: the loss, frames
  bool dispatched = false;      // experts that the ranks of expert parallelism share, within the layer before
};

/// What an autograd.Function keeps as an attribute of its own (`ctx.x = x`): backward lets nothing of it go, and it
/// goes with the graph.
struct HeldByNode {
  NodeId node = kNone;  // kNone: that of a reentrant checkpoint, which is none of Graph::nodes
  TensorId tensor = kNone;
};

/// A part of the forward that keeps only what it was given and is run again in backward (torch.utils.checkpoint).
struct Checkpoint {
  Range ops;    // of Graph::forward_ops
  Range nodes;  // of Graph::nodes
  Range given;  // of Graph::operands
  /// use_reentrant=True: all of it is run again, by a backward of its own that what it returned outlives.
  bool reentrant = false;
  Range returned = {};  // of Graph::operands, where it is reentrant
  /// Some results are kept, and not computed again: kept_by_policy().
  bool selective = false;
};

/// peft's adapters are trained in fp32 where the model is of half precision (autocast_adapter_dtype).
constexpr DType adapter_type(DType model) { return model == DType::fp16 || model == DType::bf16 ? DType::fp32 : model; }

/// What a buffer of the model holds before the first step.
struct Initial {
  enum Kind : std::uint8_t {
    zeros,
    number,      // `value`
    count,       // 0, 1, 2, ... along the last dimension
    frequencies  // 1 / value^(i / n) for i < n: rotary embedding's
  };
  Kind kind = zeros;
  double value = 0;
};

/// A buffer by the name that its layer gave it, of static lifetime.
struct BufferTensor {
  TensorId tensor = kNone;
  std::string_view name;
  LayerId layer = kNone;
};

struct ParameterTensor {
  TensorId tensor = kNone;
  std::string_view name;  // "weight", of static lifetime; empty: it is called as its layer
  LayerId layer = kNone;
  bool trainable = true;
  /// Elements of a gradient that is DTensor's Partial: of the whole parameter, summed over the ranks of tensor
  /// parallelism whenever it is read; 0: it is none.
  std::int64_t partial_elements = 0;
  bool adapter = false;  // peft's, beside a layer
  bool packed = false;   // stored in another form than its shape and type say (--weights)
};

/// Weights that a module's constructor copied into one storage, of which they are views since.
struct FlatWeights {
  TensorId whole = kNone;  // in Graph::model_storage, after its parts
  Range parts;             // of Graph::operands: the storages that were theirs before
};

struct Graph {
  std::string model;
  std::vector<Buffer> buffers;
  std::vector<Tensor> tensors;
  std::vector<std::int32_t> operands;
  std::vector<AttributeValue> attributes;
  std::vector<Op> forward_ops;  // forward, then the loss from loss_begin on
  std::int32_t loss_begin = 0;
  std::int32_t division = kNone;  // of the loss, as backward begins (RunConfig::divides_loss)
  std::vector<Op> backward_ops;
  std::vector<TensorId> saved;
  std::vector<BackwardValue> locals;
  std::vector<Strides> strides;  // of the few locals that are placed by them
  std::vector<GradientEdge> edges;
  std::vector<AutogradNode> nodes;  // in order of creation: PyTorch's sequence numbers
  std::vector<Layer> layers;
  std::vector<ParameterTensor> parameters;  // in the order of model.parameters()
  std::vector<BufferTensor> named_buffers;  // in the order of their layers
  /// Parameters and buffers in the order they are allocated. Those of category scratch are weights replaced by the
  /// ones they are tied to, gone once the model is built, or by flat ones, gone once those are there.
  std::vector<TensorId> model_storage;
  TensorId labels = kNone;         // the input that the model's own loss takes as its labels, too
  std::vector<Shape> tied_shapes;  // of weights that have several places in the model, each once
  std::vector<std::pair<TensorId, Initial>> initial_values;  // of buffers that do not begin with zeros
  std::vector<FlatWeights> flat_weights;                     // in the order of creation
  /// What constructors allocate and free, as Schedule::scratch; kResultAllocation is the next of model_storage. Those
  /// that it does not place are there before.
  std::vector<std::int64_t> initialization;
  /// `initialization` has all of it: no weight is assumed to be replaced by one that it is tied to.
  bool knows_construction = false;
  /// Parameters of adapters, two each, in the order they are added to the model once it is built: the last ones of
  /// model_storage.
  std::vector<TensorId> adapters;
  std::vector<TensorId> saved_modules;   // copies of weights that are trained in their place, made after all adapters
  std::vector<Checkpoint> checkpoints;   // in the order of execution, not nested
  std::vector<Checkpoint> wrapped;       // what FSDP2 wraps: as checkpoints, and none of them is one
  std::vector<TensorId> autocast_casts;  // what autocast's cache holds until its context ends
  std::vector<TensorId> inputs;          // of the model, then the targets of the loss
  TensorId output = kNone;
  TensorId loss = kNone;
  std::vector<TensorId> kept_with_output;  // what the output object holds besides: a prefill's cache
  std::vector<TensorId> kept_in_forward;   // what a name holds until the model's forward returns
  std::vector<TensorId> kept_in_backward;  // and until its backward does
  TensorId model_loss = kNone;             // the model's own, which the step divided by the number of micro-batches
  std::vector<TensorId> leaves;            // made by the forward, and given a gradient as a parameter is
  std::vector<HeldByNode> held_by_nodes;   // until the loss and the output are gone
  std::vector<HeldByNode> cleared;         // saved tensors that a node's function lets go of where it last reads them
  /// Buffers that the forward replaces by a new tensor (num_batches_tracked before 2.0): {old, new}.
  std::vector<std::pair<BufferId, BufferId>> replaced_buffers;
  /// Parameters that their module converts in its first forward, for good (`bias.data = bias.data.to(x.dtype)`):
  /// {old, new}. The new one is a constant, as is_constant() says.
  std::vector<std::pair<BufferId, BufferId>> converted_buffers;

  std::span<const std::int32_t> at(Range r) const {
    return {operands.data() + r.begin, static_cast<std::size_t>(r.end - r.begin)};
  }
  /// Room for about so many layers, so that the vectors need not move while they grow.
  void reserve(std::size_t layers_expected);
  Tensor& tensor(TensorId t) { return tensors[static_cast<std::size_t>(t)]; }
  const Tensor& tensor(TensorId t) const { return tensors[static_cast<std::size_t>(t)]; }
  std::int32_t add_strides(const Strides& s) {
    strides.push_back(s);
    return static_cast<std::int32_t>(strides.size()) - 1;
  }
  /// Throws Error when so many more make the graph too large for its indices; append_operands asks for itself.
  void require_operands(std::size_t more) const;
  Range append_operands(std::span<const std::int32_t> ids);
  /// To those of the operation made last. Throws std::logic_error for one that its operator has not.
  void append_attributes(Op& op, std::span<const AttributeValue> values);
};

inline BufferId buffer_of(const Graph& graph, TensorId t) { return graph.tensor(t).buffer; }
/// One of Graph::model_storage that is neither a parameter nor a buffer: the first step makes it where it reads it.
bool is_constant(const Graph& graph, TensorId t);

}  // namespace gpuplan
