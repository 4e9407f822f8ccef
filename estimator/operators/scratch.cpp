#include "estimator/operators/scratch.h"

#include <algorithm>
#include <bit>
#include <span>
#include <variant>

#include "estimator/base/integers.h"
#include "estimator/operators/cudnn_query.h"
#include "estimator/operators/reduction.h"
#include "estimator/operators/slow_convolution.h"

namespace gpuplan {
namespace {

// aten/src/ATen/native/cuda/Normalization.cuh, flexible_launch_configs: how many blocks share one channel of
// a [rows, channels] input. More than one stage their partial sums in global memory.
struct ChannelsLastGrid {
  std::int64_t x = 1, y = 1;
};

ChannelsLastGrid channels_last_grid(std::int64_t rows, std::int64_t channels, bool cooperative) {
  constexpr std::int64_t kElementsPerThread = 16, kTileWidth = 32, kMaxBlock = 512, kMaxGridY = 128;
  const auto last_power = [](std::int64_t n) {
    return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
  };
  std::int64_t block_x = std::min(last_power(channels), kTileWidth);
  const std::int64_t block_y = std::min(last_power(ceil_div(rows, kElementsPerThread)), kMaxBlock / block_x);
  if (block_x * block_y != kMaxBlock) block_x = std::min(last_power(channels), kMaxBlock / block_y);
  ChannelsLastGrid grid{ceil_div(channels, block_x), std::min(ceil_div(rows, block_y * kElementsPerThread), kMaxGridY)};
  if (cooperative && grid.y < 8) grid.y = 1;
  return grid;
}

// Columns by rows are bmm's own kernel then (torch/_native/ops/bmm_outer_product), as long as Triton is there. The
// releases between 2.11 and this one were not asked.
constexpr PyTorchVersion kMultipliesColumnsItself = 215;

class Appender {
 public:
  Appender(const RunConfig& run, const Gpu& gpu, ScratchProgram& program) : run_(run), gpu_(gpu), writer_(program) {}

  void operator()(const Gemm& g) {
    if (g.batched && g.k == 1 && run_.pytorch >= kMultipliesColumnsItself) return;
    for (const std::int64_t elements : {g.first_copied, g.second_copied})
      if (elements > 0) after(elements * size_of(g.dtype));
    if (run_.pytorch < 200 || g.own_workspace) return;  // 1.13 gives cuBLAS no workspace of its own
    if (g.bias_epilogue) {
      if (lt_workspace(run_.pytorch) == LtWorkspace::each_call) after(kCublasLtWorkspace);
    } else if (!keeps_cublas_workspace(run_.pytorch)) {
      after(cublas_workspace_bytes(gpu_));
    }
  }

  void operator()(const Convolution& c) {
    if (c.input_copy_bytes > 0) before(c.input_copy_bytes);
    if (c.weight_copy_bytes > 0) after(c.weight_copy_bytes);
    if (c.im2col) return append_im2col(c);
    if (c.native || run_.scratch != Scratch::full) return;
    const CudnnWorkspace workspace = cudnn_workspace(cudnn_query(c), gpu_);
    after(workspace.bytes);
    unrecorded_ = !workspace.recorded;
  }

  void operator()(const Reduction& r) {
    if (r.converts) writer_.allocate(checked_mul(r.shape.elements(), size_of(r.input)));
    writer_.append(reduction_program(r.shape, r.reduced, r.input, r.output, gpu_,
                                     r.mean ? ReductionKind::mean : ReductionKind::sum));
  }

  void operator()(const BatchNorm& b) {
    if (!b.native_rows) return;
    const ChannelsLastGrid grid = channels_last_grid(b.rows, b.channels, true);
    const std::int64_t statistics = b.backward ? 2 : 4;  // partial sums a channel and block
    const std::int64_t statistic = b.channels * size_of(b.accumulate);
    const std::int64_t staging = grid.y > 1 ? statistics * statistic * grid.y : 0;
    const std::int64_t semaphores = grid.y > 1 ? grid.x * size_of(DType::int32) : 0;
    if (!b.backward) {
      after(staging);
      after(semaphores);
      return;
    }
    // batch_norm_backward_reduce: the two sums, dweight, dbias, its staging; batch_norm_backward_elemt: dX.
    for (int i = 0; i < 2; ++i) writer_.allocate(statistic);
    writer_.result(2);
    for (const std::int64_t a : {writer_.allocate(staging), writer_.allocate(semaphores)}) writer_.release(a);
    writer_.result();
  }

  // aten/src/ATen/native/cuda/layer_norm_kernel.cu, LaunchGammaBetaBackwardCUDAKernel: very tall inputs with too few
  // columns to fill the device sum blocks of 32 rows each, then those sums.
  void operator()(const LayerNorm& l) {
    constexpr std::int64_t kTall = 64 * 1024, kTile = 32, kMostPartials = 1 << 20;
    if (!l.backward || run_.pytorch < 200 || l.weights == 0) return;
    if (l.rows <= kTall || l.columns / kTile >= gpu_.sm_count / 2) return;
    const std::int64_t blocks = std::min(ceil_div(l.rows, kTile), kMostPartials / l.columns);
    for (int i = 0; i < l.weights; ++i) after(blocks * l.columns * size_of(l.dtype));
    for (int i = 0; i < l.weights; ++i) {
      const std::int64_t sum = writer_.allocate(l.columns * size_of(l.dtype));
      writer_.append(reduction_program({blocks, l.columns}, 1, l.dtype, l.dtype, gpu_));
      writer_.release(sum);
    }
  }

  // aten/src/ATen/native/cuda/group_norm_kernel.cu, after the results: the sums and coefficients of each sample's
  // channels and groups. 16-bit inputs have their moments in fp32 from 2.10 on.
  void operator()(const GroupNorm& g) {
    const std::int64_t acc = size_of(accumulate_type(g.dtype));
    const std::int64_t channels = g.n * g.channels * acc, groups = g.n * g.groups * acc;
    const bool old = run_.pytorch < 210;
    if (!g.backward) {
      if (!old && accumulate_type(g.dtype) != g.dtype) twice(groups);
      if (g.affine && g.area > 1) twice(channels);
      return;
    }
    if (old || g.area > 1) twice(channels);
    if (!g.wants_input) return;
    twice(groups);
    if (g.affine && g.area > 1 && !g.channels_last) after(channels);
  }

  void operator()(const Softmax& s) {
    for (int i = 0; i < s.product_scratch + s.copies; ++i) after(s.elements * size_of(s.dtype));
  }

  void operator()(const Loss& l) {
    const std::int64_t bytes = checked_mul(l.elements, size_of(l.dtype));
    for (int i = 0; i < l.temporaries_before; ++i) after(bytes);
    writer_.result();
    for (int i = 0; i < l.temporaries_after; ++i) after(bytes);
    writer_.append(
        reduction_program({l.elements}, 1, l.dtype, l.dtype, gpu_, l.mean ? ReductionKind::mean : ReductionKind::sum));
  }

  void operator()(const Lookup& l) {
    if (!l.backward) return;
    writer_.append(embedding_backward_program(l.indices, l.vocabulary, l.features, l.dtype, gpu_, run_.pytorch, l.bag));
  }

  void operator()(const OpaqueKernel& s) { writer_.append(std::span(s.program).first(index(s.actions))); }

  void operator()(const Recurrence& r) {
    writer_.result(r.results_before);
    after(recurrence_workspace_bytes(r, gpu_));
    writer_.result(r.results_after);
  }

  template <class Other>
  void operator()(const Other&) const {}

  bool unrecorded() const { return unrecorded_; }

 private:
  // slow_conv2d (aten/src/ATen/native/cuda/ConvolutionMM2d.cu). The products of the samples follow each other, so one
  // workspace stands for all of them.
  void append_im2col(const Convolution& c) {
    if (c.makes_columns) after(column_bytes(c));
    if (!keeps_cublas_workspace(run_.pytorch)) after(cublas_workspace_bytes(gpu_));
  }
  void after(std::int64_t bytes) {
    if (bytes > 0) writer_.allocate(bytes);
  }
  void twice(std::int64_t bytes) {
    for (int i = 0; i < 2; ++i) writer_.allocate(bytes);
  }
  void before(std::int64_t bytes) {
    after(bytes);
    writer_.result();
  }

  const RunConfig& run_;
  const Gpu& gpu_;
  ScratchWriter writer_;
  bool unrecorded_ = false;
};

}  // namespace

bool append_scratch(const Primitive& op, const RunConfig& run, const Gpu& gpu, ScratchProgram& program) {
  if (run.scratch == Scratch::none) return false;
  Appender appender(run, gpu, program);
  std::visit(appender, op);
  return appender.unrecorded();
}

std::int64_t cublas_workspace_bytes(const Gpu& gpu) {
  return gpu.capability_major == 9 ? std::int64_t{32} << 20
                                   : 2 * (std::int64_t{4096} << 10) + 8 * (std::int64_t{16} << 10);
}

}  // namespace gpuplan
