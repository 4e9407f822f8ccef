// BatchNorm1d, BatchNorm2d: y = (x - mean) / sqrt(var + eps) * weight + bias, a channel at a time.
//
// Backend by aten/src/ATen/native/Normalization.cpp, _select_batch_norm_backend: cuDNN for inputs of three or more
// dimensions in fp32 or fp64, in fp16 with fp32 weights (autocast), when weight, bias and running statistics are there,
// eps >= 1e-5 and the batch is within cuDNN's limit; PyTorch's own kernels otherwise. cuDNN is given tensors in the
// memory format that the input suggests, copied where they lie otherwise. Both save the input, save_mean and
// save_invstd (in the accumulate type). Backward: cuDNN and the native kernel of [N, C, ...] allocate dX, dweight,
// dbias; the native one for channels-last, [N, C] among it, the two sums, dweight, dbias, then dX. Before 2.0
// num_batches_tracked was replaced by a new tensor in every training step (torch/nn/modules/batchnorm.py).

#include <array>
#include <limits>

#include "estimator/aten/views.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::batch_norm {
namespace {

constexpr std::int64_t kCudnnBatchTraining = 880801, kCudnnBatchEval = 65535;  // Normalization.cpp
constexpr double kCudnnMinimumEpsilon = 1e-5;                                  // CUDNN_BN_MIN_EPSILON

struct Backend {
  bool cudnn = false;
  bool batch_statistics = true;  // of this batch: training, or no running statistics
  bool channels_last = false;    // the native kernels whose channels lie next to each other
};

Backend backend_of(const LayerBuilder& b, TensorId x, bool affine, bool running, double eps) {
  const Shape in = b.shape(x);
  const DType dtype = b.dtype(x);
  Backend backend;
  backend.batch_statistics = b.training() || !running;
  const bool type = dtype == DType::fp32 || dtype == DType::fp64 ||
                    (dtype == DType::fp16 && b.run().precision == DType::fp32 && !b.before(200));
  backend.cudnn = in.rank() >= 3 && affine && (running || b.training()) && type && eps >= kCudnnMinimumEpsilon &&
                  in[0] <= (b.training() ? kCudnnBatchTraining : kCudnnBatchEval);
  // batch_norm_use_channels_last_kernels
  backend.channels_last =
      !backend.cudnn && (is_channels_last(in, b.strides(x)) || (b.contiguous(x) && b.strides(x)[1] == 1));
  return backend;
}

void backward(NodeBuilder& node, const LayerBuilder& b, const Backend& backend, TensorId x, TensorId mean,
              TensorId invstd, TensorId weight, TensorId bias, std::span<const TensorId> running, double eps) {
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const OutputSpec dx{shape, dtype, Placing::given, strides_in(b.suggested_format(x), shape)};
  const OutputSpec parameter{{shape[1]}, weight != kNone ? b.dtype(weight) : dtype};
  // The native kernel of [N, C, ...] makes the gradients of the weights that are there.
  const std::size_t made = 1U + (weight != kNone ? 1U : 0U) + (bias != kNone ? 1U : 0U);
  const BatchNorm work{.elements = shape.elements(),
                       .training = backend.batch_statistics,
                       .backward = true,
                       .channels = shape[1],
                       .rows = shape.elements() / shape[1],
                       .native_rows = backend.channels_last && backend.batch_statistics,
                       .cudnn = backend.cudnn && backend.batch_statistics,
                       .accumulate = accumulate_type(dtype)};
  node.save(x);
  for (const TensorId t : running) node.save(t);
  for (const TensorId t : {weight, mean, invstd})
    if (t != kNone) node.save(t);
  Operand gx = 0, gw = 0, gb = 0;
  if (backend.cudnn) {
    const std::array<OutputSpec, 3> outputs{dx, parameter, parameter};
    const Operand dy = node.contiguous(node.grad(), b.suggested_format(x));
    const auto r = node.run_many(Operator::cudnn_batch_norm_backward, work, {x, dy, weight}, outputs);
    gx = r[0], gw = r[1], gb = r[2];
  } else if (work.native_rows) {
    const std::array<OutputSpec, 3> outputs{parameter, parameter, dx};
    const auto r = node.run_many(Operator::native_batch_norm_backward, work, {node.grad(), x}, outputs);
    gw = r[0], gb = r[1], gx = r[2];
  } else {
    const std::array<OutputSpec, 3> outputs{dx, parameter, parameter};
    const auto r = node.run_many(Operator::native_batch_norm_backward, work, {node.grad(), x},
                                 std::span(outputs).first(weight == kNone ? outputs.size() : made));
    gx = r[0];
    if (r.size() > 1) gw = r[1];
    if (r.size() > 2) gb = r[2];
  }
  const auto given = [](TensorId t) { return t == kNone ? kAbsent : t; };
  node.extra({given(weight), given(mean), given(invstd), running.empty() ? kAbsent : running[0],
              running.empty() ? kAbsent : running[1]});
  node.attributes({{Attribute::eps, eps}});
  if (node.needs(x)) node.give(x, gx);
  if (node.needs(weight)) node.give(weight, gw);
  if (node.needs(bias)) node.give(bias, gb);
}

void lower_batch_norm(LayerBuilder& b, bool two_d) {
  TensorId x = b.input();
  const Shape in = b.shape(x);
  if (two_d) b.expect_rank(4, "[N, C, H, W]");
  if (!two_d && in.rank() != 2 && in.rank() != 3) b.fail("expects an input [N, C] or [N, C, L], got " + to_string(in));
  const std::int64_t c = b.size("num_features", in[1], "channels");
  if (b.training() && in.elements() == c)
    b.fail("", "expects more than one value per channel when training, got input size " + to_string(in),
           in[0] == 1 ? "needs a batch of 2 or more" : "");
  const DType dtype = b.dtype(x);
  const bool affine = b.boolean("affine");
  const bool running = b.boolean("track_running_stats");
  const bool computed = b.input_count() > 1;  // weights that the model computes
  if (computed && !affine) b.fail("affine", "has weights as inputs", "leave it out, or give one input");
  for (int i = 1; i < b.input_count(); ++i)
    if (!(b.shape(b.input(i)) == Shape{c})) b.fail("expects weights of " + to_string(Shape{c}));
  const TensorId weight = computed ? b.input(1) : affine ? b.parameter("weight", {c}) : kNone;
  const TensorId bias = b.input_count() > 2 ? b.input(2) : affine && !computed ? b.parameter("bias", {c}) : kNone;
  std::array<TensorId, 2> averages{kNone, kNone};
  if (running) {
    averages[0] = b.buffer("running_mean", {c}, b.run().precision);
    averages[1] = b.buffer("running_var", {c}, b.run().precision, {Initial::number, 1});
    const TensorId batches = b.buffer("num_batches_tracked", {}, DType::int64);
    if (b.training() && b.before(200)) ModelBuilder(b).replace_buffer(batches);
  }

  const double eps = b.real("eps");
  const Backend backend = backend_of(b, x, bias != kNone, running, eps);
  const MemoryFormat format = b.suggested_format(x);
  if (backend.cudnn) x = aten::contiguous(b, x, format);
  const OutputSpec out{in, dtype, backend.cudnn ? Placing::given : Placing::like, strides_in(format, in)};
  const OutputSpec statistic{{c}, accumulate_type(dtype)};
  const BatchNorm work{.elements = in.elements(),
                       .training = backend.batch_statistics,
                       .backward = false,
                       .channels = c,
                       .rows = in.elements() / c,
                       .native_rows = backend.channels_last && backend.batch_statistics,
                       .cudnn = backend.cudnn,
                       .accumulate = accumulate_type(dtype)};
  const std::array<OutputSpec, 3> outputs{out, statistic, statistic};
  // In eval cuDNN hands back empty statistics, and so did the native kernel of 1.13.
  const bool statistics = backend.batch_statistics || (!backend.cudnn && !b.before(200));
  const auto results = b.emit_many(Operator::batch_norm, work, {x}, std::span(outputs).first(statistics ? 3U : 1U));
  b.extra({weight, bias, averages[0], averages[1]});
  b.attributes(
      {{Attribute::momentum, b.is_none("momentum") ? std::numeric_limits<double>::quiet_NaN() : b.real("momentum")},
       {Attribute::eps, eps}});
  if (computed) {
    std::vector<TensorId> given{weight};
    if (bias != kNone) given.push_back(bias);
    b.hold(given);  // arguments of the call
  }
  const TensorId y = results[0];
  const TensorId mean = statistics ? results[1] : kNone;
  const TensorId invstd = statistics ? results[2] : kNone;
  if (NodeBuilder node =
          b.node(backend.cudnn ? "CudnnBatchNormBackward0" : "NativeBatchNormBackward0", y, {x, weight, bias}))
    backward(node, b, backend, x, mean, invstd, weight, bias,
             running ? std::span<const TensorId>(averages) : std::span<const TensorId>(), eps);
  b.output(y);
}

const std::vector<ParameterDef> kParameters = {
    {"num_features", ParameterType::size, "", "channels of the input, or _"},
    {"eps", ParameterType::real, "1e-05", "added to the variance; below 1e-5 rules cuDNN out"},
    {"momentum", ParameterType::real, "0.1", "of the running statistics; changes no size"},
    {"affine", ParameterType::boolean, "True", "learnable weight and bias [C]"},
    {"track_running_stats", ParameterType::boolean, "True", "running_mean, running_var [C] and num_batches_tracked"},
};

LayerDef batch_norm(std::string_view name, std::string_view summary, void (*lower)(LayerBuilder&),
                    LayerExample example) {
  return {.name = name,
          .summary = summary,
          .math =
              "y = (x - mean) / sqrt(var + eps) * weight + bias over each channel.\n"
              "Saved: x, save_mean [C], save_invstd [C]. Buffers: running_mean, running_var [C], num_batches_tracked "
              "(8 bytes).",
          .parameters = kParameters,
          .max_inputs = 3,  // weight and bias that the model computes
          .lower = lower,
          .example = example};
}

const LayerDef kLayers[] = {
    batch_norm("BatchNorm1d", "batch normalisation over [N, C] or [N, C, L]",
               [](LayerBuilder& b) { lower_batch_norm(b, false); },
               {.call = "BatchNorm1d(512)",
                .input_shapes = {{128, 512}},
                .parameters = 1024,
                .saved_bytes = 266'240,
                .derivation = "x is 128*512*4 bytes, two statistics of 512*4"}),
    batch_norm("BatchNorm2d", "batch normalisation over [N, C, H, W]",
               [](LayerBuilder& b) { lower_batch_norm(b, true); },
               {.call = "BatchNorm2d(64)",
                .input_shapes = {{8, 64, 56, 56}},
                .parameters = 128,
                .saved_bytes = 6'423'040,
                .derivation = "x is 8*64*56*56*4 bytes, two statistics of 64*4"}),
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::batch_norm
