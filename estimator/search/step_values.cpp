#include "estimator/search/step_values.h"

#include <bit>
#include <concepts>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace gpuplan {

namespace {

template <class T>
concept Other = std::is_enum_v<T> ||(std::integral<T> && !std::same_as<T, std::int64_t>);

// Structures are taken apart by all their members, so that one more does not compile.
class StepReader {
 public:
  explicit StepReader(StepValues& to) : to_(to) {}

  template <class... Parts>
  void operator()(Parts&... parts) {
    (read(parts), ...);
  }

  void read(std::int64_t& size) { to_.sizes.push_back(&size); }
  template <Other T>
  void read(const T& other) {
    to_.others.push_back(static_cast<std::int64_t>(other));
  }
  void read(const double& other) { to_.others.push_back(std::bit_cast<std::int64_t>(other)); }
  void read(const std::string_view& name) {
    to_.others.push_back(static_cast<std::int64_t>(std::hash<std::string_view>{}(name)));
  }
  void read(const std::string& name) { read(std::string_view(name)); }

  void read(Shape& of) {
    read(of.rank());
    for (int i = 0; i < Shape::kMaxRank; ++i) read(of.place(i));
  }
  void read(Strides& of) {
    for (int i = 0; i < Shape::kMaxRank; ++i) read(of.place(i));
  }
  void read(Range& of) { (*this)(of.begin, of.end); }
  template <class T>
  void read(std::vector<T>& of) {
    read_all(of);
  }
  template <class T>
  void read(std::deque<T>& of) {
    read_all(of);
  }
  template <class A, class B>
  void read(std::pair<A, B>& of) {
    (*this)(of.first, of.second);
  }

  // --- operations -------------------------------------------------------------------------------------------------

  void read(Primitive& of) {
    read(of.index());
    std::visit([this](auto& what) { read(what); }, of);
  }
  void read(Gemm& of) {
    auto& [batch, m, n, k, bias_epilogue, dtype, gradient, batched, own_workspace, first_copied, second_copied] = of;
    (*this)(batch, m, n, k, bias_epilogue, dtype, gradient, batched, own_workspace, first_copied, second_copied);
  }
  void read(Convolution& of) {
    auto& [pass, n, c, h, w, k, p, q, r, s, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, native,
           im2col, makes_columns, input_copy_bytes, weight_copy_bytes, channels_last, dtype] = of;
    (*this)(pass, n, c, h, w, k, p, q, r, s, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, native,
            im2col, makes_columns, input_copy_bytes, weight_copy_bytes, channels_last, dtype);
  }
  void read(Elementwise& of) {
    auto& [elements, flops] = of;
    (*this)(elements, flops);
  }
  void read(BatchNorm& of) {
    auto& [elements, training, backward, channels, rows, native_rows, cudnn, accumulate] = of;
    (*this)(elements, training, backward, channels, rows, native_rows, cudnn, accumulate);
  }
  void read(LayerNorm& of) {
    auto& [rows, columns, backward, weights, dtype] = of;
    (*this)(rows, columns, backward, weights, dtype);
  }
  void read(GroupNorm& of) {
    auto& [n, channels, area, groups, affine, channels_last, backward, wants_input, dtype] = of;
    (*this)(n, channels, area, groups, affine, channels_last, backward, wants_input, dtype);
  }
  void read(Reduction& of) {
    auto& [shape, reduced, input, output, mean, converts] = of;
    (*this)(shape, reduced, input, output, mean, converts);
  }
  void read(Pooling& of) {
    auto& [windows, taps] = of;
    (*this)(windows, taps);
  }
  void read(Softmax& of) {
    auto& [elements, backward, product_scratch, copies, dtype] = of;
    (*this)(elements, backward, product_scratch, copies, dtype);
  }
  void read(NllLoss& of) {
    auto& [elements, backward] = of;
    (*this)(elements, backward);
  }
  void read(Loss& of) {
    auto& [elements, flops, before, after, mean, dtype] = of;
    (*this)(elements, flops, before, after, mean, dtype);
  }
  void read(Lookup& of) {
    auto& [indices, vocabulary, features, backward, bag, dtype] = of;
    (*this)(indices, vocabulary, features, backward, bag, dtype);
  }
  // What these two allocate was worked out when they were lowered, by rules that round and choose.
  void read(const OpaqueKernel& of) {
    const auto& [macs, recompute_macs, elementwise_flops, program, actions] = of;
    for (const std::int64_t n : {macs, recompute_macs, elementwise_flops}) to_.others.push_back(n);
    read(actions);
    to_.others.insert(to_.others.end(), program.begin(), program.begin() + actions);
  }
  void read(const Recurrence& of) {
    const auto& [stack, steps, batch, macs, results_before, results_after, training, backward, dtype] = of;
    const auto& [cell, bias, bidirectional, skip_input, persistent, dropout, padded_io, value_bytes, input, hidden,
                 projection, layers] = stack;
    (*this)(results_before, results_after, training, backward, dtype);
    (*this)(cell, bias, bidirectional, skip_input, persistent, dropout, padded_io);
    for (const std::int64_t n : {steps, batch, macs, value_bytes, input, hidden, projection, layers})
      to_.others.push_back(n);
  }
  void read(const DropoutStates&) {}
  void read(Copy& of) { read(of.elements); }
  void read(Fill& of) { read(of.elements); }
  void read(Resample& of) {
    auto& [elements, taps] = of;
    (*this)(elements, taps);
  }
  void read(const Marker&) {}

  // --- the graph --------------------------------------------------------------------------------------------------

  void read(Buffer& of) {
    auto& [bytes, category, layer] = of;
    (*this)(bytes, category, layer);
  }
  void read(Tensor& of) {
    auto& [shape, strides, dtype, buffer, requires_grad, offset, contiguous, trained, distributed, of_trained, producer,
           output_index, replaced_by] = of;
    (*this)(shape, strides, dtype, buffer, requires_grad, offset, contiguous, trained, distributed, of_trained,
            producer, output_index, replaced_by);
  }
  void read(Op& of) {
    auto& [kind, what, layer, reads, writes, beside, attributes] = of;
    (*this)(kind, what, layer, reads, writes, beside, attributes);
  }
  void read(BackwardValue& of) {
    auto& [shape, dtype, placing, view, strides, alias_of, storage_bytes, start, dim] = of;
    (*this)(shape, dtype, placing, view, strides, alias_of, storage_bytes, start, dim);
  }
  void read(GradientEdge& of) {
    auto& [input, value] = of;
    (*this)(input, value);
  }
  void read(AutogradNode& of) {
    auto& [name, layer, op, outputs, saved, ops, locals, edges] = of;
    (*this)(name, layer, op, outputs, saved, ops, locals, edges);
  }
  void read(Layer& of) {
    auto& [name, type, mark, inputs, output, ops, parameters, module, dispatched] = of;
    (*this)(name, type, inputs, output, ops, parameters, module, dispatched);
  }
  void read(ParameterTensor& of) {
    auto& [tensor, name, layer, trainable, partial_elements, adapter, packed] = of;
    (*this)(tensor, name, layer, trainable, partial_elements, adapter, packed);
  }
  void read(BufferTensor& of) {
    auto& [tensor, name, layer] = of;
    (*this)(tensor, name, layer);
  }
  void read(Initial& of) {
    auto& [kind, value] = of;
    (*this)(kind, value);
  }
  void read(FlatWeights& of) {
    auto& [whole, parts] = of;
    (*this)(whole, parts);
  }
  void read(HeldByNode& of) {
    auto& [node, tensor] = of;
    (*this)(node, tensor);
  }
  void read(Checkpoint& of) {
    auto& [ops, nodes, given, reentrant, returned, selective] = of;
    (*this)(ops, nodes, given, reentrant, returned, selective);
  }
  void read(Graph& of) {
    auto& [model, buffers, tensors, operands, attributes, forward_ops, loss_begin, division, backward_ops, saved,
           locals, strides, edges, nodes, layers, parameters, named_buffers, model_storage, labels, tied_shapes,
           initial_values, flat_weights, initialization, knows_construction, adapters, saved_modules, checkpoints,
           wrapped, autocast_casts, inputs, output, loss, kept_with_output, kept_in_forward, kept_in_backward,
           model_loss, leaves, held_by_nodes, cleared, replaced_buffers, converted_buffers] = of;
    (*this)(model, buffers, tensors, operands, forward_ops, loss_begin, division, backward_ops, saved, locals, strides,
            edges);
    (*this)(nodes, layers, parameters, named_buffers, model_storage, labels, tied_shapes, initial_values, flat_weights,
            knows_construction, adapters, saved_modules);
    (*this)(checkpoints, wrapped, autocast_casts, inputs, output, loss, kept_with_output, kept_in_forward,
            kept_in_backward, model_loss, leaves, held_by_nodes, cleared, replaced_buffers, converted_buffers);
    fixed(initialization);
  }

  // --- the schedules ----------------------------------------------------------------------------------------------

  void read(ScheduledOp& of) {
    auto& [name, op, layer, phase, recompute, product, adds_bias, dropout_states, unrecorded, kernels, what, allocates,
           reads, scratch, releases] = of;
    (*this)(name, layer, phase, recompute, product, adds_bias, dropout_states, kernels, allocates, reads, releases);
    to_.others.push_back(what == nullptr ? -1 : static_cast<std::int64_t>(what->index()));
  }
  void read(Schedule::Update& of) {
    auto& [step, parameter] = of;
    (*this)(step, parameter);
  }
  void read(Schedule::Replacement& of) {
    auto& [step, old_buffer, new_buffer] = of;
    (*this)(step, old_buffer, new_buffer);
  }
  void read(Schedule::FirstRead& of) {
    auto& [step, constant, buffer, drops] = of;
    (*this)(step, constant, buffer, drops);
  }
  void read(Schedule& of) {
    auto& [buffers, steps, allocated, reads, released, scratch, gradients, with_gradient, gradient_of, gradient_arrives,
           updates, replacements, taken, constants, sums, output, beside_results, loss, weights_begin, model_loss] = of;
    (*this)(buffers, steps, allocated, reads, released, gradients, with_gradient, gradient_of, gradient_arrives,
            updates);
    (*this)(replacements, taken, constants, sums, output, beside_results, loss, weights_begin, model_loss);
  }
  void read(OperandView& of) {
    auto& [buffer, shape, strides, offset, dtype] = of;
    (*this)(buffer, shape, strides, offset, dtype);
  }
  void read(KernelCall& of) {
    auto& [step, reads, beside, writes, attributes] = of;
    (*this)(step, reads, beside, writes, attributes);
  }
  void read(Calls& of) {
    auto& [calls, operands, attributes, gradients] = of;
    (*this)(calls, operands, gradients);
  }
  void read(MicroBatchSchedules& of) {
    auto& [schedules, calls] = of;
    (*this)(schedules, calls);
  }

  // --- the optimizer, to whom no batch is known ---------------------------------------------------------------------

  void read(const OptimizerProgram& of) {
    const auto& [events, kernels, elementwise_flops, product_flops, product_type, bytes_moved] = of;
    (*this)(product_type);
    for (const OptimizerEvent& event : events) {
      const auto& [kind, slot, bytes] = event;
      (*this)(kind, slot);
      to_.others.push_back(bytes);
    }
    to_.others.push_back(kernels);
    for (const std::int64_t of_all : {elementwise_flops, product_flops, bytes_moved}) to_.others.push_back(of_all);
  }
  // Labels are as many as the batch has.
  void read(TrainerTensors& of) {
    auto& [begin, batch, loss, backward, clipped, end, labels_bytes] = of;
    (*this)(begin, loss, backward, clipped, end, labels_bytes);
    read(batch.events.size());
    for (OptimizerEvent& event : batch.events) (*this)(event.kind, event.slot, event.bytes);
  }
  void read(OptimizerWork& of) {
    auto& [construction, scaler, clip, first, steady, first_of, steady_of, trainer, managed] = of;
    (*this)(construction, scaler, clip, first, steady, first_of, steady_of, trainer);
    to_.others.push_back(managed);
  }

 private:
  template <class All>
  void read_all(All& of) {
    read(of.size());
    for (auto& part : of) read(part);
  }
  void fixed(const std::vector<std::int64_t>& of) {
    read(of.size());
    to_.others.insert(to_.others.end(), of.begin(), of.end());
  }

  StepValues& to_;
};

}  // namespace

StepValues values_of(RankStep& step) {
  StepValues values;
  StepReader reader(values);
  reader(step.graph, step.micro_batches, step.optimizer);
  return values;
}

}  // namespace gpuplan
