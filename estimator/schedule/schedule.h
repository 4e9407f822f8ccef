// Graph -> Schedule: the operations of one step in the order in which PyTorch eager runs them, with what each one reads
// and allocates. Forward as in the graph; backward as autograd's engine runs it: nodes in reverse order of creation
// (highest sequence number first, torch/csrc/autograd/engine.cpp), gradients of several consumers accumulated in the
// input buffers (input_buffer.cpp), each parameter's gradient accumulated right after the node that produced it.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/graph/graph.h"
#include "estimator/operators/operators.h"
#include "estimator/operators/scratch_program.h"
#include "estimator/schedule/phase.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

struct Calls;
struct SplitBackward;

struct ScheduledOp {
  std::string_view name;  // PyTorch's, of a marker its own
  Operator op = Operator::locals_die;
  LayerId layer = kNone;
  Phase phase = Phase::forward;
  bool recompute = false;  // a forward operation that a checkpoint runs again
  // Of `what`, so that a replay need not look there.
  bool product = false;             // a Gemm
  bool adds_bias = false;           // one whose bias cuBLASLt adds
  bool dropout_states = false;      // a DropoutStates
  bool unrecorded = false;          // a Convolution whose workspace cuDNN was not recorded to choose
  std::int32_t kernels = 0;         // cost(*what).kernels
  const Primitive* what = nullptr;  // in the Graph, which must outlive the Schedule; null: a marker
  Range allocates;                  // of Schedule::allocated, in order
  Range reads;                      // of Schedule::reads
  Range scratch;                    // of Schedule::scratch
  Range releases;                   // of Schedule::released: buffers whose last reader this step is
};

struct Schedule {
  std::vector<Buffer> buffers;   // the graph's, then those of backward
  std::vector<ScheduledOp> ops;  // forward, loss, backward
  std::vector<BufferId> allocated, reads, released;
  /// Programs of the steps, in which kNextOutput allocates the step's next output. Without it the outputs come first;
  /// what is left of either is done when the step ends.
  ScratchProgram scratch;
  std::vector<BufferId> gradients;          // one a trained parameter that got one; alive until the next zero_grad
  std::vector<std::int32_t> with_gradient;  // its index in Graph::parameters, ascending
  std::vector<BufferId> gradient_of;        // one a member of with_gradient; they may share one
  /// One a member of with_gradient: before which step AccumulateGrad has it, when the node that made it has run and let
  /// go of what it held.
  std::vector<std::int32_t> gradient_arrives;
  /// A parameter that its own optimizer steps in backward, as a step runs.
  struct Update {
    std::int32_t step;
    std::int32_t parameter;  // which of with_gradient
  };
  std::vector<Update> updates;
  /// A buffer that is replaced when a step has run: old goes, new takes its place.
  struct Replacement {
    std::int32_t step;
    BufferId old_buffer, new_buffer;
  };
  std::vector<Replacement> replacements;
  /// Parameters' gradients that lie in what the forward saved, a new buffer of the next forward: old_buffer has them
  /// from then on.
  std::vector<Replacement> taken;
  /// A constant (ModelBuilder::constant), which the first step makes where it is first read.
  struct FirstRead {
    std::int32_t step;
    TensorId constant;
    BufferId buffer;
    BufferId drops;  // what it is converted of (Graph::converted_buffers), or kNone
  };
  std::vector<FirstRead> constants;      // ascending steps
  std::deque<Primitive> sums;            // gradient accumulations, which are in no graph
  BufferId output = kNone;               // held by the training loop; kNone where nothing holds it
  std::vector<BufferId> beside_results;  // what the output and the loss hold besides
  BufferId loss = kNone;
  std::int32_t weights_begin = kNone;  // of ops: where gradients of weights are computed apart (SplitBackward)
  BufferId model_loss = kNone;  // held beside the output where the model computed the loss and it was divided since
};

/// The step's operations and lifetimes. The graph must outlive the result. `first`: that of the
/// first micro-batch; the parameters have its gradients, to which those of this one are added. Buffers keep their
/// numbers from one to the other. `before`: whose buffers keep theirs; null: those of `first`.
/// `calls`: where to record what each step is given, for who executes it. Where there is a `first`, its gradients are
/// in Calls::gradients already. `split`: of the graph, whose backward is run in two parts then.
Schedule make_schedule(const Graph& graph, const RunConfig& run, const Gpu& gpu, const Schedule* first = nullptr,
                       Calls* calls = nullptr, const Schedule* before = nullptr, const SplitBackward* split = nullptr);

/// Of a stage that is not the last one: what its backward begins with, which its schedule's names hold.
BufferId received_gradient(const Schedule& schedule);

/// The marker at which loss.backward() ends.
constexpr std::string_view kBackwardReturns = "backward returns";
/// The step at which the engine is through, its callbacks too, and lets go of the gradient that it began with; that
/// after the last one where nothing runs backward.
std::int32_t backward_returns(const Schedule& schedule);

/// Which member of with_gradient the parameter is, an index in Graph::parameters; kNone where it gets no gradient.
std::int32_t gradient_place(const Schedule& schedule, std::int32_t parameter);

/// Fills ScheduledOp::releases: every buffer that is allocated in a step and not kept beyond it dies after its last
/// reader.
void find_lifetimes(Schedule& schedule, const std::vector<char>& kept);

}  // namespace gpuplan
